"""The TrainerController: environments that come and go, brains, policies, and what is dropped."""

from __future__ import annotations

import pytest

from runtime.decisions.controller import STATUS_S, ControllerCore
from runtime.decisions.controller_end import run_state
from runtime.decisions.controller_state import ControllerOptions, ControllerPhase
from runtime.decisions.effects import (
    HOLDER,
    AcceptBlocks,
    AddBrain,
    BlocksAccepted,
    BrainAdded,
    CutTrajectories,
    PushStatus,
    RecordStats,
    Send,
    SetTimer,
    TimerFired,
    WarmUp,
    WriteSummary,
    worker_role,
)
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    HolderFailed,
    HolderRestarted,
    PolicyUpdate,
    ResetRequest,
    StatsReported,
    StepGrant,
    StopRequest,
)
from tests.support.bench_controller import ControllerBench as Bench
from tests.support.bench_controller import accepted_in, grants_in
from tests.support.builders_messages import (
    OTHER_RUN,
    RUN,
    WALKER,
    block,
    brain,
    brains_found,
    env_reset,
    of_type,
    player_lost,
    progress,
    release,
    sent,
    start_player,
    status,
    steps_taken,
    worker_failed,
    worker_ready,
)

# ---- environments


def test_a_player_that_has_connected_is_reset_with_the_runs_parameters() -> None:
    bench = Bench(parameters={"gravity": 3.0}, train_mode=False)
    ((request),) = sent(bench.take(worker_ready(worker=2)), ResetRequest, worker_role(2))
    assert (request.reset_id, request.parameters, request.train_mode) == (0, {"gravity": 3.0}, False)
    assert (bench.env().state, bench.env().player_pid) == ("resetting", 12)


@pytest.mark.parametrize("message", [worker_ready(0, 0), worker_ready(5, 0)], ids=["known", "no environment"])
def test_a_player_that_is_known_or_not_ours_is_dropped_and_counted(message: object) -> None:
    bench = Bench()
    bench.take(worker_ready())
    assert bench.take(message) == ()
    assert bench.state.counters.dropped == {"WorkerReady": 1}


def test_the_first_round_waits_for_every_environment() -> None:
    bench = Bench(2)
    assert not grants_in(bench.reset(0))
    assert grants_in(bench.reset(1)) == {(0, 0): 4, (1, 0): 4}


def test_the_rows_of_a_reset_go_to_the_learner_once() -> None:
    bench = Bench(2)
    assert len(of_type(bench.reset(0), AcceptBlocks)) == 1
    assert bench.take(env_reset(0)) == ()
    assert bench.state.counters.dropped == {"EnvReset": 1}


def test_a_reset_that_comes_again_takes_no_grant_back() -> None:
    bench = Bench()
    bench.reset()
    bench.take(env_reset())
    assert (bench.env().state, bench.env().until) == ("stepping", 4)


@pytest.mark.parametrize("late", [env_reset(5), env_reset(0, incarnation=1), env_reset(0, reset_id=1)])
def test_a_reset_of_another_environment_incarnation_or_id_is_dropped(late: object) -> None:
    bench = Bench()
    bench.take(worker_ready())
    assert bench.take(late) == ()
    assert bench.state.counters.dropped == {"EnvReset": 1}


def test_a_lost_player_leaves_the_round_and_joins_a_later_one() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    assert PushStatus() in bench.take(player_lost(1, unreported=2))
    assert bench.state.counters.unreported_max == 2
    effects = bench.take(steps_taken(block(0, steps=4, agent_steps=4)))
    assert CutTrajectories(EnvId(1)) in effects
    assert grants_in(effects) == {(0, 0): 8}
    bench.reset(1, 1)
    assert grants_in(bench.take(steps_taken(block(0, first=4, steps=4)))) == {(0, 0): 12, (1, 1): 4}


def test_a_loss_that_is_told_twice_counts_once() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.take(player_lost(0, unreported=2))
    assert bench.take(player_lost(0, unreported=2)) == ()
    assert bench.state.counters.unreported_max == 2


