"""The scheduler keeps the order of each link and nothing else, and one seed is one history."""

from __future__ import annotations

import random

from tests.sim.scenarios import troubled
from tests.sim.scheduler import Scheduler
from tests.sim.world import SimRun


def order_of(seed: int, *, clogged: bool = False) -> list[str]:
    """The order in which three links deliver five items each."""
    seen: list[str] = []
    scheduler = Scheduler(random.Random(seed))
    for name in "abc":
        for number in range(5):
            text = f"{name}{number}"
            scheduler.send((name, "target"), text, lambda text=text: seen.append(text))  # type: ignore[misc]
    if clogged:
        scheduler.clog(("a", "target"), 10.0)
    while scheduler.step():
        pass
    return seen


def test_a_link_keeps_its_order_and_links_mix_as_the_seed_says() -> None:
    orders = [order_of(seed) for seed in range(5)]
    for order in orders:
        assert [each for each in order if each[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert len(order) == 15
    assert len({tuple(order) for order in orders}) > 1
    assert order_of(3) == orders[3]


def test_a_clogged_link_delivers_after_the_others() -> None:
    assert [each[0] for each in order_of(1, clogged=True)][10:] == ["a"] * 5


def test_time_jumps_to_the_next_timer_when_nothing_else_can_happen() -> None:
    scheduler, seen = Scheduler(random.Random(0)), []
    scheduler.after(5.0, "late", lambda: seen.append(scheduler.now_s))
    scheduler.after(2.0, "early", lambda: seen.append(scheduler.now_s))
    while scheduler.step():
        pass
    assert seen == [2.0, 5.0]


def test_a_cut_link_loses_its_newest_items() -> None:
    scheduler, seen = Scheduler(random.Random(0)), []
    for number in range(4):
        scheduler.send(("a", "b"), "", lambda number=number: seen.append(number))  # type: ignore[misc]
    scheduler.cut(("a", "b"), 2)
    while scheduler.step():
        pass
    assert seen == [0, 1]


def test_one_seed_is_one_history_and_another_seed_another() -> None:
    digests = [SimRun(troubled(seed, is_sync=False)).run().scheduler.digest for seed in (7, 7, 8)]
    assert digests[0] == digests[1] != digests[2]
