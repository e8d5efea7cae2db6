"""Thousands of simulations in one process hold no memory that only a search for cycles would free."""

from __future__ import annotations

import gc
import weakref

from runtime.simulation.campaign import Campaign, run_seeds
from runtime.simulation.garbage import collected_after
from runtime.simulation.running import simulate
from runtime.simulation.scenarios import draw


def test_a_run_that_is_forgotten_is_freed_without_a_search_for_cycles() -> None:
    with collected_after():
        outcome = simulate(draw(2))
        cores = [weakref.ref(each.shell.core) for each in outcome.worlds[0].places[:1]]  # type: ignore[attr-defined]
        learner = weakref.ref(outcome.worlds[0].scheduler)
        assert cores[0]() is not None
        outcome.forget()
        del outcome
        assert cores[0]() is None
        assert learner() is None


def test_the_search_is_as_it_was_after_many_seeds() -> None:
    for turn in (gc.disable, gc.enable):
        turn()
        was_on = gc.isenabled()
        assert run_seeds(Campaign(first=3), range(3, 60)).schedules == 57
        assert gc.isenabled() is was_on
    assert gc.get_freeze_count() == 0