@pytest.mark.parametrize("late", [player_lost(0, 0), player_lost(5, 1)], ids=["old", "no environment"])
def test_a_loss_of_an_old_incarnation_or_of_nobody_is_dropped(late: object) -> None:
    bench = Bench(2)
    bench.reset(0, 1)
    assert bench.take(late) == ()
    assert bench.state.counters.dropped == {"PlayerLost": 1}


def test_a_loss_before_the_player_ever_connected_is_known_with_its_worker() -> None:
    bench = Bench()
    bench.take(player_lost(0, 0, worker=3))
    assert (bench.env().state, bench.env().worker, bench.env().incarnation) == ("lost", 3, 0)


def test_a_successor_that_is_heard_of_first_bounds_its_predecessor_by_its_whole_grant_until_the_news_comes() -> None:
    bench = Bench(2)
    bench.reset(0, agents=3)
    bench.reset(1, agents=3)
    bench.take(steps_taken(block(0, steps=1, agent_steps=3, pending={WALKER: 3})))
    bench.take(worker_ready(0, 1))
    assert bench.state.counters.unreported_max == 9
    assert bench.state.cuts == {0}
    late = steps_taken(block(0, first=1, steps=1, agent_steps=2))
    bench.take(late, late)
    assert (bench.state.counters.unreported_max, bench.state.counters.lost) == (7, {"stale": 2})
    assert bench.take(player_lost(0, 0, unreported=3)) == (PushStatus(),)
    assert bench.state.counters.unreported_max == 3
    assert bench.take(player_lost(0, 0, unreported=3)) == ()
    assert bench.state.counters.unreported_max == 3


def test_a_round_that_waited_for_a_predecessor_alone_ends_when_its_successor_is_heard_of() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    bench.take(steps_taken(block(1, steps=4, agent_steps=4)))
    effects = bench.take(worker_ready(0, 1))
    assert accepted_in(effects) == [(1, 0)]
    assert grants_in(effects) == {(1, 0): 8}


def test_the_loss_of_a_successor_that_is_heard_of_first_writes_its_predecessor_off_too() -> None:
    bench = Bench(2)
    bench.reset(0, agents=2)
    bench.reset(1)
    bench.take(player_lost(0, 1))
    assert bench.state.counters.unreported_max == 8
    assert (bench.env().state, bench.env().incarnation) == ("lost", 1)


def test_a_restart_is_counted_when_it_is_ordered() -> None:
    bench = Bench()
    assert bench.take(start_player(0, 1, restarts=1), start_player(0, 1, restarts=1)) == (PushStatus(), PushStatus())
    assert bench.env().restarts == 1
    assert bench.take(start_player(5, 1)) == ()


def test_a_player_lost_after_its_worker_counts_one_restart_in_whichever_order_the_news_come() -> None:
    bench = Bench()
    bench.reset(0)
    orders = (worker_failed((0, 0)), start_player(0, 2, restarts=1))
    bench.take(player_lost(0, 1), *orders)
    assert (bench.env().restarts, bench.state.worker_restarts) == (1, {0: 1})


def test_a_lost_worker_takes_all_its_environments_along_within_a_bound() -> None:
    bench = Bench(2)
    bench.reset(0, agents=2)
    bench.reset(1, agents=2)
    bench.take(steps_taken(block(0, steps=3, agent_steps=6, pending={WALKER: 2})))
    effects = bench.take(worker_failed((0, 0), (1, 0)))
    assert [bench.env(each).state for each in (0, 1)] == ["lost", "lost"]
    assert bench.state.counters.unreported_max == 2 + 8
    assert accepted_in(effects) == [(0, 0)]
    assert [each.env_id for each in of_type(effects, CutTrajectories)] == [0, 1]
    assert bench.state.worker_restarts == {0: 1}
    bench.reset(0, 1)
    assert (bench.env().restarts, bench.state.stopped) == (0, frozenset())


