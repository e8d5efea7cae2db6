"""`--slow` reaches the players: no training mode, and the speed of people unless another was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from runtime.experience.parameters import UniformDraw
from runtime.learner import Learner, LearnerOptions
from runtime.players.factories import MemoryPlayerFactory
from runtime.run_directory import RunPaths
from runtime.session_plan import Launch, controller_start, player_factory_for
from runtime.settings.writing import to_yaml
from tests.support.settings import BASE, parse_text


def no_learner(options: LearnerOptions) -> Learner:
    raise AssertionError(options)


def launch(folder: Path, *argv: str) -> Launch:
    return Launch(
        settings=parse_text(folder, BASE, ("--env", "fake:basic?link=memory", *argv)),
        run_id="r",
        paths=RunPaths(folder / "r"),
        launched_s=0.0,
        launched_at=0.0,
        first_incarnation=0,
        learner_factory=no_learner,
        resume=(),
        initialize=(),
    )


@pytest.mark.parametrize(
    ("argv", "train_mode", "time_scale"),
    [
        ((), True, 20.0),
        (("--slow",), False, 1.0),
        (("--slow", "--time-scale", "3"), False, 3.0),
    ],
)
def test_slow_players_are_told_so(
    tmp_path: Path, argv: tuple[str, ...], *, train_mode: bool, time_scale: float
) -> None:
    plan = launch(tmp_path, *argv)
    factory = player_factory_for(plan, "marker")
    assert isinstance(factory, MemoryPlayerFactory)
    assert factory.engine.time_scale == time_scale
    # What the player hears at a reset outside of training mode is what the file says.
    assert train_mode or factory.engine.normal_speed == time_scale
    written = parse_text(tmp_path, to_yaml(plan.settings)).engine.time_scale
    assert yaml.safe_load(to_yaml(plan.settings))["engine_settings"]["time_scale"] == written == time_scale
    assert controller_start(plan, workers=1).options.train_mode is train_mode


def test_lessons_and_samplers_reach_the_controller(tmp_path: Path) -> None:
    settings = parse_text(
        tmp_path,
        BASE
        + "environment_parameters:\n  mass: 2\n  wall:\n    curriculum:\n"
        + "      - {value: 1, completion_criteria: {behavior: Bot}}\n      - {value: 3}\n"
        + "  size: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 2, seed: 5}}\n"
        + "runtime: {resampling_interval: 500}\n",
        ("--env", "fake:basic?link=memory", "--lesson", "1"),
    )
    start = controller_start(replace(launch(tmp_path), settings=settings), workers=1)
    options = start.options
    assert options.parameters == {"mass": 2.0, "size": UniformDraw(min_value=1.0, max_value=2.0, seed=5)}
    assert [each.value for plan in options.lessons for each in plan.lessons] == [1.0, 3.0]
    assert (options.first_lesson, options.resampling_interval) == (1, 500)
    assert start.recording.lesson_brains == {"wall": "Bot"}
