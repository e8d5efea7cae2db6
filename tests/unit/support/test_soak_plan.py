"""The plan of a marathon of kills: it follows from a seed, has the promised shares, and fits into its time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.schedule import (
    HEART_COST_S,
    HEARTS,
    NOTICE_COST_S,
    PARTS,
    Planned,
    kills_planned,
    kills_wanted,
    legs,
    pause_s,
    plan,
)

SEEDS = st.integers(0, 10_000)


def test_fifteen_minutes_must_see_two_hundred_kills_and_plan_more() -> None:
    assert kills_wanted(15.0) == 200
    assert kills_planned(15.0) > 200


@given(seed=SEEDS)
def test_every_twentieth_kill_is_the_launcher_or_the_controller_and_no_other(seed: int) -> None:
    for kill in plan(seed, 225):
        assert (kill.victim in HEARTS) == (kill.number % 20 == 0)
        assert kill.ends_run == (kill.victim in HEARTS)


def test_the_ends_of_a_marathon_are_of_all_eight_kinds() -> None:
    ends = [kill for kill in plan(1, 160) if kill.ends_run]
    assert len({(kill.victim, kill.is_sync, kill.is_fresh) for kill in ends}) == 8


def test_every_part_is_killed_often() -> None:
    victims = [kill.victim for kill in plan(7, 225)]
    assert min(victims.count(part) for part in PARTS) > 20


@given(seed=SEEDS, count=st.integers(1, 225), more=st.integers(0, 40))
def test_a_kill_depends_on_the_seed_and_its_number_only(seed: int, count: int, more: int) -> None:
    assert plan(seed, count + more)[:count] == plan(seed, count)


def test_another_seed_is_another_plan() -> None:
    assert plan(1, 20) != plan(2, 20)


@given(seed=SEEDS, count=st.integers(0, 225), every=st.integers(1, 20))
def test_legs_hold_every_kill_once_in_order_and_end_where_the_heart_is_killed(
    seed: int, count: int, every: int
) -> None:
    kills = plan(seed, count, every)
    found = legs(kills)
    assert [kill for leg in found for kill in leg.kills] == list(kills)
    for leg in found:
        assert [kill.ends_run for kill in leg.kills[:-1]] == [False] * (len(leg.kills) - 1 if leg.kills else 0)
        assert (leg.ends == "killed") == bool(leg.kills and leg.kills[-1].ends_run)
        assert len({kill.is_sync for kill in leg.kills}) <= 1
    assert [leg.ends for leg in found].count("completed") == 1
    assert found[-1].ends == "completed"


@given(seed=SEEDS)
def test_a_fresh_end_comes_alone_after_an_orderly_one(seed: int) -> None:
    found = legs(plan(seed, 160))
    fresh = [number for number, leg in enumerate(found) if leg.kills and leg.kills[-1].is_fresh]
    assert fresh
    for number in fresh:
        assert len(found[number].kills) == 1
        assert found[number - 1].ends == "interrupted"


@given(seed=SEEDS, took_s=st.floats(0.0, 0.3))
def test_pauses_use_the_time_and_not_more(seed: int, took_s: float) -> None:
    left = list(plan(seed, 225))
    now_s, end_s = 0.0, 870.0
    while left:
        now_s += pause_s(left[0], left_s=end_s - now_s, left=left) + took_s
        kill = left.pop(0)
        if kill.ends_run:
            now_s += HEART_COST_S * (1 + kill.is_fresh)
    # A death may come in the last second, and the next start with it.
    assert end_s * 0.9 < now_s < end_s + 2 * HEART_COST_S


def test_nobody_waits_when_the_time_is_over() -> None:
    kill = Planned(number=1, victim="player", gap=2.0)
    assert pause_s(kill, left_s=-5.0, left=[kill]) == 0.0


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.0])
def test_a_pause_is_a_share_of_the_mean(gap: float) -> None:
    kill = Planned(number=1, victim="player", gap=gap)
    left = [replace(kill, number=number) for number in range(1, 11)]
    assert pause_s(kill, left_s=10 * (4.0 + NOTICE_COST_S), left=left) == pytest.approx(gap * 4.0)