def test_the_failure_of_a_worker_counts_once_and_never_for_its_successor() -> None:
    bench = Bench()
    bench.reset()
    failed = worker_failed((0, 0))
    bench.take(failed)
    bench.reset(0, 1)
    assert bench.take(failed) == ()
    assert bench.env().state == "stepping"
    assert (bench.state.worker_restarts, bench.state.counters.dropped) == ({0: 1}, {"WorkerFailed": 1})


def test_the_failure_of_a_worker_leaves_alone_what_is_not_ours_or_newer() -> None:
    bench = Bench(2)
    bench.reset(0, 2)
    bench.take(worker_failed((0, 1), (1, 0), (7, 0)))
    assert [bench.env(each).state for each in (0, 1)] == ["ready", "lost"]


def test_blocks_of_a_dead_worker_that_arrive_before_the_round_ends_are_still_accepted() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    bench.take(worker_failed((0, 0)))
    bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert bench.state.counters.unreported_max == 2
    effects = bench.take(steps_taken(block(1, steps=4, agent_steps=4)))
    assert accepted_in(effects) == [(0, 0), (1, 0)]
    assert CutTrajectories(EnvId(0)) in effects


def test_blocks_of_a_dead_worker_that_arrive_after_its_trajectories_were_cut_are_lost() -> None:
    bench = Bench()
    bench.reset()
    bench.take(worker_failed((0, 0)))
    effects = bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert not accepted_in(effects)
    counters = bench.state.counters
    assert (counters.lost, counters.unreported_max, counters.agent_steps) == ({"stale": 2}, 2, 0)


def test_what_a_lost_player_had_delivered_is_accepted_before_its_successors_rows() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    bench.take(steps_taken(block(0, steps=2, agent_steps=2)), player_lost(0))
    effects = bench.reset(0, 1)
    kinds = [each for each in effects if isinstance(each, AcceptBlocks | CutTrajectories)]
    assert [type(each) for each in kinds] == [AcceptBlocks, CutTrajectories, AcceptBlocks]
    assert accepted_in(effects) == [(0, 0)]


def test_a_lost_player_that_delivered_nothing_is_only_cut() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    bench.take(player_lost(0))
    kinds = [type(each) for each in bench.reset(0, 1) if isinstance(each, AcceptBlocks | CutTrajectories)]
    assert kinds == [CutTrajectories, AcceptBlocks]


# ---- brains and policies


def test_a_new_brain_is_added_published_and_warmed_up() -> None:
    bench = Bench()
    effects = bench.take(brains_found("A"))
    assert of_type(effects, AddBrain) == [AddBrain(brain("A"))]
    (update,) = sent(effects, PolicyUpdate, HOLDER)
    assert (update.behavior, update.version, update.kind, update.body) == ("A", 0, "onnx", b"graph")
    assert WarmUp("A") in effects


def test_another_team_of_a_known_behavior_brings_no_policy_of_its_own() -> None:
    bench = Bench()
    bench.take(brains_found("A?team=0"))
    effects = bench.take(brains_found("A?team=1"))
    assert [type(each) for each in effects] == [AddBrain]


def test_without_training_nothing_is_warmed_up() -> None:
    assert not of_type(Bench(is_training=False).take(brains_found()), WarmUp)


def test_a_brain_that_appears_in_a_round_reaches_those_who_wait_for_its_policy() -> None:
    bench = Bench(2)
    bench.reset(0)
    bench.reset(1)
    (grant,) = sent(bench.take(brains_found("Late")), StepGrant)
    assert grant.versions == {WALKER: 0, "Late": 0}
    assert {each.env_id: each.until_step for each in grant.grants} == {0: 4, 1: 4}


def test_a_round_does_not_begin_before_every_behavior_in_sight_has_a_policy() -> None:
    bench = Bench()
    bench.take(worker_ready())
    assert not grants_in(bench.take(env_reset(pending={WALKER: 1})))
    bench.take(brains_found())
    assert bench.state.phase is ControllerPhase.GATHERING


