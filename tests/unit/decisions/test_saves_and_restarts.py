"""Checkpoints, planned restarts, and what a later run goes on from."""

from __future__ import annotations

import json

import pytest

from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.effects import (
    SUPERVISOR,
    AcceptBlocks,
    CutTrajectories,
    Report,
    SaveFinished,
    StartSave,
)
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    HolderFailed,
    RestartPlayersRequest,
)
from tests.support.bench_controller import ControllerBench as Bench
from tests.support.bench_controller import accepted_in, freely, grants_in, in_round, round_of
from tests.support.builders_messages import (
    RUN,
    WALKER,
    block,
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


# ---- saves


def saving() -> Bench:
    """A checkpoint at 50 agent steps is being written."""
    bench = in_round(1)
    bench.progress = progress(steps=60)
    effects = round_of(bench)
    assert [each.is_final for each in of_type(effects, StartSave)] == [False]
    assert grants_in(effects)
    return bench


def test_a_checkpoint_is_written_at_each_multiple_of_its_interval_while_collecting_goes_on() -> None:
    bench = saving()
    assert bench.state.next_save == {WALKER: 100}
    bench.take(SaveFinished(is_final=False))
    assert not of_type(round_of(bench), StartSave)
    bench.progress = progress(steps=100)
    assert of_type(round_of(bench), StartSave)


def test_a_checkpoint_that_is_due_while_one_is_written_is_skipped_and_told() -> None:
    bench = saving()
    bench.progress = progress(steps=120)
    effects = round_of(bench)
    assert not of_type(effects, StartSave)
    assert [each.text for each in of_type(effects, Report)] == [
        "a checkpoint is due while the last one is still being written; skipped"
    ]


def test_a_failed_checkpoint_is_told_and_the_run_goes_on() -> None:
    bench = saving()
    assert bench.take(SaveFinished(is_final=False, error="full")) == (
        Report("fault", "the models could not be saved: full"),
    )
    assert bench.state.ending is None


def test_checkpoints_that_keep_failing_are_told_once_and_so_is_the_first_that_works_again() -> None:
    bench = saving()
    told: list[str] = []
    for steps, error in ((60, "full"), (120, "full, 3 MB free"), (180, ""), (240, ""), (300, "full")):
        bench.progress = progress(steps=steps)
        round_of(bench)
        told += [each.text for each in of_type(bench.take(SaveFinished(is_final=False, error=error)), Report)]
    assert told == [
        "the models could not be saved: full",
        "the models could be saved again",
        "the models could not be saved: full",
    ]


def test_the_last_save_waits_for_one_that_is_being_written() -> None:
    bench = saving()
    bench.take(stop_request())
    assert not of_type(bench.take(WORKER_STOPPED), StartSave)
    assert [each.is_final for each in of_type(bench.take(SaveFinished(is_final=False)), StartSave)] == [True]


def test_without_training_no_checkpoint_is_written() -> None:
    bench = Bench(is_training=False)
    bench.reset()
    bench.progress = progress(steps=60)
    assert not of_type(round_of(bench), StartSave)


# ---- planned restarts


def test_players_are_restarted_once_where_that_was_asked_for() -> None:
    bench = Bench(restart_envs_at=4)
    bench.reset()
    effects = round_of(bench)
    assert sent(effects, RestartPlayersRequest, SUPERVISOR)
    assert CutTrajectories(None) in effects
    assert not grants_in(effects)
    assert grants_in(bench.reset(0, 1))
    assert bench.env().restarts == 0
    assert not sent(round_of(bench), RestartPlayersRequest)


def test_steps_under_way_at_a_planned_restart_are_bounded() -> None:
    bench = freely(2)
    bench.core = ControllerCore(
        ControllerOptions(run=RUN, environments=2, is_sync=False, block_steps_max=2, restart_envs_at=1)
    )
    for each in (0, 1):
        bench.reset(each)
    bench.take(steps_taken(block(0, steps=1)))
    assert bench.state.counters.unreported_max == 1 + 2
    bench.take(steps_taken(block(1, steps=1)))
    assert (bench.state.counters.unreported_max, bench.state.counters.lost) == (2, {"stale": 1})


def test_a_planned_restart_that_crosses_the_failure_of_a_worker_counts_no_restart_of_the_player() -> None:
    bench = Bench(restart_envs_at=4)
    bench.reset()
    assert sent(round_of(bench), RestartPlayersRequest)
    bench.take(worker_failed((0, 0)), worker_ready(0, 2))
    assert (bench.env().incarnation, bench.env().restarts) == (2, 0)
    assert bench.state.worker_restarts == {0: 1}


@pytest.mark.parametrize("when", ["before the failure is known", "after it"])
def test_no_trajectory_goes_on_with_what_a_failed_worker_took_before_a_planned_restart(when: str) -> None:
    bench = freely(2)
    bench.core = ControllerCore(
        ControllerOptions(run=RUN, environments=2, is_sync=False, block_steps_max=2, restart_envs_at=1)
    )
    for each in (0, 1):
        bench.reset(each)
    # All trajectories are cut here; what an environment tells afterwards has lost the actions before it.
    assert CutTrajectories(None) in bench.take(steps_taken(block(0, steps=1)))
    late = steps_taken(block(1, steps=1))
    first, then = (late, worker_failed((1, 0))) if when.startswith("before") else (worker_failed((1, 0)), late)
    effects = (*bench.take(first), *bench.take(then))
    assert not of_type(effects, AcceptBlocks)
    assert bench.state.counters.lost == {"stale": 1}


def test_a_second_loss_does_not_open_trajectories_that_were_cut() -> None:
    bench = in_round(2)
    bench.take(player_lost(1))
    assert CutTrajectories(EnvId(1)) in bench.take(steps_taken(block(0, steps=bench.env().until)))
    bench.take(worker_failed((1, 0)))
    assert not of_type(bench.take(steps_taken(block(1, steps=1))), AcceptBlocks)
    assert bench.state.counters.lost == {"stale": 1}
    assert accepted_in(round_of(bench))


def test_a_planned_restart_after_a_restart_that_is_under_way_counts_one() -> None:
    bench = Bench(2, restart_envs_at=4)
    bench.reset(0)
    bench.reset(1)
    bench.take(player_lost(0), start_player(0, 1, restarts=1))
    assert sent(bench.take(steps_taken(block(1, steps=2, agent_steps=4))), RestartPlayersRequest)
    bench.reset(0, 2)
    bench.reset(1, 1)
    assert [bench.env(each).restarts for each in (0, 1)] == [1, 0]


# ---- what a later run goes on from


def test_a_run_goes_on_with_the_counters_that_were_saved() -> None:
    bench = in_round(2)
    bench.take(steps_taken(block(0, steps=4, agent_steps=5), block(1, steps=4, agent_steps=6)))
    bench.take(start_player(0, 1, restarts=1), player_lost(1, unreported=2), worker_failed((0, 0), (1, 0)))
    (save,) = of_type(
        bench.take(HolderFailed(run=RUN, incarnation=Incarnation(0), cause="gone"), stop_request()), StartSave
    )
    saved = json.loads(json.dumps(save.run_state))
    options = ControllerOptions(run=RUN, environments=2, first_incarnation=2)
    state = ControllerCore(options, saved).state
    before = bench.state
    assert (state.counters.env_steps, state.counters.agent_steps) == (8, 11)
    assert state.counters.decisions == before.counters.decisions
    assert state.counters.unreported_max == before.counters.unreported_max
    assert (state.worker_restarts, state.holder_restarts) == ({0: 1}, 1)
    assert [each.restarts for each in state.envs.values()] == [1, 0]
    assert state.agents_max == before.agents_max


def test_a_damaged_run_state_begins_at_zero() -> None:
    damaged = {"env_steps": "many", "lost": [1], "restarts": None}
    state = ControllerCore(ControllerOptions(run=RUN, environments=1), damaged).state
    assert (state.counters.env_steps, state.counters.lost, state.envs[next(iter(state.envs))].restarts) == (0, {}, 0)
