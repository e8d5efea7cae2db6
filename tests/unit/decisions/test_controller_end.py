"""Every way in which a run ends, and that each goes through the same states."""

from __future__ import annotations

import pytest

from runtime.decisions.controller_state import ControllerPhase
from runtime.decisions.effects import (
    SUPERVISOR,
    AddBrain,
    BlocksAccepted,
    CutTrajectories,
    Finish,
    LearnerFailed,
    PushStatus,
    Report,
    SaveFinished,
    SetTimer,
    StartSave,
    StartUpdate,
    TimerFired,
    WarmUp,
    WriteSummary,
)
from runtime.messages import (
    RestartDenied,
    StepGrant,
    Stopped,
    StopRequest,
)
from tests.support.bench_controller import ControllerBench as Bench
from tests.support.bench_controller import accepted_in, grants_in, in_round, round_of
from tests.support.builders_messages import (
    RUN,
    WALKER,
    block,
    brains_found,
    env_reset,
    of_type,
    player_lost,
    progress,
    sent,
    start_player,
    steps_taken,
    stop_request,
    stopped,
    worker_failed,
    worker_ready,
)

WORKER_STOPPED = stopped("worker 0", reason="")
SAVED = SaveFinished(is_final=True)


def outcome_of(effects: tuple[object, ...]) -> tuple[str, int, str]:
    """Reason, exit code and cause of an end that the Supervisor was told."""
    (told,) = sent(effects, Stopped, SUPERVISOR)
    assert (told.part, of_type(effects, Finish)) == ("controller", [Finish()])
    return told.exit_reason, told.exit_code, told.cause


# ---- why a run ends


def test_a_run_ends_after_the_round_in_which_every_behavior_has_taken_its_steps() -> None:
    bench = in_round(1)
    bench.progress = progress(steps=1000, max_steps=1000)
    effects = round_of(bench)
    assert [each.reason for each in sent(effects, StopRequest)] == ["max_steps"]
    assert not grants_in(effects)
    effects = bench.take(WORKER_STOPPED)
    assert [each.is_final for each in of_type(effects, StartSave)] == [True]
    assert outcome_of(bench.take(SAVED)) == ("max_steps", 0, "")


def test_a_behavior_that_is_not_done_keeps_the_run_going() -> None:
    bench = in_round(1)
    bench.take(brains_found("Other"))
    bench.progress = progress(steps=1000, max_steps=1000) | progress("Other")
    assert grants_in(round_of(bench))


def test_a_behavior_without_agents_for_long_keeps_nobody_and_is_named() -> None:
    bench = Bench(idle_steps=3)
    bench.reset()
    bench.take(brains_found("Other"))
    bench.progress = progress(steps=1000, max_steps=1000) | progress("Other")
    effects = round_of(bench)
    assert Report("note", "without agents when the run ended: Other") in effects
    assert sent(effects, StopRequest)


def test_a_run_without_any_finished_behavior_does_not_end_because_all_are_idle() -> None:
    bench = Bench(idle_steps=0)
    bench.reset()
    bench.take(steps_taken(block(0, steps=2, pending={WALKER: 0})))
    assert grants_in(bench.take(steps_taken(block(0, first=2, steps=2, pending={WALKER: 0}))))


def test_a_run_whose_learner_knows_nobody_goes_on() -> None:
    bench = Bench(is_training=False)
    bench.take(worker_ready())
    assert grants_in(bench.take(env_reset(pending={})))
    assert grants_in(bench.take(steps_taken(block(0, steps=4, pending={}))))


def test_stop_at_ends_the_run_after_the_round_that_reaches_it() -> None:
    bench = Bench(stop_at=6)
    bench.reset()
    assert grants_in(round_of(bench)) == {(0, 0): 6}
    effects = round_of(bench, agent_steps=2)
    assert [each.reason for each in sent(effects, StopRequest)] == ["stop_at"]
    bench.take(WORKER_STOPPED)
    assert outcome_of(bench.take(SAVED)) == ("stop_at", 0, "")


def test_max_steps_is_the_reason_where_both_ends_are_reached() -> None:
    bench = Bench(stop_at=4)
    bench.reset()
    bench.progress = progress(steps=1000, max_steps=1000)
    assert [each.reason for each in sent(round_of(bench), StopRequest)] == ["max_steps"]


