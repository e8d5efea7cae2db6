"""Threads that take turns: under SCHED_BATCH, with whatever they start, unless somebody has chosen otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from runtime.actors.scheduling import take_turns

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="the system has no such policy")


def test_a_thread_and_those_it_starts_take_turns_and_the_others_do_not() -> None:
    def turned() -> tuple[int, object]:
        take_turns()
        return _own_policy(), _in_a_thread(_own_policy)

    before = _own_policy()
    assert _in_a_thread(turned) == (os.SCHED_BATCH, os.SCHED_BATCH)
    assert _own_policy() == before


def test_a_policy_that_somebody_has_chosen_stays() -> None:
    def chosen() -> int:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        take_turns()
        return _own_policy()

    assert _in_a_thread(chosen) == os.SCHED_IDLE


def _own_policy() -> int:
    return os.sched_getscheduler(0)


def _in_a_thread(work: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(10.0)
    return found[0]
