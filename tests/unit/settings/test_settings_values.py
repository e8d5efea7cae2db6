"""What a good configuration means: defaults, layers, schedules, lookups, and the way there and back as YAML."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.learner import BehaviorSettings
from runtime.settings import (
    ConstantParameter,
    Fault,
    FaultsError,
    GaussianSampler,
    MultiRangeUniformSampler,
    RunSettings,
    UniformSampler,
    recorded_seed,
    to_yaml,
)
from runtime.settings.faults import Place
from tests.support.settings import BASE, SCENES, parse, parse_text

PARAMETERS = """\
environment_parameters:
  a: 1.5
  b: {sampler_type: uniform, sampler_parameters: {min_value: -1, max_value: 2, seed: 3}}
  c: {sampler_type: gaussian, sampler_parameters: {mean: 5}}
  d: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [3, 4.5]]}}
  e: {sampler_type: constant, sampler_parameters: {value: 9}}
"""


def test_an_empty_behavior_has_the_defaults_of_ml_agents(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, "behaviors:\n  A:\n  B: {}\n")
    assert settings.behaviors == {"A": BehaviorSettings(), "B": BehaviorSettings()}
    assert settings.default_settings is None


def test_a_behavior_fills_its_gaps_from_default_settings(tmp_path: Path) -> None:
    text = """\
default_settings:
  max_steps: 300
  hyperparameters: {batch_size: 8, buffer_size: 80}
  network_settings: {hidden_units: 16}
behaviors:
  A:
    hyperparameters: {batch_size: 16}
