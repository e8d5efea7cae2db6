"""A new lesson resets the players that are there, with its parameters, and survives their deaths and a resume."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.effects import AcceptBlocks, CutTrajectories, Report, StartSave
from runtime.experience.brains import EnvId
from runtime.experience.parameters import ParameterValue, UniformDraw, drawn_value
from runtime.messages import ResetRequest, RestartPlayersRequest
from tests.support.bench_controller import ControllerBench, accepted_in, grants_in, round_of
from tests.support.bench_lessons import Bench, bench_of, plan, resets_in, round_with
from tests.support.builders_messages import (
    RUN,
    WALKER,
    block,
    env_reset,
    of_type,
    player_lost,
    progress,
    sent,
    steps_taken,
    stop_request,
    stopped,
    worker_ready,
)


def test_the_first_reset_carries_the_first_lesson_beside_the_other_parameters() -> None:
    bench = Bench(1, lessons=(plan(1.0, 2.0),), parameters={"mass": 7.0})
    (request,) = sent(bench.take(worker_ready()), ResetRequest)
    assert request.parameters == {"mass": 7.0, "height": 1.0}


@pytest.mark.parametrize(("first", "height"), [(1, 2.0), (9, 3.0)])
def test_the_lesson_that_was_asked_for_is_the_first(first: int, height: float) -> None:
    bench = Bench(1, lessons=(plan(1.0, 2.0, 3.0),), first_lesson=first)
    assert resets_in(bench.take(worker_ready())) == [(0, 0, height)]


def test_a_new_lesson_resets_every_player_and_the_next_round_waits_for_all_of_them() -> None:
    bench = bench_of(2)
    effects = round_with(bench, 1.0)
    assert resets_in(effects) == [(0, 1, 2.0), (1, 1, 2.0)]
    assert [each.env_id for each in of_type(effects, CutTrajectories)] == [0, 1]
    assert not grants_in(effects)
    assert not grants_in(bench.take(env_reset(1, reset_id=1)))
    assert set(grants_in(bench.take(env_reset(0, reset_id=1)))) == {(0, 0), (1, 0)}
    assert bench.state.lessons.numbers == {"height": 1}


def test_a_lesson_that_is_not_passed_resets_nobody() -> None:
    bench = bench_of(2)
    effects = round_with(bench, 0.5)
    assert not resets_in(effects)
    assert grants_in(effects)
    assert not bench.state.lessons.checks["height"].is_passed


def test_the_change_is_told_with_its_reason() -> None:
    (told,) = of_type(round_with(bench_of(), 1.0), Report)
    assert told == Report(
        "note", "height: lesson 1 (L1, 2) begins after 4 env steps: reward 1.000 of Walker is above 0.5"
    )


def test_a_player_that_is_being_started_gets_the_new_lesson_in_its_first_reset_alone() -> None:
    bench = bench_of(2)
    bench.take(player_lost(1))
    bench.earned = (1.0,)
    effects = bench.take(steps_taken(block(0, steps=4, agent_steps=4)))
    assert resets_in(effects) == [(0, 1, 2.0)]
    assert grants_in(bench.take(env_reset(0, reset_id=1))) == {(0, 0): 8}
    assert resets_in(bench.take(worker_ready(1, 1))) == [(1, 0, 2.0)]


def test_a_player_whose_first_reset_is_under_way_is_reset_again_and_its_old_rows_are_dropped() -> None:
    bench = bench_of(2)
    bench.take(player_lost(1))
    assert resets_in(bench.take(worker_ready(1, 1))) == [(1, 0, 1.0)]
    bench.earned = (1.0,)
    effects = bench.take(steps_taken(block(0, steps=4, agent_steps=4)))
    assert resets_in(effects) == [(0, 1, 2.0), (1, 1, 2.0)]
    late = bench.take(env_reset(1, incarnation=1, reset_id=0))
    assert not of_type(late, AcceptBlocks)
    assert not grants_in(bench.take(env_reset(0, reset_id=1)))
    assert set(grants_in(bench.take(env_reset(1, incarnation=1, reset_id=1)))) == {(0, 0), (1, 1)}


def test_a_player_that_dies_in_the_reset_of_a_lesson_holds_up_nobody() -> None:
    bench = bench_of(2)
    round_with(bench, 1.0)
    bench.take(env_reset(0, reset_id=1))
    assert grants_in(bench.take(player_lost(1))) == {(0, 0): 8}
    assert resets_in(bench.take(worker_ready(1, 1))) == [(1, 0, 2.0)]


def test_blocks_of_the_lesson_before_are_not_taken_after_the_reset() -> None:
    bench = bench_of(1)
    round_with(bench, 1.0)
    bench.take(env_reset(0, reset_id=1))
    late = bench.take(steps_taken(block(0, first=4, steps=1, agent_steps=1, reset_id=0)))
    assert not accepted_in(late)
    assert bench.state.counters.lost == {"stale": 1}


def test_without_training_lessons_stay() -> None:
    bench = bench_of(is_training=False)
    assert not resets_in(round_with(bench, 1.0))
    assert bench.state.lessons.numbers == {"height": 0}


def test_progress_ends_a_lesson_too() -> None:
    bench = bench_of(lessons=(plan(1.0, 2.0, measure="progress"),))
    bench.progress = progress(steps=500, max_steps=1000)
    assert not resets_in(round_with(bench))
    bench.progress = progress(steps=501, max_steps=1000)
    assert resets_in(round_with(bench)) == [(0, 1, 2.0)]


def freely(environments: int) -> Bench:
    return bench_of(environments, is_sync=False, block_steps_max=2)


def test_in_asynchronous_collection_players_first_take_what_they_were_granted() -> None:
    bench = freely(2)
    bench.earned = (1.0,)
    effects = bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert not resets_in(effects)
    assert not grants_in(effects)
    effects = bench.take(steps_taken(block(0, first=2, steps=2, agent_steps=2), block(1, steps=4, agent_steps=4)))
    assert resets_in(effects) == [(0, 1, 2.0), (1, 1, 2.0)]
    assert set(grants_in(bench.take(env_reset(1, reset_id=1)))) == {(1, 0)}
    assert set(grants_in(bench.take(env_reset(0, reset_id=1)))) == {(0, 0)}
    assert bench.state.counters.lost == {}


def test_in_asynchronous_collection_a_lost_player_holds_up_no_reset() -> None:
    bench = freely(2)
    bench.earned = (1.0,)
    bench.take(steps_taken(block(0, steps=4, agent_steps=4)))
    assert resets_in(bench.take(player_lost(1))) == [(0, 1, 2.0)]


def saved_by(bench: Bench) -> dict[str, object]:
    (save,) = of_type(bench.take(stop_request(), stopped("worker 0", reason="")), StartSave)
    found: dict[str, object] = json.loads(json.dumps(save.run_state))
    return found


def test_c15_the_very_first_reset_after_a_resume_carries_the_saved_lesson() -> None:
    bench = bench_of(1)
    round_with(bench, 1.0)
    bench.take(env_reset(0, reset_id=1))
    round_with(bench, 0.25)
    saved = saved_by(bench)
    options = replace(bench.state.options, first_incarnation=1)
    core = ControllerCore(options, saved, progress())
    (request,) = sent(core.handle(worker_ready(0, 1), 0.0), ResetRequest)
    assert request.parameters["height"] == 2.0
    assert core.state.lessons.returns == bench.state.lessons.returns == {WALKER: (0.25,)}


def test_a_lesson_that_is_asked_for_wins_over_the_saved_one() -> None:
    bench = bench_of(1)
    round_with(bench, 1.0)
    options = replace(bench.state.options, first_incarnation=1, first_lesson=0)
    core = ControllerCore(options, saved_by(bench), progress())
    assert core.state.lessons.numbers == {"height": 0}


@pytest.mark.parametrize("first", [None, 1])
def test_c15_a_resume_with_fewer_lessons_tells_with_which_it_goes_on(first: int | None) -> None:
    bench = bench_of(1)
    round_with(bench, 1.0)
    bench.take(env_reset(0, reset_id=1))
    round_with(bench, 1.0)
    saved = saved_by(bench)
    options = replace(bench.state.options, first_incarnation=1, lessons=(plan(1.0, 2.0),), first_lesson=first)
    told = of_type(ControllerCore(options, saved, progress()).begin(), Report)
    line = "lessons.json: height was saved in lesson 2, and now its last is 1: the run goes on with lesson 1 (L1, 2)"
    assert told == ([Report("fault", line)] if first is None else [])
    as_before = replace(bench.state.options, first_incarnation=1)
    assert not of_type(ControllerCore(as_before, saved, progress()).begin(), Report)


@pytest.mark.parametrize("value", [7.0, UniformDraw(min_value=0.0, max_value=1.0)])
def test_a_value_of_a_parameter_that_the_player_has_not_ends_the_run(value: ParameterValue) -> None:
    bench = Bench(1, parameters={"gravity": 9.8, "mass": value})
    bench.take(replace(worker_ready(), reset_parameters={"gravity": 9.8, "size": 1.0}))
    assert bench.state.ending is not None
    assert bench.state.ending.exit_code == 2
    assert bench.state.ending.cause == (
        "environment_parameters or --sampler: there is a value of 'mass', which the player of environment 0 does not "
        "know; it knows: gravity, size. Correct the name, or leave it out."
    )
    bare = Bench(1, parameters={"mass": value})
    bare.take(replace(worker_ready(), reset_parameters={}))
    assert bare.state.ending is not None
    assert "'mass', which the player of environment 0 does not know; it knows: none." in bare.state.ending.cause
    silent = Bench(1, parameters={"mass": value})
    silent.take(worker_ready())
    assert silent.state.ending is None


def test_a_planned_restart_in_the_round_of_a_new_lesson_is_its_reset() -> None:
    bench = bench_of(1, restart_envs_at=4)
    effects = round_with(bench, 1.0)
    assert sent(effects, RestartPlayersRequest)
    assert not resets_in(effects)
    assert resets_in(bench.take(worker_ready(0, 1))) == [(0, 0, 2.0)]
    assert grants_in(bench.take(env_reset(0, incarnation=1)))


def test_the_end_in_the_round_of_a_new_lesson_saves_it() -> None:
    bench = bench_of(1, stop_at=4)
    assert not resets_in(round_with(bench, 1.0))
    (save,) = of_type(bench.take(stopped("worker 0", reason="")), StartSave)
    assert save.run_state["lessons"]["numbers"] == {"height": 1}  # type: ignore[index] # JSON


def test_a_behavior_that_nobody_announces_is_told_once_and_ends_the_run_later() -> None:
    bench = bench_of(lessons=(plan(1.0, 2.0, behavior="Absent"),), idle_steps=10)
    (told,) = of_type(round_with(bench), Report)
    assert told.level == "fault"
    assert told.text == (
        "lessons.json: lessons wait for the behavior 'Absent', which no player has announced in 4 env steps; "
        "announced: Walker"
    )
    assert not of_type(round_with(bench), Report)
    assert bench.state.ending is None
    round_with(bench)
    assert bench.state.ending is not None
    assert (bench.state.ending.exit_code, bench.state.ending.saves) == (2, True)
    assert "Correct the name, or remove these lessons." in bench.state.ending.cause


def test_a_behavior_that_is_announced_late_is_waited_for() -> None:
    bench = bench_of(lessons=(plan(1.0, 2.0, behavior="Late"),), idle_steps=10)
    round_with(bench)
    bench.progress = {**progress(), **progress("Late")}
    for _ in range(5):
        round_with(bench)
    assert bench.state.ending is None


def test_lessons_of_a_parameter_that_the_player_has_not_are_refused_where_it_tells_them() -> None:
    bench = Bench(1, lessons=(plan(1.0, 2.0),))
    told = replace(worker_ready(), reset_parameters={"gravity": 9.8, "size": 1.0})
    assert not resets_in(bench.take(told))
    assert bench.state.ending is not None
    assert bench.state.ending.exit_code == 2
    assert bench.state.ending.cause.startswith(
        "lessons.json: there are lessons of 'height', which the player of environment 0 does not know; it knows: "
        "gravity, size."
    )
    fitting = Bench(1, lessons=(plan(1.0, 2.0),))
    assert resets_in(fitting.take(replace(worker_ready(), reset_parameters={"height": 0.0}))) == [(0, 0, 1.0)]


def test_at_each_resampling_all_players_are_reset_with_the_same_numbers_drawn_anew() -> None:
    draw = UniformDraw(min_value=0.0, max_value=1.0, seed=5)
    bench = Bench(2, parameters={"height": draw}, resampling_interval=16)
    first = [resets_in(bench.take(worker_ready(each)))[0] for each in (0, 1)]
    assert {height for _, _, height in first} == {drawn_value(draw, reset=0)}
    for each in (0, 1):
        bench.reset(each)
        bench.take(env_reset(each))
    assert not resets_in(round_with(bench))
    assert resets_in(round_with(bench)) == [(each, 1, drawn_value(draw, reset=1)) for each in (0, 1)]
    for each in (0, 1):
        bench.take(env_reset(each, reset_id=1))
    assert not resets_in(round_with(bench))
    core = ControllerCore(
        ControllerOptions(
            run=RUN, environments=2, parameters={"height": draw}, resampling_interval=16, first_incarnation=1
        ),
        saved_by(bench),
        progress(),
    )
    (request,) = sent(core.handle(worker_ready(EnvId(0), 1), 0.0), ResetRequest)
    assert request.parameters["height"] == drawn_value(draw, reset=1)


@pytest.mark.parametrize(("interval", "environments", "steps"), [(3, 1, 3), (3, 2, 2), (2, 3, 1), (50, 2, 4)])
def test_no_round_goes_beyond_a_resampling_by_more_than_a_step_of_each(
    interval: int, environments: int, steps: int
) -> None:
    bench = bench_of(environments, lessons=(), resampling_interval=interval)
    assert {each.until for each in bench.state.envs.values()} == {steps}


def test_a_run_without_lessons_is_as_it_was() -> None:
    bench = ControllerBench(1)
    bench.reset()
    assert not sent(round_of(bench), ResetRequest)
    assert bench.state.lessons.numbers == {}
