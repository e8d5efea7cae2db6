"""An actor of ours keeps its descriptors, survives its own mistakes, and does other threads' work on its own."""

import threading
import time
from typing import Any

import numpy as np
import psutil

from runtime.actors.hosting import Start
from runtime.actors.system import SystemHandle
from tests.actors.samples import Echo, Flood, Parent, Witness
from tests.actors.steps import ANSWER_S, heard, started


def counts(system: SystemHandle, witness: Any) -> dict[str, int]:
    found: dict[str, int] = system.ask(witness, "counts", ANSWER_S)
    return found


def test_c38d_a_handler_that_raises_runs_once_and_the_actor_goes_on(system: SystemHandle) -> None:
    witness = started(system, Witness)
    system.tell(witness, "raise")
    assert counts(system, witness)["handled"] == 1
    assert counts(system, witness)["failures"] == 1
    assert system.ask(witness, "and on", ANSWER_S) == "and on"


def test_a_handler_that_tries_to_leave_the_process_is_a_failure_too(system: SystemHandle) -> None:
    witness = started(system, Witness)
    system.tell(witness, "leave")
    assert counts(system, witness)["failures"] == 1


def test_messages_before_start_wait_for_it(system: SystemHandle) -> None:
    address = system.system.createActor(Echo)
    system.tell(address, "early")
    system.tell(address, "also early")
    assert system.listen(0.3) is None
    system.tell(address, Start(role="late"))
    assert [system.listen(ANSWER_S)[1], system.listen(ANSWER_S)[1]] == ["early", "also early"]


def test_posted_work_runs_on_the_actor_thread_in_order(system: SystemHandle) -> None:
    witness = started(system, Witness)
    number = 20_000
    assert system.ask(witness, ("post", number), ANSWER_S) == list(range(number))
    found = counts(system, witness)
    assert found["posted"] == found["on_actor_thread"] == number


def test_a_watched_descriptor_is_kept_through_other_messages(system: SystemHandle) -> None:
    witness = started(system, Witness)
    for message in ("a", "raise", "b"):
        system.tell(witness, message)
    system.tell(witness, ("pipe", None))
    assert heard(system, lambda message: message == b"through the pipe") is not None


def test_timers_fire_in_the_order_they_are_due(system: SystemHandle) -> None:
    witness = started(system, Witness)
    delays = (0.12, 0.0, 0.06, 0.0, 0.0)
    system.tell(witness, ("timers", delays))
    order = [system.listen(ANSWER_S)[1] for _ in delays]
    assert order == [1, 3, 4, 2, 0]


def test_the_sender_hears_what_cannot_be_sent(system: SystemHandle) -> None:
    witness = started(system, Witness)
    system.tell(witness, "unsendable")
    assert counts(system, witness)["failures"] == 1


def test_c40_eight_megabytes_arrive_intact(system: SystemHandle) -> None:
    array = np.arange(1_000_000, dtype=np.float64)
    _, back = system.ask(started(system, Echo), array, ANSWER_S)
    np.testing.assert_array_equal(back, array)


def test_order_is_kept_both_ways_between_two_actors(system: SystemHandle) -> None:
    one, two = started(system, Flood, "one"), started(system, Flood, "two")
    number = 300
    system.tell(one, ("go", two, number))
    system.tell(two, ("go", one, number))
    for _ in range(2):
        kind, got = system.listen(30.0)
        assert kind == "order"
        assert got == list(range(number))


def test_a_large_message_is_not_overtaken_at_first_contact(system: SystemHandle) -> None:
    for _ in range(3):
        one, two = started(system, Flood, "one"), started(system, Flood, "two")
        system.tell(one, ("go", two, 2))
        system.tell(two, ("go", one, 2))
        assert [system.listen(ANSWER_S), system.listen(ANSWER_S)] == [("order", [0, 1])] * 2


def test_messages_to_a_dead_child_neither_hang_nor_fail(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, pid = system.ask(parent, ("create", "echo"), ANSWER_S)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, 1, ANSWER_S)[0] == pid
    psutil.Process(pid).kill()
    assert heard(system, lambda message: message[0] == "exited") is not None
    begin = time.monotonic()
    for _ in range(20):
        assert system.ask(parent, ("tell", index, "anyone?"), ANSWER_S) == "told"
    assert system.ask(child, "anyone?", ANSWER_S) is None
    system.tell(child, "anyone?")
    assert time.monotonic() - begin < 2.0


def test_a_stopped_child_delays_nobody_else(system: SystemHandle) -> None:
    parent = started(system, Parent)
    pids, children = [], []
    for index in range(2):
        pids.append(system.ask(parent, ("create", "echo"), ANSWER_S)[2])
        children.append(system.ask(parent, ("address", index), ANSWER_S))
        assert system.ask(children[index], 1, ANSWER_S)[0] == pids[index]
    stopped = psutil.Process(pids[0])
    stopped.suspend()
    begin = time.monotonic()
    for number in range(60):
        assert system.ask(parent, ("tell", 0, number), ANSWER_S) == "told"
    assert system.ask(parent, ("tell", 1, "still served"), ANSWER_S) == "told"
    assert system.ask(children[1], "directly", ANSWER_S) == (pids[1], "directly")
    assert system.ask(parent, "parent too", ANSWER_S)[2] == "parent too"
    assert time.monotonic() - begin < 2.0
    stopped.resume()


def test_two_threads_of_the_launcher_may_talk_at_once(system: SystemHandle) -> None:
    echo = started(system, Echo)
    wrong: list[object] = []

    def talk(name: str) -> None:
        with system.private() as private:
            wrong.extend(n for n in range(50) if private.ask(echo, (name, n), ANSWER_S)[1] != (name, n))

    threads = [threading.Thread(target=talk, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