"""
    settings = parse_text(tmp_path, text)
    own, other = settings.settings_for("A"), settings.settings_for("Unheard")
    assert (own.hyperparameters.batch_size, own.hyperparameters.buffer_size) == (16, 80)
    assert (own.max_steps, own.network_settings.hidden_units) == (300, 16)
    assert other.hyperparameters.batch_size == 8


@pytest.mark.parametrize(
    ("given_schedules", "expected"),
    [
        ("", ("linear", "linear", "linear")),
        ("learning_rate_schedule: constant", ("constant", "constant", "constant")),
        ("learning_rate_schedule: constant, beta_schedule: linear", ("constant", "linear", "constant")),
        ("epsilon_schedule: constant", ("linear", "linear", "constant")),
    ],
)
def test_other_schedules_follow_that_of_the_learning_rate(
    tmp_path: Path, given_schedules: str, expected: tuple[str, str, str]
) -> None:
    settings = parse_text(tmp_path, f"behaviors: {{A: {{hyperparameters: {{{given_schedules}}}}}}}\n")
    found = settings.settings_for("A").hyperparameters
    assert (found.learning_rate_schedule, found.beta_schedule, found.epsilon_schedule) == expected


def test_merge_keys_work_and_own_keys_win(tmp_path: Path) -> None:
    text = "behaviors:\n  A: &a {max_steps: 10, summary_freq: 5}\n  B: {max_steps: 20, <<: *a}\n"
    behavior = parse_text(tmp_path, text).settings_for("B")
    assert (behavior.max_steps, behavior.summary_freq) == (20, 5)


def test_environment_parameters_are_constants_and_samplers(tmp_path: Path) -> None:
    assert parse_text(tmp_path, BASE + PARAMETERS).environment_parameters == {
        "a": ConstantParameter(1.5),
        "b": UniformSampler(-1, 2, 3),
        "c": GaussianSampler(5, 1, -1),
        "d": MultiRangeUniformSampler(((0, 1), (3, 4.5)), -1),
        "e": ConstantParameter(9),
    }


def test_a_tiny_learning_rate_is_allowed(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, "behaviors: {A: {hyperparameters: {learning_rate: 1e-10}}}\n")
    assert settings.settings_for("A").hyperparameters.learning_rate == 1e-10


@pytest.mark.parametrize(
    ("word", "value"), [("yes", True), ("On", True), ("TRUE", True), ("'true'", True), ("no", False), ("false", False)]
)
def test_truth_has_many_spellings(tmp_path: Path, word: str, value: bool) -> None:  # noqa: FBT001 - a parametrized value
    settings = parse_text(tmp_path, f"behaviors: {{A: {{network_settings: {{normalize: {word}}}}}}}\n")
    assert settings.settings_for("A").network_settings.normalize is value


def test_a_behavior_nobody_configured_is_refused_with_the_nearest(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, "behaviors: {Walker: {}, Runner: {}}\n")
    with pytest.raises(UsageError) as caught:
        settings.settings_for("Walkers?team=1")
    assert str(caught.value) == (
        "the player announced the behavior 'Walkers', which the configuration does not name; it names: Runner, Walker; "
        "nearest: Walker. Correct the name under `behaviors:`, or add `default_settings:` for all others."
    )


def test_names_from_the_wire_cannot_break_the_line_of_an_error(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, BASE)
    with pytest.raises(UsageError) as caught:
        settings.settings_for("evil\n\x1b[2J" + "x" * 500)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 400


def test_a_bundled_scene_knows_its_own_behaviors_only() -> None:
    with pytest.raises(UsageError, match="'Walker', which the configuration does not name; it names: Basic"):
        parse().settings_for("Walker")


def comparable(settings: RunSettings) -> RunSettings:
    """Without what a file cannot say: where the settings came from, and whether somebody gave them."""
    saved = replace(settings.checkpoints, run_id_given=True, force=False)
    env = replace(settings.environment, seed_given=True)
    return replace(settings, checkpoints=saved, environment=env, config=None, bundled_scene=None, warnings=())


def read_back(folder: Path, settings: RunSettings) -> RunSettings:
    return parse_text(folder, to_yaml(settings, player_seeds={0: [11, 12], 1: [13]}), ())


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_a_written_configuration_of_a_scene_can_be_read_again(tmp_path: Path, scene: str) -> None:
    settings = parse("--env", f"fake:{scene}", "--num-envs", "3", "--deterministic", "--env-args", "--x", "", "y z")
    assert comparable(read_back(tmp_path, settings)) == comparable(settings)


@pytest.mark.parametrize(
    "argv",
    [
        ("--env", "My Game", "--force", "--bind", "::", "--stop-at", "7", "--restart-envs-at", "5", "--debug"),
        ("--env", "x", "--resume", "--inference", "--workers", "3", "--num-envs", "4", "--collection", "async"),
        ("--env", "x", "--base-port", "7000", "--actor-system", "inline", "--step-timeout", "0.1", "--no-graphics"),
        ("--env", "x", "--message-bytes-max", "4e6", "--not-finite", "zero", "--port-argument", "port"),
        ("--env", "x", "--initialize-from", "old", "--run-id", "true", "--results-dir", "1e3", "--seed", "0"),
    ],
)
def test_a_written_configuration_of_flags_can_be_read_again(tmp_path: Path, argv: tuple[str, ...]) -> None:
    settings = parse(*argv)
    assert comparable(read_back(tmp_path, settings)) == comparable(settings)


def test_a_written_configuration_of_a_file_can_be_read_again(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, BASE + PARAMETERS, ())
    assert comparable(read_back(tmp_path, settings)) == comparable(settings)


behavior_names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=20)


@given(
    name=behavior_names.filter(lambda name: bool(name.strip()) and "?team=" not in name),
    rate=st.floats(min_value=1e-12, max_value=1e6),
    steps=st.integers(min_value=1, max_value=2**53),
    path=behavior_names.filter(lambda name: bool(name.strip()) and name.lower() != "none"),
)
def test_any_behavior_survives_being_written_and_read(
    tmp_path_factory: pytest.TempPathFactory, name: str, rate: float, steps: int, path: str
) -> None:
    plain = BehaviorSettings()
    behavior = replace(
        plain,
        hyperparameters=replace(plain.hyperparameters, learning_rate=rate),
        max_steps=steps,
        init_path=path,
    )
    settings = RunSettings(behaviors={name: behavior})
    assert read_back(tmp_path_factory.getbasetemp(), settings).behaviors == {name: behavior}


def test_the_written_configuration_has_the_keys_of_ml_agents_and_ours() -> None:
    content = yaml.safe_load(to_yaml(parse("--force"), player_seeds={1: [5], 0: [3, 4]}))
    assert list(content) == [
        *("default_settings", "behaviors", "env_settings", "engine_settings", "environment_parameters"),
        *("checkpoint_settings", "torch_settings", "debug", "runtime"),
    ]
    assert content["runtime"]["player_seeds"] == {"0": [3, 4], "1": [5]}
    assert content["behaviors"]["Basic"]["hyperparameters"]["beta_schedule"] == "linear"
    assert content["checkpoint_settings"]["run_id"] == "basic"


def test_a_written_configuration_never_deletes_what_it_led_to() -> None:
    assert yaml.safe_load(to_yaml(parse("--force")))["checkpoint_settings"]["force"] is False


def test_the_seed_of_an_earlier_run_can_be_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    assert recorded_seed(path) is None
    path.write_text(to_yaml(parse("--seed", "0")))
    assert recorded_seed(path) == 0
    path.write_text("env_settings: {seed: x}\n")
    assert recorded_seed(path) is None


def test_settings_and_faults_can_be_sent_to_another_process() -> None:
    settings = parse()
    error = FaultsError([Fault(place=Place("a.yaml", 3, "x.y"), problem="unknown key", nearest="z")])
    assert pickle.loads(pickle.dumps(settings)) == settings
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.faults, str(copy)) == (error.faults, "a.yaml:3: x.y: unknown key; nearest: z")
