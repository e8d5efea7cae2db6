"""Credit, policies and blocks of an EnvWorker: who may step, with which version, and when blocks leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from runtime.decisions.effects import (
    HOLDER,
    SUPERVISOR,
    CancelTimer,
    InstallPolicy,
    Send,
    SendBlocks,
    SetTimer,
    StepPlayer,
    TimerFired,
)
from runtime.decisions.env_worker_state import Phase
from runtime.decisions.stepping import GATHER_ASYNC_S, GATHER_S, POLICY_ASK_AGAIN_S, VERSIONS_KEPT
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import HolderRestarted, PolicyOverdue, PolicyRequest, WorkerAlive
from tests.support.bench_worker import WorkerBench as Bench
from tests.support.bench_worker import failed, replied
from tests.support.builders_messages import (
    RUN,
    WALKER,
    env_grant,
    of_type,
    policy,
    sent,
    step_grant,
    stop_request,
)

ASK_AGAIN = SetTimer(("policy", WALKER), POLICY_ASK_AGAIN_S)
HOLDER_RESTARTED = HolderRestarted(run=RUN, incarnation=Incarnation(1))


def asked(effects: tuple[object, ...]) -> list[int]:
    """Versions asked of the PolicyHolder."""
    return [each.version for each in sent(effects, PolicyRequest, HOLDER)]


def steps_in(effects: tuple[object, ...]) -> list[tuple[int, int]]:
    """(environment, version of Walker) of the steps begun."""
    return [(each.env_id, each.versions.get(WALKER, -1)) for each in of_type(effects, StepPlayer)]


# ---- credit


def test_a_grant_with_its_policy_there_begins_a_step() -> None:
    bench = Bench().ready()
    bench.take(policy(2))
    effects = bench.take(step_grant(env_grant(until=3), versions={WALKER: 2}))
    assert effects == (StepPlayer(EnvId(0), Incarnation(0), 0, {WALKER: 2}, own=2),)


def test_a_player_steps_until_its_credit_is_used_up_and_sends_what_it_has() -> None:
    bench = Bench().stepping(until=2)
    assert steps_in(bench.take(replied())) == [(0, 0)]
    assert of_type(bench.take(replied()), SendBlocks) == [SendBlocks((EnvId(0),))]
    assert (bench.slot().taken, bench.slot().open_steps, bench.slot().phase) == (2, 0, Phase.IDLE)


def test_a_full_block_leaves_while_credit_remains() -> None:
    bench = Bench().ready()
    bench.take(policy(), step_grant(env_grant(until=9), block_steps=2))
    assert not of_type(bench.take(replied()), SendBlocks)
    # The player goes on before anything is packed.
    assert [type(each) for each in bench.take(replied())] == [StepPlayer, SendBlocks, CancelTimer]


@pytest.mark.parametrize(("asked_for", "used"), [(0, 1), (7, 7), (99, 10)])
def test_blocks_are_at_least_a_step_and_at_most_what_the_worker_was_started_with(asked_for: int, used: int) -> None:
    bench = Bench(block_steps_max=10).ready()
    bench.take(step_grant(env_grant(), block_steps=asked_for))
    assert bench.core.state.block_steps == used


def test_a_grant_that_is_not_newer_takes_no_credit_back() -> None:
    bench = Bench().stepping(until=5)
    bench.take(step_grant(env_grant(until=3)))
    assert bench.slot().until_step == 5


@pytest.mark.parametrize(
    "stale", [env_grant(9), env_grant(incarnation=1), env_grant(reset_id=1)], ids=["env", "incarnation", "reset"]
)
def test_a_grant_for_another_environment_incarnation_or_reset_is_dropped_and_counted(stale: object) -> None:
    bench = Bench().ready()
    bench.take(policy())
    assert bench.take(step_grant(stale)) == ()  # type: ignore[arg-type] # an EnvGrant: parametrize forgets it
    assert bench.core.state.dropped == 1


def test_a_grant_that_meets_a_player_at_rest_beside_a_stale_one_counts_both_ways() -> None:
    bench = Bench(2).ready(0)
    bench.take(policy())
    effects = bench.take(step_grant(env_grant(0), env_grant(1, incarnation=3)))
    assert steps_in(effects) == [(0, 0)]
    assert bench.core.state.dropped == 1


def test_a_lost_player_takes_no_step_whatever_is_granted() -> None:
    bench = Bench().ready()
    bench.take(policy(), failed())
    assert bench.take(step_grant(env_grant(until=4))) == ()


# ---- policies


def test_a_grant_that_comes_before_its_policy_waits_and_asks_with_a_timer() -> None:
    bench = Bench().ready()
    effects = bench.take(step_grant(env_grant()))
    assert asked(effects) == [0]
    assert ASK_AGAIN in effects
    arrived = bench.take(policy())
    assert arrived == (
        InstallPolicy(policy()),
        CancelTimer(("policy", WALKER)),
        StepPlayer(EnvId(0), Incarnation(0), 0, {WALKER: 0}),
    )


def test_a_policy_is_asked_for_once_by_all_environments_together() -> None:
    bench = Bench(2).ready(0).ready(1)
    assert asked(bench.take(step_grant(env_grant(0), env_grant(1)))) == [0]


def test_later_versions_come_by_themselves_and_are_asked_for_after_a_while() -> None:
    bench = Bench().ready()
    bench.take(policy(0))
    effects = bench.take(step_grant(env_grant(), versions={WALKER: 1}))
    assert asked(effects) == []
    assert ASK_AGAIN in effects
    late = bench.take(TimerFired(("policy", WALKER)), now_s=1.0)
    assert asked(late) == [1]
    assert ASK_AGAIN in late


def test_a_policy_that_comes_before_the_one_asked_for_leaves_its_timer_running() -> None:
    bench = Bench().ready()
    bench.take(policy(0), step_grant(env_grant(), versions={WALKER: 2}))
    effects = bench.take(policy(1))
    assert effects == (InstallPolicy(policy(1)),)
    assert asked(bench.take(TimerFired(("policy", WALKER)))) == [2]


def test_a_policy_newer_than_the_one_asked_for_ends_the_asking() -> None:
    bench = Bench().ready()
    bench.take(step_grant(env_grant()))
    effects = bench.take(policy(1))
    assert effects == (InstallPolicy(policy(1)), CancelTimer(("policy", WALKER)))
    assert bench.take(TimerFired(("policy", WALKER)), now_s=1e6) == ()
    assert steps_in(bench.take(step_grant(env_grant(), versions={WALKER: 1}))) == [(0, 1)]


def test_a_version_that_was_overtaken_before_its_grant_came_is_not_asked_for() -> None:
    bench = Bench().ready()
    bench.take(policy(1))
    assert bench.take(step_grant(env_grant())) == ()
    assert steps_in(bench.take(step_grant(env_grant(), versions={WALKER: 1}))) == [(0, 1)]


def test_a_behavior_in_sight_that_nobody_has_granted_is_waited_for_silently() -> None:
    bench = Bench()
    bench.ready()
    assert bench.take(step_grant(env_grant(), versions={})) == ()
    effects = bench.take(policy(), step_grant(env_grant()))
    assert steps_in(effects) == [(0, 0)]


def test_every_behavior_in_sight_needs_its_policy_also_without_agents() -> None:
    bench = Bench().stepping()
    bench.take(replied(Walker=1, Late=0))
    assert bench.slot().phase is Phase.IDLE
    effects = bench.take(step_grant(env_grant(), versions={WALKER: 0, "Late": 0}))
    assert asked(effects) == [0]
    assert steps_in(bench.take(policy(0, "Late"))) == [(0, 0)]


def test_a_version_granted_with_one_environment_releases_another_that_waits_for_it() -> None:
    bench = Bench(2).ready(0).ready(1)
    bench.take(policy(0), policy(2), step_grant(env_grant(1), versions={WALKER: 1}))
    assert bench.slot(1).phase is Phase.IDLE
    effects = bench.take(step_grant(env_grant(0), versions={WALKER: 2}))
    assert sorted(steps_in(effects)) == [(0, 2), (1, 2)]


def test_an_old_grant_that_comes_again_does_not_bring_its_version_back() -> None:
    bench = Bench().ready()
    bench.take(policy(1), policy(2), step_grant(env_grant(until=9), versions={WALKER: 2}))
    bench.take(step_grant(env_grant(until=3), versions={WALKER: 1}))
    assert steps_in(bench.take(replied())) == [(0, 2)]


def test_a_new_version_acts_from_the_next_step_on() -> None:
    bench = Bench().stepping(until=9)
    bench.take(policy(1))
    assert steps_in(bench.take(replied())) == [(0, 0)]
    bench.take(step_grant(env_grant(until=9), versions={WALKER: 1}))
    assert steps_in(bench.take(replied())) == [(0, 1)]


def test_a_policy_that_is_known_or_older_than_all_is_dropped_and_counted() -> None:
    bench = Bench()
    bench.take(policy(3))
    assert bench.take(policy(3), policy(2)) == ()
    assert bench.core.state.dropped == 2


def test_a_large_graph_is_announced_before_it_is_installed_and_a_small_one_is_not() -> None:
    bench = Bench()
    large = replace(policy(1), body=bytes(30_000_000))
    effects = bench.take(large)
    (alive,) = sent(effects, WorkerAlive, SUPERVISOR)
    assert alive.busy_s == pytest.approx(30.0)
    assert [type(each) for each in effects[:2]] == [Send, InstallPolicy]
    assert not sent(bench.take(policy(2)), WorkerAlive)


def test_the_newest_few_versions_are_kept() -> None:
    bench = Bench()
    for version in range(VERSIONS_KEPT + 2):
        bench.take(policy(version))
    assert bench.core.state.installed[WALKER] == (2, 3, 4)


def test_a_policy_that_does_not_come_is_reported_once_per_deadline() -> None:
    bench = Bench().ready()
    bench.take(step_grant(env_grant()), now_s=10.0)
    early = bench.take(TimerFired(("policy", WALKER)), now_s=14.9)
    assert not sent(early, PolicyOverdue)
    late = bench.take(TimerFired(("policy", WALKER)), now_s=15.0)
    (overdue,) = sent(late, PolicyOverdue, SUPERVISOR)
    assert (overdue.behavior, overdue.version, overdue.waited_s) == (WALKER, 0, 5.0)
    assert not sent(bench.take(TimerFired(("policy", WALKER)), now_s=16.0), PolicyOverdue)


def test_a_new_holder_is_asked_for_all_that_was_granted_and_gets_time_of_its_own() -> None:
    bench = Bench().ready()
    bench.take(policy(1, "A"), step_grant(env_grant(), versions={WALKER: 2, "A": 1}), now_s=0.0)
    effects = bench.take(HOLDER_RESTARTED, now_s=4.0)
    assert [(each.behavior, each.version) for each in sent(effects, PolicyRequest, HOLDER)] == [("A", 1), (WALKER, 2)]
    assert not sent(bench.take(TimerFired(("policy", WALKER)), now_s=8.9), PolicyOverdue)
    assert sent(bench.take(TimerFired(("policy", WALKER)), now_s=9.0), PolicyOverdue)


@pytest.mark.parametrize("carries", ["columns", "step_infos"])
def test_values_come_with_the_policy_where_steps_carry_them(carries: Literal["columns", "step_infos"]) -> None:
    bench = Bench(carries=carries).ready()
    (asked,) = sent(bench.take(step_grant(env_grant())), PolicyRequest, HOLDER)
    assert asked.only_acts is (carries == "columns")


def test_a_timer_for_a_policy_that_has_come_is_dropped_and_counted() -> None:
    bench = Bench()
    assert bench.take(TimerFired(("policy", WALKER))) == ()
    assert bench.core.state.dropped == 1


# ---- blocks


def test_more_agents_than_the_controller_knows_of_are_told_at_once_and_act_when_it_knows() -> None:
    bench = Bench().stepping(until=9)
    effects = bench.take(replied(Walker=2))
    assert SendBlocks((EnvId(0),)) in effects
    assert not of_type(effects, StepPlayer)
    assert bench.slot().open_steps == 0
    # A grant that was under way says nothing of the step in which they appeared.
    assert not of_type(bench.take(step_grant(env_grant(until=9, accepted=0))), StepPlayer)
    assert of_type(bench.take(step_grant(env_grant(until=9, accepted=1))), StepPlayer)
    for waiting in (1, 2):
        effects = bench.take(replied(Walker=waiting))
        assert not of_type(effects, SendBlocks)
        assert of_type(effects, StepPlayer)
    assert SendBlocks((EnvId(0),)) in bench.take(replied(Walker=2, Late=1))


def test_a_policy_is_not_overdue_before_it_was_asked_for_twice() -> None:
    bench = Bench().ready()
    bench.take(step_grant(env_grant(until=9), versions={WALKER: 0}), now_s=0.0)
    # This process stood still for long: its clock has gone on, and it has asked once.
    assert not sent(bench.take(TimerFired(("policy", WALKER)), now_s=500.0), PolicyOverdue)
    assert sent(bench.take(TimerFired(("policy", WALKER)), now_s=500.5), PolicyOverdue)


def gathering() -> Bench:
    """Environment 0 has used up its credit and waits for environment 1, which steps on."""
    bench = Bench(2).ready(0).ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=1), env_grant(1, until=4), gathers=True))
    assert SetTimer("gather", GATHER_S) in bench.take(replied(0))
    return bench


def test_blocks_of_one_worker_leave_together_when_the_last_environment_is_done() -> None:
    bench = gathering()
    bench.take(replied(1), replied(1), replied(1))
    assert SendBlocks((EnvId(0), EnvId(1))) in bench.take(replied(1))


def test_a_neighbour_that_steps_on_does_not_put_the_gathering_off() -> None:
    bench = gathering()
    assert not of_type(bench.take(replied(1)), SetTimer)
    assert bench.take(TimerFired("gather")) == (SendBlocks((EnvId(0),)), CancelTimer("gather"))


def test_gathering_begins_anew_after_its_time_was_over() -> None:
    bench = gathering()
    bench.take(TimerFired("gather"), step_grant(env_grant(0, until=2), gathers=True))
    assert SetTimer("gather", GATHER_S) in bench.take(replied(0))


def test_a_gathering_whose_blocks_are_gone_ends_quietly() -> None:
    bench = gathering()
    bench.take(failed(0))
    assert bench.take(TimerFired("gather")) == ()
    assert not bench.core.state.is_gathering


def ahead() -> Bench:
    """Two environments that may be two blocks of two steps ahead; 0 has filled the first one, 1 has not."""
    bench = Bench(2).ready(0).ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=4), env_grant(1, until=4), block_steps=2))
    bench.take(replied(0))
    assert SetTimer("gather", GATHER_ASYNC_S) in bench.take(replied(0))
    return bench


def test_a_full_block_waits_for_a_neighbour_that_fills_its_own() -> None:
    bench = ahead()
    assert not of_type(bench.take(replied(1)), SendBlocks)
    assert SendBlocks((EnvId(0), EnvId(1))) in bench.take(replied(1))


def test_a_full_block_waits_no_longer_than_there_is_half_a_block_of_credit() -> None:
    assert SendBlocks((EnvId(0),)) in ahead().take(replied(0))


def test_a_full_block_does_not_wait_for_long() -> None:
    bench = ahead()
    assert bench.take(TimerFired("gather")) == (SendBlocks((EnvId(0),)), CancelTimer("gather"))


def test_steps_of_an_older_version_leave_soon_however_few_they_are() -> None:
    bench = Bench().ready()
    bench.take(policy(), step_grant(env_grant(until=9), block_steps=8))
    bench.take(replied())
    bench.take(step_grant(env_grant(until=9), block_steps=8, versions={WALKER: 1}), policy(version=1))
    assert SetTimer("gather", GATHER_ASYNC_S) in bench.take(replied())
    assert not of_type(bench.take(replied()), SetTimer)
    assert SendBlocks((EnvId(0),)) in bench.take(TimerFired("gather"))
    assert not of_type(bench.take(replied()), SetTimer)


def test_blocks_do_not_wait_where_nobody_gathers() -> None:
    bench = Bench(2).ready(0).ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=1), env_grant(1, until=4)))
    assert SendBlocks((EnvId(0),)) in bench.take(replied(0))


def test_blocks_do_not_wait_while_the_worker_stops() -> None:
    bench = Bench(2).ready(0).ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=9), env_grant(1, until=9), gathers=True))
    bench.take(stop_request())
    assert SendBlocks((EnvId(0),)) in bench.take(replied(0))
