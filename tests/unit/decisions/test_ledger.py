"""The ledger: what becomes of a block, and how incarnations and counters go on."""

from __future__ import annotations

import pytest

from runtime.decisions.ledger import (
    PAST_INCARNATIONS_MAX,
    Counters,
    EnvRecord,
    EnvState,
    about,
    behaviors_of,
    excuse_restart,
    judge,
    restart_ordered,
    seen_block,
    seen_incarnation,
    unreported_bound,
)
from runtime.experience.brains import EnvId, Incarnation
from tests.support.builders_messages import block


def record(
    *, incarnation: int = 0, received: int = 0, until: int = 0, state: EnvState = "stepping", planned: int = 0
) -> EnvRecord:
    return EnvRecord(
        env_id=EnvId(0),
        incarnation=Incarnation(incarnation),
        reset_id=0,
        received=received,
        until=until,
        state=state,
        planned=planned,
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


def test_a_new_incarnation_begins_afresh_and_counts_a_restart_that_nobody_planned() -> None:
    now = seen_incarnation(record(received=5, until=9), Incarnation(2), 3)
    assert (now.restarts, now.worker, now.received, now.until, now.state) == (2, 3, 0, 0, "launching")


def test_a_planned_incarnation_is_no_restart() -> None:
    assert seen_incarnation(record(planned=1), Incarnation(1), 0).restarts == 0


@pytest.mark.parametrize("incarnation", [0, 1])
def test_an_incarnation_that_is_not_newer_changes_nothing(incarnation: int) -> None:
    now = record(incarnation=1, received=5)
    assert seen_incarnation(now, Incarnation(incarnation), 4) is now


def test_a_restart_is_counted_when_it_is_ordered_and_not_again_when_it_is_seen() -> None:
    ordered = restart_ordered(record(), Incarnation(1))
    assert ordered.restarts == 1
    assert restart_ordered(ordered, Incarnation(1)) is ordered
    assert seen_incarnation(ordered, Incarnation(1), 0).restarts == 1


def test_a_restart_counted_for_a_player_is_excused_once_its_worker_is_known_to_have_failed() -> None:
    overtaken = seen_incarnation(record(), Incarnation(1), 0)
    assert overtaken.restarts == 1
    excused = excuse_restart(overtaken, Incarnation(0))
    assert (excused.restarts, excused.planned) == (0, 1)
    assert excuse_restart(excused, Incarnation(0)) is excused
    assert restart_ordered(excused, Incarnation(2)).restarts == 1


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
