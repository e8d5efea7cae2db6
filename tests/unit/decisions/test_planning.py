"""How many env steps a round takes, from what was accepted alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runtime.decisions.planning import EMPTY_ROUND_STEPS, round_steps
from runtime.learner import BrainProgress
from tests.support.builders_messages import progress


def steps_of(
    progress: dict[str, BrainProgress],
    *pending: dict[str, int],
    steps_max: int = 100,
    until: int | None = None,
    taken: int = 0,
) -> int:
    return round_steps(progress, pending, steps_max=steps_max, until_agent_steps=until, agent_steps=taken)


def test_a_round_fills_the_buffer_and_no_more() -> None:
    assert steps_of(progress(buffered=40, buffer_size=100), {"Walker": 3}, {"Walker": 3}) == 10


def test_a_round_ends_at_max_steps_rounded_up() -> None:
    assert steps_of(progress(steps=993, max_steps=1000), {"Walker": 2}) == 4


def test_a_round_ends_at_the_next_stop() -> None:
    assert steps_of(progress(), {"Walker": 4}, until=30, taken=10) == 5


def test_a_stop_that_is_behind_limits_nothing() -> None:
    assert steps_of(progress(), {"Walker": 1}, until=10, taken=10) == 100


def test_the_behavior_that_fills_first_decides() -> None:
    both = progress("A", buffer_size=100) | progress("B", buffer_size=30)
    assert steps_of(both, {"A": 2, "B": 3}) == 10


def test_finished_unknown_and_absent_behaviors_decide_nothing() -> None:
    behaviors = progress("A", steps=5, max_steps=5) | progress("B") | progress("D", buffer_size=50)
    assert steps_of(behaviors, {"A": 7, "B": 0, "C": 9, "D": 1}) == 50


def test_without_agents_a_round_is_short() -> None:
    assert steps_of(progress(), {"Walker": 0}) == EMPTY_ROUND_STEPS
    assert steps_of(progress(), steps_max=4) == 4


def test_who_may_be_ahead_takes_a_share_of_the_whole_buffer_however_full_it_is() -> None:
    def block(buffered: int) -> int:
        behaviors = progress(buffered=buffered, buffer_size=640, max_steps=10_000)
        waiting = [{"Walker": 2}, {"Walker": 2}]
        return round_steps(behaviors, waiting, steps_max=400, until_agent_steps=None, agent_steps=0, blocks_ahead=2)

    assert [block(buffered) for buffered in (0, 320, 639, 700)] == [160, 160, 160, 160]


def test_blocks_ahead_share_what_is_left_before_the_end() -> None:
    behaviors = progress(steps=993, max_steps=1000, buffer_size=640)
    assert round_steps(behaviors, [{"Walker": 1}], steps_max=400, until_agent_steps=None, agent_steps=0) == 7
    ahead = round_steps(
        behaviors, [{"Walker": 1}], steps_max=400, until_agent_steps=None, agent_steps=0, blocks_ahead=2
    )
    assert ahead == 4


def test_a_full_buffer_still_lets_a_round_take_one_step() -> None:
    assert steps_of(progress(buffered=120, buffer_size=100), {"Walker": 8}) == 1


@given(
    waiting=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    buffered=st.integers(0, 60),
    steps_max=st.integers(1, 30),
    until=st.none() | st.integers(0, 40),
)
def test_a_round_has_a_step_at_least_and_steps_max_at_most_and_never_overshoots_by_more_than_one(
    waiting: list[int], buffered: int, steps_max: int, until: int | None
) -> None:
    steps = steps_of(
        progress(buffered=buffered, buffer_size=50),
        *({"Walker": each} for each in waiting),
        steps_max=steps_max,
        until=until,
    )
    assert 1 <= steps <= steps_max
    if sum(waiting) and steps > 1:
        assert buffered + (steps - 1) * sum(waiting) < 50
        assert until is None or not until or (steps - 1) * sum(waiting) < until


def test_where_env_steps_are_counted_the_last_round_is_shared_by_the_environments() -> None:
    (each,) = progress(steps=90, max_steps=100).values()
    counted = {"Walker": replace(each, counts_env_steps=True)}
    assert steps_of(counted, {"Walker": 5}, {"Walker": 5}) == 5
    assert steps_of({"Walker": replace(counted["Walker"], buffered=70)}, {"Walker": 5}, {"Walker": 5}) == 3
