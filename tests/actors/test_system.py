"""An actor system of ours starts, answers, and ends without leaving anything, in order or by force."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from thespian.actors import ActorSystem, ActorSystemException

from runtime.actors.deathwatch import life_of
from runtime.actors.hosting import Start
from runtime.actors.rltcp import ActorSystemBase
from runtime.actors.sweep import wait_until_gone
from runtime.actors.system import ActorSystemError, SystemHandle, open_actor_system
from tests.actors.samples import Echo, Mute, Parent, Slow, Witness
from tests.actors.steps import ANSWER_S, heard, listening_ports, started

CLOSE_S_MAX = 5.0


def zombies() -> set[int]:
    return {child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE}


def test_an_actor_answers_from_a_process_of_its_own(system: SystemHandle) -> None:
    pid, message = system.ask(started(system, Echo), "hello", ANSWER_S)
    assert message == "hello"
    assert pid in system.pids()
    assert pid not in (os.getpid(), system.admin_pid)


def test_every_listener_is_on_loopback(system: SystemHandle) -> None:
    parent = started(system, Parent)
    assert system.ask(parent, ("create", "echo"), ANSWER_S)[0] == "created"
    address = system.ask(parent, ("address", 0), ANSWER_S)
    assert system.ask(address, 1, ANSWER_S)[1] == 1
    pids = system.pids()
    assert len(pids) == 4  # admin, logger, parent, child
    ports = listening_ports((*pids, os.getpid()))
    assert len(ports) >= 5
    assert {ip for ip, _ in ports} == {"127.0.0.1"}


def test_the_key_is_neither_on_a_command_line_nor_in_an_environment(log_file: Path) -> None:
    key = b"k" * 40
    with open_actor_system(run_id="test", log_file=log_file, key=key) as system:
        started(system, Echo)
        for pid in system.pids():
            process = psutil.Process(pid)
            text = "\0".join([*process.cmdline(), *process.environ(), *process.environ().values()])
            assert "kkkkkkkkkk" not in text
            assert b"k".hex() * 10 not in text


def test_a_short_key_is_refused(log_file: Path) -> None:
    with pytest.raises(ValueError, match="expected at least 32"):
        open_actor_system(run_id="test", log_file=log_file, key=b"short")


def test_a_launcher_that_has_ended_cannot_be_watched(log_file: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(ANSWER_S)
    with pytest.raises(ActorSystemError, match="has ended; expected a running one"):
        open_actor_system(run_id="test", log_file=log_file, watch_pid=ended.pid)


def test_this_process_is_left_as_it_was(log_file: Path) -> None:
    before = dict(os.environ)
    threads = threading.active_count()
    children = {child.pid for child in psutil.Process().children()}
    with open_actor_system(run_id="test", log_file=log_file) as system:
        system.ask(started(system, Echo), 1, ANSWER_S)
        assert dict(os.environ) == before
    assert dict(os.environ) == before
    assert threading.active_count() == threads
    assert {child.pid for child in psutil.Process().children()} == children


def test_closing_is_quick_complete_and_may_be_repeated(log_file: Path) -> None:
    before = zombies()  # Thespian's own systems, in other tests of this process, leave some
    system = open_actor_system(run_id="test", log_file=log_file)
    started(system, Echo)
    lives = [life_of(pid) for pid in system.pids()]
    begin = time.monotonic()
    system.close()
    assert time.monotonic() - begin < CLOSE_S_MAX
    assert wait_until_gone(lives, 0.0) == []
    assert zombies() <= before
    system.close()
    assert not system.is_alive()


def test_two_systems_at_once_and_one_after_the_other(log_file: Path) -> None:
    with (
        open_actor_system(run_id="one", log_file=log_file) as one,
        open_actor_system(run_id="one", log_file=log_file) as two,
    ):
        echo_one, echo_two = started(one, Echo), started(two, Echo)
        assert one.marker != two.marker
        one.close()
        assert two.ask(echo_two, "still here", ANSWER_S)[1] == "still here"
    with open_actor_system(run_id="one", log_file=log_file) as three:
        assert three.ask(started(three, Echo), 3, ANSWER_S)[1] == 3
        assert echo_one is not None


def test_a_stopped_actor_is_killed_when_the_system_closes(log_file: Path) -> None:
    system = open_actor_system(run_id="test", log_file=log_file)
    pid, _ = system.ask(started(system, Echo), 1, ANSWER_S)
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    system.close(deadline_s=3.0)
    assert time.monotonic() - begin < 4.0
    assert system.pids() == ()


def test_closing_after_the_admin_was_killed_is_quick(log_file: Path) -> None:
    system = open_actor_system(run_id="test", log_file=log_file)
    started(system, Echo)
    os.kill(system.admin_pid, signal.SIGKILL)
    begin = time.monotonic()
    system.close()
    assert time.monotonic() - begin < CLOSE_S_MAX
    assert system.pids() == ()


def test_all_end_when_the_admin_is_killed(log_file: Path) -> None:
    with open_actor_system(run_id="test", log_file=log_file) as system:
        parent = started(system, Parent)
        system.ask(parent, ("create", "echo"), ANSWER_S)
        lives = [life_of(pid) for pid in system.pids()]
        os.kill(system.admin_pid, signal.SIGKILL)
        assert wait_until_gone(lives, 3.0) == []


def test_the_system_survives_the_death_of_its_logger(system: SystemHandle) -> None:
    echo = started(system, Echo)
    echo_pid, _ = system.ask(echo, 1, ANSWER_S)
    (logger,) = set(system.pids()) - {system.admin_pid, echo_pid}
    life = life_of(logger)
    os.kill(logger, signal.SIGKILL)
    assert wait_until_gone([life], 3.0) == []
    assert system.ask(echo, 2, ANSWER_S) == (echo_pid, 2)
    # The admin has started another one: only with a logger does it create actors.
    assert system.ask(started(system, Echo), 3, ANSWER_S)[1] == 3


@pytest.mark.parametrize("kind", ["echo", "slow"])
def test_c38a_closing_while_a_child_is_being_created_leaves_nothing(log_file: Path, kind: str) -> None:
    system = open_actor_system(run_id="test", log_file=log_file)
    parent = started(system, Parent)
    for _ in range(3):
        assert system.ask(parent, ("create", kind), ANSWER_S)[0] == "created"
    begin = time.monotonic()
    system.close()
    assert time.monotonic() - begin < CLOSE_S_MAX
    assert system.pids() == ()


def test_an_interrupt_to_all_stops_nobody(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, child_pid = system.ask(parent, ("create", "slow"), ANSWER_S)
    for pid in system.pids():
        os.kill(pid, signal.SIGINT)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, "alive", ANSWER_S) == (child_pid, "alive")
    assert system.is_alive()


def test_no_process_of_the_system_is_in_the_terminals_group(system: SystemHandle) -> None:
    started(system, Echo)
    assert os.getpgrp() not in {os.getpgid(pid) for pid in system.pids()}


def test_a_terminated_actor_ends_at_once(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, pid = system.ask(parent, ("create", "echo"), ANSWER_S)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, 1, ANSWER_S) == (pid, 1)
    os.kill(pid, signal.SIGTERM)
    assert heard(system, lambda message: message[:2] == ("exited", index)) is not None


def test_c38c_a_storm_of_timers_does_not_delay_the_end(log_file: Path) -> None:
    system = open_actor_system(run_id="test", log_file=log_file)
    witness = started(system, Witness)
    system.tell(witness, "storm")
    begin = time.monotonic()
    assert system.ask(witness, "through the storm", ANSWER_S) == "through the storm"
    assert time.monotonic() - begin < 1.0
    system.close()
    assert time.monotonic() - begin < CLOSE_S_MAX
    assert system.pids() == ()


def test_nothing_is_written_to_this_process_output(log_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_actor_system(run_id="test", log_file=log_file) as system:
        system.tell(started(system, Witness), "raise")
        os.kill(system.admin_pid, signal.SIGUSR2)
        assert wait_until_gone([life_of(system.admin_pid)], ANSWER_S) == []
    assert capfd.readouterr() == ("", "")


def test_a_system_that_does_not_come_up_in_time_is_given_up_and_swept(log_file: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(ActorSystemError, match=r"was not ready within 0.01 s; is the machine overloaded\?"):
        open_actor_system(run_id="test", log_file=log_file, deadline_s=0.01)
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ActorSystemError, match=f"cannot listen on 127.0.0.1:{port}"):
            ActorSystemBase(SimpleNamespace(capabilities={"Admin Port": port}))


def test_thespian_finds_the_base_by_its_name() -> None:
    system = ActorSystem("rltcp", {}, transientUnique=True)
    try:
        assert system.ask(system.createActor("tests.actors.samples.Plain"), "hi", ANSWER_S) == "hi"
    finally:
        system.shutdown()
        system_gone = not system._systemBase
    assert system_gone


def test_process_titles_say_what_runs(system: SystemHandle) -> None:
    pid, _ = system.ask(started(system, Echo, "EnvWorker 0"), 1, ANSWER_S)
    title = "".join(psutil.Process(pid).cmdline())
    assert title.startswith("unity-rl EnvWorker 0 (run test)")


def test_an_actor_that_cannot_start_is_reported_to_the_outside(system: SystemHandle) -> None:
    with pytest.raises(ActorSystemException):
        system.system.createActor("tests.actors.samples.DiesAtBirth")


def test_records_of_actors_go_to_the_file_of_the_run_with_their_fields(system: SystemHandle, log_file: Path) -> None:
    assert system.ask(started(system, Parent), "log", ANSWER_S) == "logged"
    assert "WARNING samples: worker restarted worker=3 incarnation=2\n" in log_file.read_text()


def test_a_killed_top_actor_takes_its_children_with_it_and_is_seen_to_have_ended(system: SystemHandle) -> None:
    top = system.create(Parent, Start(role="Supervisor"))
    assert top.pid in system.pids()
    assert not system.has_ended(top)
    _, index, child_pid = system.ask(top.address, ("create", "echo"), ANSWER_S)
    child = system.ask(top.address, ("address", index), ANSWER_S)
    assert system.ask(child, 1, ANSWER_S) == (child_pid, 1)
    lives = [life_of(top.pid or 0), life_of(child_pid)]
    os.kill(top.pid or 0, signal.SIGKILL)
    assert wait_until_gone(lives, 3.0) == []
    assert system.has_ended(top)
    assert system.is_alive()


def test_an_actor_that_never_starts_is_given_up(system: SystemHandle) -> None:
    with pytest.raises(ActorSystemError, match=r"nobody did not answer within 0\.5 s; the log of the run says why"):
        system.create(Mute, Start(role="nobody"), timeout_s=0.5)


def test_a_system_outlives_the_thread_that_opened_it(log_file: Path) -> None:
    opened: list[SystemHandle] = []
    thread = threading.Thread(target=lambda: opened.append(open_actor_system(run_id="test", log_file=log_file)))
    thread.start()
    thread.join(30)
    with opened[0] as system:
        assert system.ask(started(system, Echo), 1, ANSWER_S)[1] == 1


def test_slow_actors_are_waited_for(system: SystemHandle) -> None:
    assert system.ask(started(system, Slow), "late", ANSWER_S)[1] == "late"
