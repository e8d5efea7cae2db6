"""Lessons and sampler files: what is read, what is refused with its place, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.convert import converted, main
from runtime.errors import ConfigError, UsageError
from runtime.experience.lessons import Criterion
from runtime.session_plan import lesson_plans
from runtime.settings import ConstantParameter, RunSettings, UniformSampler, to_yaml
from runtime.settings.model import CurriculumParameter, LessonSettings
from tests.support.settings import BASE, parse_text
from tests.unit.settings.test_era_files import SHIPPED

LESSONS = """\
environment_parameters:
  wall:
    curriculum:
      - name: Low
        value: 1
        completion_criteria:
          behavior: Bot
          measure: progress
          threshold: 0.5
          min_lesson_length: 10
          signal_smoothing: false
          require_reset: true
      - name: Any
        value: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 4}}
        completion_criteria: {behavior: Bot, measure: reward, threshold: -1.5}
      - {name: High, value: 4}
"""


def read(folder: Path, text: str, *argv: str) -> RunSettings:
    return parse_text(folder, text, ("--env", "fake:basic", *argv))


def faults_of(folder: Path, text: str, *argv: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, *argv)
    return str(caught.value).splitlines()


def era_lessons(folder: Path, brain: str, parameter: str = "wall", **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    content = {
        "measure": "reward",
        "thresholds": [0.1],
        "min_lesson_length": 3,
        "signal_smoothing": True,
        "parameters": {parameter: [1, 2]},
        **changes,
    }
    path = folder / f"{brain}.json"
    path.write_text(json.dumps(content))
    return path


def test_a_curriculum_is_read_with_the_defaults_of_ml_agents(tmp_path: Path) -> None:
    parameter = read(tmp_path, BASE + LESSONS).environment_parameters["wall"]
    assert parameter == CurriculumParameter(
        (
            LessonSettings(
                "Low",
                ConstantParameter(1.0),
                Criterion(
                    behavior="Bot",
                    measure="progress",
                    threshold=0.5,
                    min_lesson_length=10,
                    signal_smoothing=False,
                    require_reset=True,
                ),
            ),
            LessonSettings("Any", UniformSampler(1.0, 4.0), Criterion(behavior="Bot", threshold=-1.5)),
            LessonSettings("High", ConstantParameter(4.0)),
        )
    )


def test_the_written_configuration_has_the_same_lessons(tmp_path: Path) -> None:
    settings = read(tmp_path, BASE + LESSONS, "--lesson", "1")
    again = read(tmp_path, to_yaml(settings))
    assert again.environment_parameters == settings.environment_parameters
    assert again.lesson == 1


def test_samplers_of_a_lesson_get_the_runs_seed(tmp_path: Path) -> None:
    (plan,) = lesson_plans(read(tmp_path, BASE + LESSONS))
    assert plan.lessons[1].value.seed == 7  # type: ignore[union-attr]
    assert plan.source == "trainer.yaml:14: environment_parameters.wall.curriculum"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("behavior: Bot\n", "behaviour: Bot\n", "trainer.yaml:17: environment_parameters.wall.curriculum[0]"),
        ("measure: progress", "measure: rewards", "rewards is not allowed; allowed: one of reward, progress"),
        ("threshold: 0.5", "threshold: 1.5", "1.5 is not allowed; allowed: a finite number of at least 0 and of"),
        ("min_lesson_length: 10", "min_lesson_length: -1", "-1 is not allowed; allowed: an integer from 0 to 10000"),
        ("        value: 1\n", "", "value is missing"),
        ("value: 1\n", "value: high\n", "high is not allowed; allowed: a finite number"),
        (", threshold: -1.5}", ", treshold: -1.5}", "unknown key; nearest: threshold"),
        ("- {name: High, value: 4}", "- 4", "4 is no lesson; allowed: a list of lessons"),
    ],
)
def test_a_mistake_in_a_lesson_is_told_with_its_place(tmp_path: Path, old: str, new: str, fault: str) -> None:
    faults = faults_of(tmp_path, (BASE + LESSONS).replace(old, new))
    assert any(fault in each for each in faults), faults
    assert all(each.startswith("trainer.yaml:") for each in faults)


def test_a_lesson_that_would_never_end_is_refused(tmp_path: Path) -> None:
    text = BASE + "environment_parameters: {w: {curriculum: [{name: A, value: 1}, {name: B, value: 2}]}}\n"
    (fault,) = faults_of(tmp_path, text)
    assert "completion_criteria is missing: this lesson would never end" in fault


@pytest.mark.parametrize("curriculum", ["[]", "5", "{a: 1}"])
def test_lessons_are_a_list_of_at_least_one(tmp_path: Path, curriculum: str) -> None:
    (fault,) = faults_of(tmp_path, f"{BASE}environment_parameters: {{w: {{curriculum: {curriculum}}}}}\n")
    assert "allowed: a list of lessons, each with name, value" in fault


def test_a_criterion_of_the_last_lesson_is_said_to_have_no_effect(tmp_path: Path) -> None:
    text = "environment_parameters: {w: {curriculum: [{name: A, value: 1, completion_criteria: {behavior: Bot}}]}}\n"
    (warning,) = read(tmp_path, BASE + text).warnings
    assert "completion_criteria of the last lesson has no effect" in warning


def test_a_criterion_of_a_behavior_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, BASE + LESSONS.replace("behavior: Bot", "behavior: Bott"))
    assert "the lessons of wall wait for the behavior 'Bott', which is not configured" in fault
    assert fault.endswith("allowed: Bot; nearest: Bot")
    with_default = BASE + "default_settings: {}\n" + LESSONS.replace("behavior: Bot", "behavior: Bott")
    assert read(tmp_path, with_default).environment_parameters


def test_c29_files_of_a_lesson_folder_go_by_their_names_and_others_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "lessons"
    era_lessons(folder, "Bot")
    era_lessons(folder, "My.Cat", "mass", thresholds=[0.1, 0.2], parameters={"mass": [1, 2, 3]})
    (folder / "README.txt").write_text("{")
    (folder / "old.json.bak").write_text("{")
    settings = read(tmp_path, SHIPPED, "--train", "--curriculum", str(folder))
    parameters = settings.environment_parameters
    assert list(parameters) == ["wall", "mass"]
    mass = parameters["mass"]
    assert isinstance(mass, CurriculumParameter)
    assert [each.criterion and each.criterion.behavior for each in mass.lessons] == ["My.Cat", "My.Cat", None]
    assert mass.lessons[0].criterion is not None
    assert mass.lessons[0].criterion.require_reset


def test_c29_an_absent_brain_and_broken_json_are_named_with_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "lessons"
    absent = era_lessons(folder, "Absent")
    broken = folder / "Broken.json"
    broken.write_text('{"measure": "reward",\n "thresholds": [0.1,]}')
    faults = faults_of(tmp_path, "Bot: {trainer: ppo}\n", "--train", "--curriculum", str(folder))
    assert f"{broken}: this is not JSON: line 2" in faults[0]
    assert faults[1].startswith(f"{absent}: the lessons of wall wait for the behavior 'Absent', which is not")


def test_two_files_that_set_one_parameter_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lessons"
    first, second = era_lessons(folder, "A"), era_lessons(folder, "B")
    (fault,) = faults_of(tmp_path, SHIPPED, "--curriculum", str(folder))
    assert fault == f"{second}: parameters.wall is set in {first} too; expected it in one file"


def test_a_folder_that_is_none_or_holds_none_is_told(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SHIPPED, "--curriculum", str(tmp_path / "none"))
    assert "--curriculum: there is no such folder" in fault
    (fault,) = faults_of(tmp_path, SHIPPED, "--curriculum", str(tmp_path / "trainer.yaml"))
    assert "--curriculum: this is a file; expected a folder" in fault
    (tmp_path / "empty").mkdir()
    (fault,) = faults_of(tmp_path, SHIPPED, "--curriculum", str(tmp_path / "empty"))
    assert "--curriculum: there is no lesson file in this folder" in fault


def test_lesson_files_lie_over_the_parameters_of_the_configuration(tmp_path: Path) -> None:
    era_lessons(tmp_path / "lessons", "Bot")
    text = BASE + "environment_parameters: {wall: 9, mass: 3}\n"
    parameters = read(tmp_path, text, "--curriculum", str(tmp_path / "lessons")).environment_parameters
    assert isinstance(parameters["wall"], CurriculumParameter)
    assert parameters["mass"] == ConstantParameter(3.0)


def test_a_first_lesson_without_lessons_is_said_to_have_no_effect(tmp_path: Path) -> None:
    assert read(tmp_path, BASE, "--lesson", "2").warnings == (
        "--lesson has no effect: no environment parameter has lessons",
    )


SAMPLERS = """\
resampling-interval: 5000
mass:
  sampler-type: uniform
  min_value: 0.5
  max_value: 10
