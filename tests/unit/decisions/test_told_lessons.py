"""Lessons that begin without a reset are told with grants; those that need one wait for it."""

from __future__ import annotations

from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_end import run_state
from runtime.decisions.effects import CutTrajectories
from runtime.messages import ResetRequest
from tests.support.bench_lessons import bench_of, resets_in, round_with, telling, told_in
from tests.support.builders_messages import (
    WALKER,
    block,
    env_reset,
    of_type,
    player_lost,
    progress,
    sent,
    steps_taken,
    worker_ready,
)


def test_players_that_can_be_told_learn_of_a_lesson_with_the_next_grant_and_are_not_reset() -> None:
    bench = telling()
    effects = round_with(bench, 1.0)
    assert not resets_in(effects)
    assert not of_type(effects, CutTrajectories)
    assert told_in(effects) == [(1, 2.0), (1, 2.0)]
    assert told_in(round_with(bench, 0.0)) == [(1, 2.0), (1, 2.0)]
    assert told_in(round_with(bench, 1.0)) == [(2, 3.0), (2, 3.0)]


def test_a_lesson_that_requires_a_reset_resets_them_all_the_same() -> None:
    bench = telling(require_reset=True)
    assert resets_in(round_with(bench, 1.0)) == [(0, 1, 2.0), (1, 1, 2.0)]


def test_one_player_that_cannot_be_told_has_all_of_them_reset() -> None:
    bench = telling()
    bench.take(player_lost(1))
    bench.take(worker_ready(1, 1, worker=1), env_reset(1, incarnation=1, pending={WALKER: 1}))
    assert resets_in(round_with(bench, 1.0)) == [(0, 1, 2.0), (1, 1, 2.0)]


def test_a_player_that_is_started_again_has_the_lesson_from_its_first_reset() -> None:
    bench = telling()
    round_with(bench, 1.0)
    bench.take(player_lost(1))
    (request,) = sent(bench.take(worker_ready(1, 1, worker=1, takes_parameters=True)), ResetRequest)
    assert (request.parameters["height"], request.parameters_id) == (2.0, 1)


def test_before_any_lesson_has_changed_grants_carry_no_parameters() -> None:
    bench = telling(parameters={"mass": 7.0})
    assert told_in(round_with(bench, 0.0)) == [(0, None), (0, None)]


def test_in_asynchronous_collection_a_lesson_goes_with_the_next_grant_too() -> None:
    bench = telling(is_sync=False, block_steps_max=2)
    bench.earned = (1.0,)
    effects = bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert not resets_in(effects)
    assert not bench.state.is_reset_due
    assert told_in(effects)[-1] == (1, 2.0)


def test_a_resumed_run_begins_in_the_lesson_that_players_were_told_of() -> None:
    bench = telling()
    round_with(bench, 1.0)
    again = ControllerCore(bench.state.options, run_state(bench.state), progress())
    (request,) = sent(again.handle(worker_ready(0, 1, takes_parameters=True), 0.0), ResetRequest)
    assert request.parameters["height"] == 2.0


def test_in_asynchronous_collection_a_lesson_that_requires_a_reset_is_not_told_before_it() -> None:
    bench = telling(require_reset=True, is_sync=False, block_steps_max=2)
    bench.earned = (1.0,)
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert bench.state.updating
    # The new version is granted to whoever still steps; the lesson waits.
    effects = bench.finish_update(1)
    bench.progress = progress()
    assert told_in(effects)
    assert set(told_in(effects)) == {(0, None)}
    effects = bench.take(
        steps_taken(block(0, first=2, steps=2, agent_steps=2), block(1, steps=4, agent_steps=4, version=1))
    )
    assert resets_in(effects) == [(0, 1, 2.0), (1, 1, 2.0)]


def test_in_asynchronous_collection_a_player_that_began_in_the_new_lesson_is_not_reset_for_it() -> None:
    bench = bench_of(3, is_sync=False, block_steps_max=2)
    bench.earned = (1.0,)
    bench.take(steps_taken(block(0, steps=4, agent_steps=4)), player_lost(2))
    assert resets_in(bench.take(worker_ready(2, 1))) == [(2, 0, 2.0)]
    bench.take(env_reset(2, incarnation=1, pending={WALKER: 1}))
    assert resets_in(bench.take(steps_taken(block(1, steps=4, agent_steps=4)))) == [(0, 1, 2.0), (1, 1, 2.0)]
