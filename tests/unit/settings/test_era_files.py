"""Files of ML-Agents 0.8 to 0.15: recognised by their content, read as they were meant, faults in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.errors import ConfigError
from runtime.learner import BehaviorSettings
from runtime.settings import RunSettings, to_yaml
from tests.support.settings import parse, parse_text

DEFAULT = """\
default:
  trainer: ppo
  batch_size: 32
  beta: 1.0e-2
  buffer_size: 256
  epsilon: 0.1
  gamma: 0.9
  hidden_units: 16
  lambd: 0.9
  learning_rate: 1.0e-3
  max_steps: 5.0e3
  memory_size: 256
  normalize: true
  num_epoch: 4
  num_layers: 1
  time_horizon: 32
  sequence_length: 64
  summary_freq: 1e3
  use_recurrent: false
  use_curiosity: false
  curiosity_strength: 0.01
  curiosity_enc_size: 128
"""
SHIPPED = "default: {trainer: ppo}\n"


def era(folder: Path, text: str | bytes, *argv: str) -> RunSettings:
    return parse_text(folder, text, ("--env", "fake:basic", *argv))


def faults_of(folder: Path, text: str, *argv: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        era(folder, text, *argv)
    return str(caught.value).splitlines()


def test_every_key_of_the_default_block_reaches_brains_without_a_block(tmp_path: Path) -> None:
    settings = era(tmp_path, DEFAULT).settings_for("Anybody")
    hyper, network = settings.hyperparameters, settings.network_settings
    assert (hyper.batch_size, hyper.beta, hyper.buffer_size, hyper.epsilon) == (32, 0.01, 256, 0.1)
    assert (hyper.lambd, hyper.learning_rate, hyper.num_epoch) == (0.9, 0.001, 4)
    assert (network.hidden_units, network.normalize, network.num_layers) == (16, True, 1)
    assert (settings.max_steps, settings.time_horizon, settings.summary_freq) == (5000, 32, 1000)
    assert settings.reward_signals["extrinsic"].gamma == 0.9
    schedules = (hyper.learning_rate_schedule, hyper.beta_schedule, hyper.epsilon_schedule)
    assert schedules == ("linear", "linear", "linear")


def test_what_is_not_written_has_the_values_of_that_time(tmp_path: Path) -> None:
    settings = era(tmp_path, SHIPPED).settings_for("Bot")
    hyper = settings.hyperparameters
    assert (hyper.batch_size, hyper.buffer_size, hyper.beta, hyper.learning_rate) == (1024, 10240, 5e-3, 3e-4)
    assert (settings.max_steps, settings.summary_freq, settings.time_horizon) == (50_000, 1000, 64)
    assert (settings.checkpoint_interval, settings.keep_checkpoints) == (50_000, 5)
    assert settings.counts_env_steps


def test_a_brains_block_lies_over_the_default_block(tmp_path: Path) -> None:
    settings = era(tmp_path, DEFAULT + "Bot:\n  batch_size: 64\n  max_steps: 7\n").settings_for("Bot?team=0")
    assert (settings.hyperparameters.batch_size, settings.max_steps) == (64, 7)
    assert (settings.hyperparameters.buffer_size, settings.network_settings.hidden_units) == (256, 16)


def test_an_alias_has_the_values_of_the_block_at_its_end(tmp_path: Path) -> None:
    settings = era(tmp_path, DEFAULT + "A: B\nB: C\nC:\n  num_epoch: 9\n")
    assert settings.settings_for("A") == settings.settings_for("C")
    assert settings.settings_for("A").hyperparameters.num_epoch == 9


@pytest.mark.parametrize("default", ["", DEFAULT])
def test_c26_a_cycle_of_aliases_is_named(tmp_path: Path, default: str) -> None:
    (fault,) = faults_of(tmp_path, f"{default}Third: Bot\nBot: Other\nOther: Bot\n")
    line = 2 + default.count("\n")
    assert fault.startswith(
        f"trainer.yaml:{line}: Bot: the brain's block is another name of itself: Bot -> Other -> Bot"
    )


def test_an_alias_of_itself_and_one_of_nothing_are_refused(tmp_path: Path) -> None:
    first, second = faults_of(tmp_path, SHIPPED + "A: A\nB: Hopper\nHoper: {beta: 0.1}\n")
    assert first.startswith("trainer.yaml:2: A: the brain's block is another name of itself: A -> A")
    assert second.startswith("trainer.yaml:3: B: Hopper is the name of no block in this file")
    assert second.endswith("nearest: Hoper")


def test_faults_have_file_line_and_the_key_as_it_was_written(tmp_path: Path) -> None:
    text = "default:\n  batch_size: 12.7\nBot:\n  learning_rat: 1\n  num_epoch: 0\n  use_recurrent: maybe\n"
    assert [fault.partition(" is not allowed")[0].partition("; allowed")[0] for fault in faults_of(tmp_path, text)] == [
        "trainer.yaml:2: default.batch_size: 12.7",
        "trainer.yaml:4: Bot.learning_rat: unknown key; nearest: learning_rate",
        "trainer.yaml:5: Bot.num_epoch: 0",
        "trainer.yaml:6: Bot.use_recurrent: maybe",
    ]


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("buffer_size: 10\n  batch_size: 100", "buffer_size 10 is smaller than batch_size 100"),
        ("max_steps: -5", "max_steps: -5 is not allowed"),
        ("summary_freq: 0", "summary_freq: 0 is not allowed"),
        ("num_epoch: 0", "num_epoch: 0 is not allowed"),
        ("batch_size: 12.7", "batch_size: 12.7 is not allowed"),
        ("learning_rate: -1", "learning_rate: -1 is not allowed"),
        ("memory_size: 0", "memory_size: 0 is not allowed"),
        ("trainer: ppoo", "trainer: ppoo is not allowed"),
    ],
)
def test_c23_values_that_would_break_later_are_refused(tmp_path: Path, lines: str, word: str) -> None:
    assert any(word in fault for fault in faults_of(tmp_path, f"{SHIPPED}Bot:\n  {lines}\n"))


def test_c23_a_horizon_beyond_the_buffer_is_a_warning(tmp_path: Path) -> None:
    warnings = era(tmp_path, SHIPPED + "Bot: {time_horizon: 200, buffer_size: 128, batch_size: 32}\n").warnings
    assert any("time_horizon 200 is larger than buffer_size 128" in each for each in warnings)


def test_c23_no_environments_are_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SHIPPED, "--num-envs", "0")
    assert fault.startswith("command line: --num-envs: 0 is not allowed")


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + DEFAULT.encode(),
        DEFAULT.replace("\n", "\r\n").encode(),
    ],
)
def test_c24_a_mark_at_the_start_and_windows_line_ends_are_accepted(tmp_path: Path, body: bytes) -> None:
    assert era(tmp_path, body).settings_for("Bot") == era(tmp_path, DEFAULT).settings_for("Bot")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (DEFAULT.encode("utf-16"), "trainer.yaml:1: the file is UTF-16 or binary"),
        (b"default:\n\tbatch_size: 32\n", "trainer.yaml:2: the line is indented with a tab"),
        (b"", "trainer.yaml:1: the file is empty"),
        (b"default: {beta: 0.1}\nBot: {beta: 0.1}\nBot: {beta: 0.2}\n", "trainer.yaml:3: Bot: the key stands twice"),
    ],
)
def test_c24_other_files_are_refused_in_one_sentence_with_its_line(tmp_path: Path, body: bytes, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        era(tmp_path, body)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(fault)


def test_c21_the_format_is_recognised_and_said_with_the_command_that_converts(tmp_path: Path) -> None:
    (warning,) = era(tmp_path, SHIPPED, "--train").warnings
    path = tmp_path / "trainer.yaml"
    assert f"{path}: found the format of ML-Agents 0.8 to 0.15" in warning
    assert f"`python -m runtime.convert {path} NEW`" in warning


@pytest.mark.parametrize("name", ["behaviors", "env_settings"])
def test_c21_both_formats_in_one_file_are_refused(tmp_path: Path, name: str) -> None:
    (fault,) = faults_of(tmp_path, f"{SHIPPED}{name}:\n  Bot: {{}}\n")
    assert fault.startswith(f"trainer.yaml:2: {name}: found the format with `behaviors:` in this block and the format")
    assert "python -m runtime.convert OLD NEW" in fault


def test_c21_old_keys_below_behaviors_are_explained(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, "behaviors:\n  Bot:\n    trainer: ppo\n    batch_size: 32\n")
    assert fault.startswith("trainer.yaml:2: behaviors.Bot: found the keys of the format of ML-Agents 0.8 to 0.15")
    assert "python -m runtime.convert OLD NEW" in fault


def test_a_brain_may_be_called_as_a_block_of_today(tmp_path: Path) -> None:
    settings = era(tmp_path, "default: {trainer: ppo}\ndebug: {num_epoch: 7}\n")
    assert settings.settings_for("debug").hyperparameters.num_epoch == 7


def test_without_a_default_block_other_brains_have_no_settings(tmp_path: Path) -> None:
    settings = era(tmp_path, "Bot: {trainer: ppo}\n")
    assert settings.default_settings is None
    assert list(settings.behaviors) == ["Bot"]


def test_numbers_that_are_not_finite_become_0_unless_the_user_asks_otherwise(tmp_path: Path) -> None:
    assert era(tmp_path, SHIPPED).environment.not_finite == "zero"
    assert era(tmp_path, SHIPPED, "--not-finite", "refuse").environment.not_finite == "refuse"


def test_signals_of_the_default_block_are_replaced_and_not_merged(tmp_path: Path) -> None:
    text = "default: {reward_signals: {extrinsic: {gamma: 0.5, strength: 2}}}\nBot: {reward_signals: {extrinsic: {}}}\n"
    settings = era(tmp_path, text)
    assert settings.settings_for("Bot").reward_signals == BehaviorSettings().reward_signals
    assert settings.settings_for("Other").reward_signals["extrinsic"].gamma == 0.5


def test_only_the_learning_rate_could_be_held_constant(tmp_path: Path) -> None:
    hyper = era(tmp_path, "default: {beta: 0.1, learning_rate_schedule: constant}\n").settings_for("A").hyperparameters
    schedules = (hyper.learning_rate_schedule, hyper.beta_schedule, hyper.epsilon_schedule)
    assert schedules == ("constant", "linear", "linear")


def test_load_alone_is_inference_and_with_train_goes_on(tmp_path: Path) -> None:
    only, both = era(tmp_path, SHIPPED, "--load"), era(tmp_path, SHIPPED, "--load", "--train")
    assert (only.checkpoints.resume, only.checkpoints.inference) == (True, True)
    assert (both.checkpoints.resume, both.checkpoints.inference) == (True, False)


def test_without_train_and_load_it_trains_and_says_so(tmp_path: Path) -> None:
    settings = era(tmp_path, SHIPPED)
    assert not settings.checkpoints.inference
    assert any(each.startswith("--train was not given") for each in settings.warnings)


def test_flags_of_that_time_reach_every_brain_in_both_formats(tmp_path: Path) -> None:
    argv = ("--keep-checkpoints", "2", "--save-freq", "300", "--slow", "--num-runs", "3", "--no-graphics")
    for text in (SHIPPED + "Bot: {beta: 0.1}\n", "default_settings: {}\nbehaviors: {Bot: {}}\n"):
        settings = era(tmp_path, text, "--train", *argv)
        for name in ("Bot", "Other"):
            own = settings.settings_for(name)
            assert (own.keep_checkpoints, own.checkpoint_interval) == (2, 300)
        assert (settings.is_slow, settings.num_runs, settings.environment.no_graphics) == (True, 3, True)


def test_several_runs_need_a_player_to_launch_and_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "trainer.yaml"
    path.write_text(SHIPPED)
    with pytest.raises(ConfigError, match="2 runs need a player to launch"):
        parse(str(path), "--num-runs", "2")
    (fault,) = faults_of(tmp_path, SHIPPED, "--num-runs", "2", "--record", "x")
    assert "2 runs cannot be recorded in one file" in fault


def test_a_docker_target_is_the_folder_of_all_relative_paths(tmp_path: Path) -> None:
    (tmp_path / "trainer.yaml").write_text(SHIPPED)
    target = str(tmp_path).strip("/")
    settings = parse("trainer.yaml", "--train", "--env", "build", "--docker-target-name", target)
    assert settings.environment.target.path == str(tmp_path / "build")  # type: ignore[union-attr]
    assert settings.checkpoints.results_dir == str(tmp_path / "results")
    bundled = parse("trainer.yaml", "--train", "--env", "fake:basic", "--docker-target-name", target)
    assert bundled.environment.target.url == "fake:basic"  # type: ignore[union-attr]


def test_the_written_configuration_is_read_as_the_same_run(tmp_path: Path) -> None:
    settings = era(tmp_path, DEFAULT + "Bot: {num_epoch: 5}\n", "--train", "--slow")
    text = to_yaml(settings)
    assert yaml.safe_load(text)["runtime"]["steps"] == "env"
    again = parse_text(tmp_path, text)
    for name in ("Bot", "Other"):
        assert again.settings_for(name) == settings.settings_for(name)
    assert (again.environment.not_finite, again.is_slow) == ("zero", True)


@pytest.mark.parametrize("size", [0, 6, 7])
def test_c37_a_memory_that_cannot_be_cut_into_quarters_is_refused(tmp_path: Path, size: int) -> None:
    (fault,) = faults_of(tmp_path, f"{SHIPPED}Bot:\n  use_recurrent: true\n  memory_size: {size}\n")
    allowed = "a multiple of 4 from 4 to 65536, as in ML-Agents 0.8 to 0.15"
    assert fault == f"trainer.yaml:4: Bot.memory_size: {size} is not allowed; allowed: {allowed}"


def test_c37_a_sequence_longer_than_a_batch_is_refused(tmp_path: Path) -> None:
    lines = "use_recurrent: true\n  sequence_length: 64\n  batch_size: 32\n"
    (fault,) = faults_of(tmp_path, f"{SHIPPED}Bot:\n  {lines}")
    assert fault.startswith("trainer.yaml:4: Bot.sequence_length: sequence_length 64 is larger than batch_size 32")


@pytest.mark.parametrize(("batch_size", "wrong"), [(32, "sequence_length: 0"), (64, "memory_size: 3")])
def test_a_wrong_value_brings_no_fault_about_what_would_stand_in_its_place(
    tmp_path: Path, batch_size: int, wrong: str
) -> None:
    lines = f"use_recurrent: true\n  batch_size: {batch_size}\n  {wrong}\n"
    (fault,) = faults_of(tmp_path, f"{SHIPPED}Bot:\n  {lines}")
    assert fault.startswith(f"trainer.yaml:5: Bot.{wrong} is not allowed")


def test_c37_a_recurrent_brain_has_its_memory(tmp_path: Path) -> None:
    memory = era(tmp_path, f"{SHIPPED}Bot:\n  use_recurrent: true\n  memory_size: 8\n").settings_for("Bot")
    found = memory.network_settings.memory
    assert found is not None
    assert (found.memory_size, found.sequence_length) == (8, 64)
    assert era(tmp_path, SHIPPED).settings_for("Bot").network_settings.memory is None