gravity:
  sampler-type: multirange_uniform
  intervals: [[7, 10], [15, 20]]
scale: {sampler-type: gaussian, mean: 2, st_dev: .3}
"""


def samplers(folder: Path, text: str) -> str:
    path = folder / "samplers.yaml"
    path.write_text(text)
    return str(path)


def test_a_sampler_file_gives_parameters_and_the_interval(tmp_path: Path) -> None:
    settings = read(tmp_path, SHIPPED, "--train", "--sampler", samplers(tmp_path, SAMPLERS))
    assert settings.resampling_interval == 5000
    assert settings.environment_parameters["mass"] == UniformSampler(0.5, 10.0)
    assert sorted(settings.environment_parameters) == ["gravity", "mass", "scale"]
    assert read(tmp_path, to_yaml(settings)).resampling_interval == 5000


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("resampling-interval: 5000\n", "", "samplers.yaml:1: resampling-interval: is missing"),
        ("5000", "0", "samplers.yaml:1: resampling-interval: 0 is not allowed"),
        ("  sampler-type: uniform\n", "", "samplers.yaml:2: mass: sampler-type is missing"),
        ("sampler-type: uniform", "sampler-type: unifrm", "samplers.yaml:3: mass.sampler-type: unifrm is not allowed"),
        ("  min_value: 0.5\n", "", "samplers.yaml:2: mass: min_value is missing; allowed: uniform takes min_value"),
        ("st_dev: .3", "st_dev: -1", "samplers.yaml:9: scale.st_dev: -1 is not allowed"),
        ("mean: 2", "men: 2", "samplers.yaml:9: scale.men: unknown key; nearest: mean"),
        ("scale: {sampler-type: gaussian, mean: 2, st_dev: .3}", "scale: 3", "samplers.yaml:9: scale: 3 is not"),
    ],
)
def test_a_mistake_in_a_sampler_file_is_told_with_its_place(tmp_path: Path, old: str, new: str, fault: str) -> None:
    faults = faults_of(tmp_path, SHIPPED, "--sampler", samplers(tmp_path, SAMPLERS.replace(old, new)))
    assert any(each.startswith(fault) for each in faults), faults


def test_a_wrong_interval_is_told_once(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, SHIPPED, "--sampler", samplers(tmp_path, SAMPLERS.replace("5000", "0")))
    assert len(faults) == 1


def test_a_sampler_file_that_is_not_there_is_told_with_its_own_advice(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SHIPPED, "--sampler", str(tmp_path / "no.yaml"))
    assert fault.endswith("there is no such file; check the path after --sampler, or leave --sampler out")


def test_a_converted_file_takes_lessons_and_samplers_along(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(SHIPPED)
    folder, file = tmp_path / "lessons", samplers(tmp_path, SAMPLERS)
    era_lessons(folder, "Bot")
    before = read(tmp_path, SHIPPED, "--train", "--curriculum", str(folder), "--sampler", file)
    after = read(tmp_path, converted(str(old), curriculum=str(folder), sampler=file))
    assert after.environment_parameters == before.environment_parameters
    assert after.resampling_interval == 5000


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"measure": "progress", "thresholds": [1.5]}, "thresholds: found 1.5; expected numbers from 0 to 1: progress"),
        ({"measure": "progress", "thresholds": [-0.5]}, "thresholds: found -0.5; expected numbers from 0 to 1"),
        ({"signal_smoothing": 1}, "signal_smoothing: found 1; expected true or false"),
        ({"min_lesson_length": 10_001}, "min_lesson_length: found 10001; expected an integer from 0 to 10000"),
    ],
)
def test_a_run_and_a_conversion_refuse_the_same_lessons_in_the_same_words(
    tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    folder, old = tmp_path / "lessons", tmp_path / "old.yaml"
    path = era_lessons(folder, "Bot", "wall", **changes)
    old.write_text(SHIPPED)
    (told,) = faults_of(tmp_path, SHIPPED, "--train", "--curriculum", str(folder))
    assert told.startswith(f"{path}: {fault}")
    with pytest.raises(ConfigError) as caught:
        converted(str(old), curriculum=str(folder))
    assert str(caught.value) == told


@example(measure="reward", thresholds=[], length=0, names=["\x85"])  # to YAML the end of a line
@given(
    measure=st.sampled_from(["reward", "progress"]),
    thresholds=st.lists(st.floats(-2, 2) | st.sampled_from([0, 1, -0.0, 1e-320, 3e38, -3e38]), max_size=3),
    length=st.integers(0, 10_000),
    names=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), min_size=1, max_size=3, unique=True),
)
@example(measure="reward", thresholds=[0.5], length=0, names=["", "~", "<<"])
def test_lessons_that_a_run_takes_are_read_alike_once_converted(
    tmp_path_factory: pytest.TempPathFactory, measure: str, thresholds: list[float], length: int, names: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp()
    values = [float(number) for number in range(len(thresholds) + 1)]
    wanted = {"measure": measure, "thresholds": thresholds, "min_lesson_length": length}
    folder = era_lessons(base / "any", "Bot", "wall", **wanted, parameters=dict.fromkeys(names, values)).parent
    try:
        before = read(base, SHIPPED, "--train", "--curriculum", str(folder))
    except ConfigError:
        before = None
    (base / "any.yaml").write_text(SHIPPED)
    if before is None:
        with pytest.raises(ConfigError):
            converted(str(base / "any.yaml"), curriculum=str(folder))
    else:
        after = read(base, converted(str(base / "any.yaml"), curriculum=str(folder)))
        assert after.environment_parameters == before.environment_parameters


def test_lessons_of_a_team_are_those_of_its_behavior_in_a_run_and_in_a_conversion(tmp_path: Path) -> None:
    folder, old = era_lessons(tmp_path / "lessons", "Bot?team=1").parent, tmp_path / "old.yaml"
    old.write_text(SHIPPED)
    before = read(tmp_path, SHIPPED, "--train", "--curriculum", str(folder))
    wall = before.environment_parameters["wall"]
    assert isinstance(wall, CurriculumParameter)
    assert wall.lessons[0].criterion == Criterion(
        behavior="Bot", threshold=0.1, min_lesson_length=3, require_reset=True
    )
    assert read(tmp_path, converted(str(old), curriculum=str(folder))).environment_parameters["wall"] == wall


def test_lessons_that_cannot_be_written_are_told_with_the_users_file(tmp_path: Path) -> None:
    old, count = tmp_path / "old.yaml", 3000
    old.write_text(SHIPPED)
    many: dict[str, object] = {"thresholds": [0.1] * count, "parameters": {"wall": [1] * (count + 1)}}
    era_lessons(tmp_path / "lessons", "Bot", "wall", **many)
    with pytest.raises(
        UsageError, match=r"old\.yaml: what it says cannot be written in today's format: NEW: the file is"
    ):
        converted(str(old), curriculum=str(tmp_path / "lessons"))


def test_a_lesson_whose_progress_would_have_to_be_above_the_whole_is_said_to_be_endless(tmp_path: Path) -> None:
    path = era_lessons(tmp_path / "lessons", "Bot", measure="progress", thresholds=[1])
    settings = read(tmp_path, BASE, "--curriculum", str(tmp_path / "lessons"))
    assert settings.warnings == (f"{path}: lesson 'Lesson0' of wall never ends: progress is never above 1",)


WALL = "wall: {sampler-type: uniform, min_value: 0, max_value: 1}\n"


def test_a_sampler_of_a_parameter_with_lessons_is_said_to_have_no_effect_and_resets_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = era_lessons(tmp_path / "lessons", "Bot")
    file = samplers(tmp_path, f"resampling-interval: 100\n{WALL}")
    flags = ("--curriculum", str(path.parent), "--sampler", file)
    settings = read(tmp_path, BASE, *flags)
    assert settings.warnings == (
        f"samplers.yaml:2: wall: has no effect: wall has lessons in {path}, and these count",
        "samplers.yaml:1: resampling-interval: has no effect: no environment parameter is sampled",
    )
    assert settings.resampling_interval is None
    (tmp_path / "old.yaml").write_text(SHIPPED)
    assert main([str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), *flags]) == 0
    assert [f"[WARNING] {each}" for each in settings.warnings] == capsys.readouterr().err.splitlines()
    assert "resampling_interval" not in (tmp_path / "new.yaml").read_text()


def test_samplers_beside_lessons_of_another_parameter_count(tmp_path: Path) -> None:
    path = era_lessons(tmp_path / "lessons", "Bot")
    file = samplers(tmp_path, f"{WALL}{SAMPLERS}")
    settings = read(tmp_path, BASE, "--curriculum", str(path.parent), "--sampler", file)
    assert settings.resampling_interval == 5000
    assert len(settings.warnings) == 1


def test_an_interval_without_samplers_is_said_to_have_no_effect(tmp_path: Path) -> None:
    settings = read(tmp_path, BASE, "--sampler", samplers(tmp_path, "resampling-interval: 100\n"))
    assert settings.warnings == (
        "samplers.yaml:1: resampling-interval: has no effect: no environment parameter is sampled",
    )
    assert settings.resampling_interval is None
    text = "environment_parameters: {mass: 2}\nruntime: {resampling_interval: 5}\n"
    (warning,) = read(tmp_path, BASE + text).warnings
    assert warning.endswith("runtime.resampling_interval: has no effect: no environment parameter is sampled")


def test_an_interval_counts_where_only_a_lesson_is_sampled(tmp_path: Path) -> None:
    text = f"{BASE}{LESSONS}runtime: {{resampling_interval: 50}}\n"
    assert read(tmp_path, text).resampling_interval == 50


@pytest.mark.parametrize("text", ["", "# nothing\n", "uniform\n"])
def test_a_sampler_file_without_content_is_told_what_it_holds(tmp_path: Path, text: str) -> None:
    (fault,) = faults_of(tmp_path, SHIPPED, "--sampler", samplers(tmp_path, text))
    assert "expected `resampling-interval: N` and a block with `sampler-type` for each parameter" in fault
    assert "behaviors" not in fault