@pytest.mark.parametrize(
    ("cause", "reason", "code"),
    [
        (LearnerFailed("nan", 3), "environment_failure", 3),
        (LearnerFailed("no weights", 4), "trainer_failure", 4),
        (LearnerFailed("damaged", 5), "storage_failure", 5),
        (RestartDenied(run=RUN, cause="spent"), "environment_failure", 3),
        (stop_request("interrupted"), "interrupted", 130),
        (stop_request("terminated"), "terminated", 143),
        (stop_request("closed"), "closed", 0),
    ],
)
def test_every_cause_has_its_reason_and_exit_code_and_saves(cause: object, reason: str, code: int) -> None:
    bench = in_round(1)
    bench.take(cause)
    assert of_type(bench.take(WORKER_STOPPED), StartSave)
    assert outcome_of(bench.take(SAVED))[:2] == (reason, code)


def test_the_first_cause_stays() -> None:
    bench = in_round(1)
    bench.take(RestartDenied(run=RUN, cause="spent"))
    assert bench.take(stop_request(), LearnerFailed("later", 4)) == ()
    bench.take(WORKER_STOPPED)
    assert outcome_of(bench.take(SAVED)) == ("environment_failure", 3, "spent")


def test_a_stop_without_saving_saves_nothing() -> None:
    bench = in_round(1)
    bench.take(stop_request(saves=False))
    effects = bench.take(WORKER_STOPPED)
    assert not of_type(effects, StartSave)
    assert outcome_of(effects) == ("interrupted", 130, "")


def test_a_run_that_learned_nothing_saves_nothing() -> None:
    assert outcome_of(Bench().take(stop_request())) == ("interrupted", 130, "")
    bench = Bench(is_training=False)
    bench.reset()
    bench.take(stop_request())
    assert outcome_of(bench.take(WORKER_STOPPED)) == ("interrupted", 130, "")


def test_a_failed_last_save_is_a_storage_failure_unless_something_failed_before() -> None:
    broken = SaveFinished(is_final=True, error="disk full")
    bench = in_round(1)
    bench.take(stop_request("closed"), WORKER_STOPPED)
    effects = bench.take(broken)
    assert Report("fault", "the models could not be saved: disk full") in effects
    assert outcome_of(effects) == ("storage_failure", 5, "disk full")
    for asked in ("interrupted", "terminated"):
        bench = in_round(1)
        bench.take(stop_request(asked), WORKER_STOPPED)
        assert outcome_of(bench.take(broken)) == ("storage_failure", 5, "disk full")
    bench = in_round(1)
    bench.take(LearnerFailed("no weights", 4), WORKER_STOPPED)
    assert outcome_of(bench.take(broken)) == ("trainer_failure", 4, "no weights")


# ---- how it ends


def test_the_end_asks_all_workers_to_stop_under_a_deadline() -> None:
    bench = Bench(2, stop_deadline_s=8.0)
    bench.reset(0, worker=0)
    bench.reset(1, worker=1)
    effects = bench.take(stop_request())
    assert [(each.reason, each.deadline_s) for each in sent(effects, StopRequest)] == [("interrupted", 4.0)] * 2
    assert SetTimer("stop", 5.0) in effects
    assert SetTimer("update", 8.0 * 0.7) in effects


def test_what_arrived_in_the_round_and_what_workers_send_at_last_is_accepted() -> None:
    bench = in_round()
    bench.take(steps_taken(block(0, steps=2)))
    assert accepted_in(bench.take(stop_request())) == [(0, 0)]
    assert accepted_in(bench.take(steps_taken(block(1, steps=1)))) == [(1, 0)]
    assert bench.state.counters.env_steps == 3


def test_the_end_waits_for_the_learner_to_take_the_last_blocks() -> None:
    bench = in_round(1)
    bench.take(stop_request())
    bench.core.handle(steps_taken(block(0, steps=1)), 0.0)
    assert not of_type(bench.core.handle(WORKER_STOPPED, 0.0), StartSave)
    effects = bench.core.handle(BlocksAccepted(progress()), 0.0)
    assert of_type(effects, StartSave)
    assert CutTrajectories(None) in effects


def test_the_end_waits_for_an_update_under_way_and_publishes_it() -> None:
    bench = in_round(1)
    bench.progress = progress(is_ready=True)
    assert of_type(round_of(bench), StartUpdate)
    bench.take(stop_request())
    assert not of_type(bench.take(WORKER_STOPPED), StartSave)
    assert of_type(bench.finish_update(1), StartSave)


def test_an_update_that_fails_is_not_waited_for() -> None:
    bench = in_round(1)
    bench.progress = progress(is_ready=True)
    round_of(bench)
    bench.take(LearnerFailed("nan loss", 4, WALKER))
    assert of_type(bench.take(WORKER_STOPPED), StartSave)


