"""When the launcher is killed, at whatever instant, no process and no port of its run is left."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from runtime.actors.deathwatch import life_of
from runtime.actors.sweep import wait_until_gone
from tests.actors.steps import listening_ports

SCRIPT = Path(__file__).with_name("launcher_script.py")
ROOT = Path(__file__).parents[2]
GONE_S_MAX = 5.0
WHOSE = "UNITY_RL_TEST_LAUNCHER"
_names = iter(range(10**9))


def descendants(name: str) -> tuple[int, ...]:
    """Living processes with the launcher's mark, the launcher included."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(WHOSE) == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue  # ended, or another user's
    return tuple(found)


@contextmanager
def launcher(tmp_path: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A running launcher and the mark by which its descendants are found."""
    name = f"{os.getpid()}-{next(_names)}"
    command = [sys.executable, str(SCRIPT), str(ROOT), str(tmp_path / "actors.log"), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, WHOSE: name}, start_new_session=True
    ) as process:
        try:
            yield name, process
        finally:
            process.kill()


def ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"READY\n"


def assert_nothing_left(name: str, ports: list[tuple[str, int]]) -> None:
    left = wait_until_gone([life_of(pid) for pid in descendants(name)], GONE_S_MAX)
    assert not left
    assert descendants(name) == ()
    for address in ports:
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(address)


def test_a_killed_launcher_takes_all_with_it(tmp_path: Path) -> None:
    with launcher(tmp_path) as (name, process):
        ready(process)
        ports = listening_ports(descendants(name))
        assert len(ports) >= 7  # launcher, admin, logger, parent, three children
        process.kill()
        process.wait()
        assert_nothing_left(name, ports)


@pytest.mark.parametrize("seed", range(10))
def test_a_launcher_killed_at_any_instant_leaves_nothing(tmp_path: Path, seed: int) -> None:
    instants = random.Random(seed)
    with launcher(tmp_path, "busy") as (name, process):
        # The pause is the case: imports, start of the admin, of the actors, and steady creation of more.
        threading.Event().wait(instants.uniform(0.05, 2.0))
        process.kill()
        process.wait()
        assert_nothing_left(name, [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_launcher_killed_at_any_instant_leaves_nothing_thirty_times(tmp_path: Path, seed: int) -> None:
    test_a_launcher_killed_at_any_instant_leaves_nothing(tmp_path, seed)


def test_a_killed_launcher_takes_stopped_processes_with_it(tmp_path: Path) -> None:
    with launcher(tmp_path) as (name, process):
        ready(process)
        for pid in descendants(name):
            if pid != process.pid:
                os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        assert_nothing_left(name, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_launcher_ended_by_a_signal_to_its_group_takes_all_with_it(tmp_path: Path, number: signal.Signals) -> None:
    with launcher(tmp_path) as (name, process):
        ready(process)
        os.killpg(process.pid, number)
        process.wait()
        assert_nothing_left(name, [])


def test_a_killed_admin_takes_the_actors_with_it_while_the_launcher_lives(tmp_path: Path) -> None:
    with launcher(tmp_path) as (name, process):
        ready(process)
        (admin,) = (child.pid for child in psutil.Process(process.pid).children())
        others = [life_of(pid) for pid in descendants(name) if pid != process.pid]
        os.kill(admin, signal.SIGKILL)
        assert wait_until_gone(others, GONE_S_MAX) == []
