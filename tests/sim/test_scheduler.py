"""The scheduler keeps the order of each link and nothing else, and one seed is one history in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runtime.simulation.draws import NO_SKIPS, Draws, Skips
from runtime.simulation.running import simulate
from runtime.simulation.scenarios import Strategy, draw
from runtime.simulation.scheduler import Endpoint, Scheduler

ALL = Skips(is_inverted=True)
ROOT = Path(__file__).parents[2]


def scheduler_of(seed: int, strategy: Strategy = "walk", skips: Skips = NO_SKIPS) -> Scheduler:
    return Scheduler(Draws(seed, skips), strategy=strategy, deviation=1.0, seed=seed)


def order_of(seed: int, *, clogged: bool = False, strategy: Strategy = "walk", skips: Skips = NO_SKIPS) -> list[str]:
    """The order in which three links deliver five items each."""
    seen: list[str] = []
    scheduler, target = scheduler_of(seed, strategy, skips), Endpoint("target")
    links = {name: scheduler.link(Endpoint(name), target) for name in "abc"}
    for name, link in links.items():
        for number in range(5):
            scheduler.send(link, (lambda what, _: seen.append(what), f"{name}{number}", None, True))
    if clogged:
        scheduler.clog(links["a"], 10.0)
    while scheduler.step(scheduler.draws.take()):
        pass
    return seen


def test_a_link_keeps_its_order_and_links_mix_as_the_seed_says() -> None:
    orders = [order_of(seed) for seed in range(5)]
    for order in orders:
        assert [each for each in order if each[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert len(order) == 15
    assert len({tuple(order) for order in orders}) > 1
    assert order_of(3) == orders[3]


def test_links_are_served_in_turn_when_every_choice_is_taken_back() -> None:
    assert order_of(3, skips=ALL) == [f"{name}{number}" for number in range(5) for name in "abc"]


def test_one_link_is_served_to_its_end_under_fixed_priorities() -> None:
    order = [each[0] for each in order_of(2, strategy="priority", skips=ALL)]
    assert [name for index, name in enumerate(order) if index % 5 == 0] == list(dict.fromkeys(order))


def test_a_clogged_link_delivers_after_the_others() -> None:
    assert [each[0] for each in order_of(1, clogged=True)][10:] == ["a"] * 5


def test_time_jumps_to_the_next_timer_when_nothing_else_can_happen() -> None:
    scheduler = scheduler_of(0)
    seen: list[float] = []
    scheduler.at(5.0, lambda _what, _extra: seen.append(scheduler.now_s), None)
    scheduler.at(2.0, lambda _what, _extra: seen.append(scheduler.now_s), None)
    while scheduler.step(scheduler.draws.take()):
        pass
    assert seen == [2.0, 5.0]


def test_a_cut_link_loses_its_newest_items() -> None:
    scheduler = scheduler_of(0)
    seen: list[int] = []
    link = scheduler.link(Endpoint("a"), Endpoint("b"))
    for number in range(4):
        scheduler.send(link, (lambda what, _: seen.append(what), number, None, True))
    scheduler.cut(link, 2)
    while scheduler.step(scheduler.draws.take()):
        pass
    assert seen == [0, 1]


def test_one_seed_is_one_history_and_another_seed_another() -> None:
    digests = [simulate(draw(seed)).digest for seed in (7, 7, 8)]
    assert digests[0] == digests[1] != digests[2]


def test_a_seed_has_the_same_history_in_another_process_with_another_hash_seed() -> None:
    here = [simulate(draw(seed)).digest for seed in range(40)]
    code = (
        "from runtime.simulation.running import simulate\n"
        "from runtime.simulation.scenarios import draw\n"
        "for seed in range(40): print(simulate(draw(seed)).digest)"
    )
    for hash_seed in ("1", "4711"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        assert result.stdout.split() == here


def test_taking_back_a_choice_that_changed_nothing_changes_nothing() -> None:
    for seed in range(0, 200, 8):
        scenario = draw(seed)
        outcome = simulate(scenario)
        idle = frozenset(range(outcome.choices)) - frozenset(outcome.deviated)
        assert simulate(scenario, Skips(idle)).digest == outcome.digest


@given(st.frozensets(st.integers(0, 300)), st.booleans())
def test_skips_read_back_what_they_write(numbers: frozenset[int], is_inverted: bool) -> None:  # noqa: FBT001
    skips = Skips(numbers, is_inverted)
    key, _, text = skips.text().partition("=")
    assert Skips.parse(key, text) == skips


def test_taking_back_all_choices_but_those_that_deviated_changes_nothing() -> None:
    for seed in range(1, 100, 8):
        outcome = simulate(draw(seed))
        assert simulate(draw(seed), Skips(frozenset(outcome.deviated), is_inverted=True)).digest == outcome.digest