def test_an_update_that_takes_too_long_is_given_up_and_told() -> None:
    bench = in_round(1)
    bench.progress = progress(is_ready=True)
    round_of(bench)
    bench.take(stop_request(), WORKER_STOPPED)
    effects = bench.take(TimerFired("update"))
    assert Report("note", "an update under way was given up at the end") in effects
    assert of_type(effects, StartSave)


def test_a_worker_that_does_not_stop_in_time_is_not_waited_for_and_bounded() -> None:
    bench = Bench(2)
    bench.reset(0, agents=3)
    bench.reset(1, agents=3)
    bench.take(steps_taken(block(0, steps=1), block(1, steps=4)), stop_request())
    effects = bench.take(TimerFired("stop"))
    assert Report("note", "EnvWorkers [0] did not stop in time") in effects
    assert of_type(effects, StartSave)
    assert bench.state.counters.unreported_max == 9


def test_deadlines_that_no_longer_matter_change_nothing() -> None:
    bench = in_round(1)
    assert bench.take(TimerFired("stop"), TimerFired("update")) == ()
    bench.take(stop_request(), WORKER_STOPPED)
    assert bench.state.phase is ControllerPhase.SAVING
    assert bench.take(TimerFired("stop"), TimerFired("update")) == ()


def test_a_deadline_with_nothing_missing_tells_nothing() -> None:
    bench = in_round(1)
    bench.progress = progress(is_ready=True)
    round_of(bench)
    bench.take(stop_request(), WORKER_STOPPED)
    assert bench.take(TimerFired("stop")) == ()
    bench = in_round(1)
    bench.take(stop_request())
    assert bench.take(TimerFired("update")) == ()


def test_a_worker_lost_at_the_end_is_not_waited_for() -> None:
    bench = in_round(1)
    bench.take(stop_request())
    assert of_type(bench.take(worker_failed((0, 0))), StartSave)
    assert bench.state.counters.unreported_max == 4


def test_a_player_lost_at_the_end_is_bounded() -> None:
    bench = in_round(1)
    bench.take(stop_request(), player_lost(0, unreported=2))
    assert bench.state.counters.unreported_max == 2


def test_players_and_brains_that_appear_at_the_end_are_known_and_not_used() -> None:
    bench = in_round(2)
    bench.take(stop_request(), player_lost(0))
    # Its worker may not have been known when the others were asked to stop.
    assert [type(each) for each in sent(bench.take(worker_ready(0, 1)), object)] == [StopRequest]
    effects = bench.take(brains_found("Late"))
    assert of_type(effects, AddBrain)
    assert not of_type(effects, WarmUp)
    assert not sent(effects, StepGrant)
    assert accepted_in(bench.take(steps_taken(block(1, steps=1, pending={"Late": 1})))) == [(1, 0)]


def test_steps_that_come_while_the_last_save_is_written_are_declared_lost() -> None:
    bench = in_round(2)
    bench.take(player_lost(0, unreported=3), stop_request(), WORKER_STOPPED)
    assert bench.state.phase is ControllerPhase.SAVING
    assert accepted_in(bench.take(steps_taken(block(0, steps=1, agent_steps=2)))) == []
    counters = bench.state.counters
    assert (counters.env_steps, counters.lost, counters.unreported_max) == (0, {"stale": 2}, 1)


def test_a_worker_that_stops_before_the_end_is_remembered() -> None:
    bench = in_round(1)
    assert bench.take(WORKER_STOPPED) == ()
    assert of_type(bench.take(stop_request()), StartSave)


@pytest.mark.parametrize("part", ["holder", "worker", "worker x", "controller 1"])
def test_other_parts_that_stop_concern_nobody(part: str) -> None:
    bench = in_round(1)
    assert bench.take(stopped(part)) == ()
    assert bench.state.stopped == frozenset()


def test_the_last_acts_are_a_summary_a_status_and_the_word_to_the_supervisor() -> None:
    bench = in_round(1)
    bench.take(stop_request(), WORKER_STOPPED)
    effects = bench.take(SAVED)
    kinds = [type(each) for each in effects]
    assert kinds[:2] == [WriteSummary, PushStatus]
    assert WriteSummary("interrupted") in effects
    assert effects[-1] == Finish()


def test_nothing_counts_after_the_end() -> None:
    bench = in_round(1)
    bench.take(stop_request(), WORKER_STOPPED, SAVED)
    before = bench.state
    assert bench.take(steps_taken(block(0)), stop_request(), start_player()) == ()
    assert bench.state.counters.dropped == {"StepsTaken": 1, "StopRequest": 1, "StartPlayer": 1}
    assert bench.state.envs == before.envs