def test_a_resumed_behavior_is_saved_at_the_next_multiple_of_its_interval() -> None:
    bench = Bench()
    bench.progress = progress(steps=120)
    bench.take(brains_found())
    assert bench.state.next_save == {WALKER: 150}


def test_a_behavior_without_progress_is_saved_after_its_first_interval() -> None:
    core = Bench().core
    core.handle(BrainAdded(brain(), release(), {}, 50), 0.0)
    assert core.state.next_save == {WALKER: 50}


def test_a_new_holder_gets_all_policies_again() -> None:
    bench = Bench()
    bench.take(brains_found("B", "A"))
    effects = bench.take(HolderRestarted(run=RUN, incarnation=Incarnation(1)))
    assert [each.behavior for each in sent(effects, PolicyUpdate, HOLDER)] == ["A", "B"]
    bench.take(HolderFailed(run=RUN, incarnation=Incarnation(0), cause="gone"))
    assert bench.state.holder_restarts == 1


# ---- the rest


def test_the_status_is_pushed_again_and_again() -> None:
    core = ControllerCore(ControllerOptions(run=RUN, environments=1))
    assert core.begin() == (PushStatus(), SetTimer("status", STATUS_S))
    assert core.handle(TimerFired("status"), 0.0) == (PushStatus(), SetTimer("status", STATUS_S))


def test_a_timer_that_nobody_knows_is_dropped_and_counted() -> None:
    bench = Bench()
    assert bench.take(TimerFired("lunch")) == ()
    assert bench.state.counters.dropped == {"TimerFired": 1}


def test_summaries_are_written_when_there_are_any() -> None:
    bench = Bench(2)
    bench.reset(0)
    effects = bench.core.handle(BlocksAccepted(progress(), has_summaries=True), 0.0)
    assert WriteSummary() in effects


def test_statistics_of_players_are_recorded() -> None:
    stats = StatsReported(run=RUN, worker=0, stats=(), times={"act": (0.5, 3)})
    assert Bench().take(stats) == (RecordStats((), {"act": (0.5, 3)}),)


def test_replaced_numbers_are_counted_and_survive_a_resume() -> None:
    bench = Bench()
    for count in (3, 4):
        bench.take(StatsReported(run=RUN, worker=0, stats=(), replaced_numbers=count))
    assert bench.state.counters.replaced_numbers == 7
    again = ControllerCore(bench.state.options, run_state(bench.state))
    assert again.state.counters.replaced_numbers == 7


def test_messages_of_another_run_are_dropped_and_counted() -> None:
    bench = Bench()
    assert bench.take(StopRequest(run=OTHER_RUN, reason="interrupted", saves=True, deadline_s=1.0)) == ()
    assert bench.state.counters.dropped == {"other run": 1}
    assert bench.state.ending is None


def test_a_message_for_somebody_else_is_refused_and_changes_nothing() -> None:
    bench = Bench()
    before = bench.state
    with pytest.raises(ActorProtocolError, match="the TrainerController was sent Status, which is not for it"):
        bench.take(status())
    assert bench.state == before


def test_a_run_that_goes_on_knows_its_progress_from_the_start() -> None:
    core = ControllerCore(ControllerOptions(run=RUN, environments=1), progress=progress(steps=7))
    assert core.state.progress[WALKER].steps == 7


def test_incarnations_go_on_where_an_earlier_run_ended() -> None:
    bench = Bench(first_incarnation=4)
    bench.reset(0, 4)
    assert (bench.env().restarts, bench.env().state) == (0, "stepping")


def test_grants_go_to_each_worker_in_one_message() -> None:
    bench = Bench(3)
    bench.reset(0, worker=0)
    bench.reset(1, worker=1)
    effects = bench.reset(2, worker=0)
    told = [
        (str(each.to), [grant.env_id for grant in each.message.grants])
        for each in of_type(effects, Send)
        if isinstance(each.message, StepGrant)
    ]
    assert told == [("worker 0", [0, 2]), ("worker 1", [1])]
