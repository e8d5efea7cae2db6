"""A parent hears of its child's end, once and soon, at whatever instant the child is killed."""

import os
import random
import signal
import time

import pytest
from thespian.actors import ActorExitRequest

from runtime.actors.system import SystemHandle
from tests.actors.samples import Parent, PlainParent
from tests.actors.steps import ANSWER_S, exit_of, heard, started

NOTICED_S_MAX = 1.0
KILLS = 30


def test_the_pid_of_a_child_is_known_when_it_is_created(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, pid = system.ask(parent, ("create", "slow"), ANSWER_S)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, "who", ANSWER_S) == (pid, "who")


def test_the_end_of_a_working_child_is_noticed(system: SystemHandle) -> None:
    parent = started(system, Parent)
    for _ in range(5):
        _, index, pid = system.ask(parent, ("create", "echo"), ANSWER_S)
        child = system.ask(parent, ("address", index), ANSWER_S)
        assert system.ask(child, 1, ANSWER_S)[0] == pid
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        *_, noticed = heard(system, exit_of(index))
        assert noticed - begin < NOTICED_S_MAX


@pytest.mark.parametrize("seed", range(2))
def test_the_end_of_a_starting_child_is_noticed(system: SystemHandle, seed: int) -> None:
    parent = started(system, Parent)
    instants = random.Random(seed)
    delays: list[float] = []
    for number in range(KILLS // 2):
        _, index, pid = system.ask(parent, ("create", instants.choice(("echo", "slow"))), ANSWER_S)
        if number % 2:
            system.tell(parent, ("tell", index, "waits until the child is ready"))
        # The pause is the case: the child is killed at any instant of its start.
        heard(system, exit_of(index), timeout_s=instants.uniform(0.0, 0.7))
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        message = heard(system, exit_of(index))
        assert message is not None, f"missed, seed {seed}, kill {number}"
        delays.append(message[2] - begin)
    assert max(delays) < NOTICED_S_MAX, delays


def test_a_child_that_is_told_to_exit_does_so_promptly_and_is_told_as_ended(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, _ = system.ask(parent, ("create", "echo"), ANSWER_S)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, 1, ANSWER_S) is not None
    begin = time.monotonic()
    system.tell(child, ActorExitRequest())
    assert heard(system, exit_of(index)) is not None
    assert time.monotonic() - begin < 2.0
    assert heard(system, exit_of(index), timeout_s=0.3) is None


def test_the_end_of_a_child_is_told_once(system: SystemHandle) -> None:
    parent = started(system, Parent)
    for kind in ("echo", "slow"):
        _, index, pid = system.ask(parent, ("create", kind), ANSWER_S)
        os.kill(pid, signal.SIGKILL)
        assert heard(system, exit_of(index)) is not None
        assert heard(system, exit_of(index), timeout_s=0.5) is None


def test_a_child_that_could_not_be_started_has_no_pid_and_is_told_as_ended(system: SystemHandle) -> None:
    parent = started(system, Parent)
    _, index, pid = system.ask(parent, "create without descriptors", ANSWER_S)
    assert pid is None
    assert heard(system, exit_of(index)) is not None
    assert system.ask(parent, ("create", "echo"), ANSWER_S)[2] is not None


def test_thespian_alone_says_nothing_of_a_child_that_dies_while_starting(system: SystemHandle) -> None:
    """Why HostedActor watches for itself: if this ever fails, it need no longer do so."""
    parent = system.system.createActor(PlainParent)
    pid = system.ask(parent, "create", ANSWER_S)
    os.kill(pid, signal.SIGKILL)
    assert system.listen(1.5) is None
