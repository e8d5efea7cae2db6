"""The ledger: what becomes of a block, and how incarnations and counters go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.decisions.ledger import (
    PAST_INCARNATIONS_MAX,
    Counters,
    EnvRecord,
    EnvState,
    about,
    behaviors_of,
    heard_restarts,
    judge,
    seen_block,
    seen_incarnation,
    unreported_bound,
)
from runtime.experience.brains import EnvId, Incarnation
from tests.support.builders_messages import block


def record(*, incarnation: int = 0, received: int = 0, until: int = 0, state: EnvState = "stepping") -> EnvRecord:
    return EnvRecord(
        env_id=EnvId(0),
        incarnation=Incarnation(incarnation),
        reset_id=0,
        received=received,
        until=until,
        state=state,
    )


def test_a_block_that_goes_on_where_the_last_one_ended_is_accepted() -> None:
    assert judge(record(received=5), block(first=5, steps=2)) == "accept"


def test_a_block_seen_before_is_a_duplicate() -> None:
    assert judge(record(received=7), block(first=5, steps=2)) == "duplicate"


def test_a_block_after_missing_steps_is_a_gap() -> None:
    assert judge(record(received=3), block(first=5, steps=2)) == "gap"


def test_a_block_of_another_reset_is_stale() -> None:
    assert judge(record(received=5), block(first=5, reset_id=1)) == "stale"


def test_a_block_of_a_past_incarnation_is_stale_once_and_a_duplicate_then() -> None:
    now = seen_incarnation(record(received=5), Incarnation(1), 0)
    late = block(first=5, steps=2)
    assert judge(now, late) == "stale"
    assert judge(seen_block(now, late), late) == "duplicate"


def test_a_block_of_the_past_that_had_been_accepted_is_a_duplicate() -> None:
    now = seen_incarnation(record(received=5), Incarnation(1), 0)
    assert judge(now, block(first=3, steps=2)) == "duplicate"


def test_what_a_forgotten_or_unheard_of_incarnation_took_counts_as_seen() -> None:
    now = record(received=5)
    for incarnation in range(1, PAST_INCARNATIONS_MAX + 2):
        now = seen_incarnation(now, Incarnation(incarnation), 0)
    assert len(now.past) == PAST_INCARNATIONS_MAX
    assert judge(now, block(first=5)) == "duplicate"
    assert judge(now, block(first=0, incarnation=99)) == "duplicate"


def test_an_environment_is_ready_once_all_that_was_granted_has_arrived() -> None:
    half = seen_block(record(until=4), block(steps=2, pending={"Walker?team=0": 1, "Walker?team=1": 2}))
    assert (half.state, half.received, half.pending) == ("stepping", 2, {"Walker": 3})
    assert seen_block(half, block(first=2, steps=2)).state == "ready"


def test_a_lost_environment_stays_lost_whatever_arrives() -> None:
    assert seen_block(record(state="lost"), block()).state == "lost"


def test_a_new_incarnation_begins_afresh_and_keeps_what_was_counted() -> None:
    before = heard_restarts(record(received=5, until=9), 2)
    now = seen_incarnation(before, Incarnation(2), 3)
    assert (now.restarts, now.restarts_heard, now.worker) == (2, 2, 3)
    assert (now.received, now.until, now.state) == (0, 0, "launching")


@pytest.mark.parametrize("incarnation", [0, 1])
def test_an_incarnation_that_is_not_newer_changes_nothing(incarnation: int) -> None:
    now = record(incarnation=1, received=5)
    assert seen_incarnation(now, Incarnation(incarnation), 4) is now


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 5))
def test_restarts_are_those_of_earlier_runs_and_the_most_that_were_told_in_any_order(
    told: list[int], before: int
) -> None:
    now = replace(record(), restarts=before)
    for count in told:
        now = heard_restarts(now, count)
    assert now.restarts == before + max(told, default=0)


def test_the_bound_on_the_unknown_is_the_unused_grant_with_all_agents_acting() -> None:
    assert unreported_bound(record(received=3, until=7), 5) == 20
    assert unreported_bound(record(received=7, until=3), 5) == 0


def test_counters_add_up_what_they_are_told() -> None:
    counters = Counters().accept(block(steps=3, agent_steps=2)).lose("stale", 4).lose("stale", 1).lose("gap", 0)
    counters = counters.drop("StepsTaken").drop("StepsTaken").leave_unreported(6).leave_unreported(-2)
    assert (counters.env_steps, counters.agent_steps, counters.decisions) == (3, 2, 2)
    assert (counters.lost, counters.dropped, counters.unreported_max) == ({"stale": 5}, {"StepsTaken": 2}, 4)


def test_teams_of_one_name_wait_together() -> None:
    assert behaviors_of({"A?team=0": 1, "A?team=1": 2, "B": 0}) == {"A": 3, "B": 0}


def test_a_cause_names_its_environment_once() -> None:
    assert about(2, 1, "it died") == "environment 2 (incarnation 1): it died"
    assert about(2, 1, "environment 2 died") == "environment 2 died"
