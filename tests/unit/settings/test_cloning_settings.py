"""Demonstrations in configurations: `behavioral_cloning` of today, `pretraining` of 2019, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.convert import converted
from runtime.errors import ConfigError
from runtime.learner import CloningSettings, MemorySettings
from runtime.settings.writing import to_yaml
from tests.support.settings import parse, parse_text

BLOCK = """\
behaviors:
  Bot:
    trainer_type: ppo
    behavioral_cloning:
      demo_path: demos/Bot.demo
      strength: 0.5
      steps: 150000
      samples_per_update: 128
"""
PRETRAINING = """\
default:
  trainer: ppo
Bot:
  pretraining:
    demo_path: demos/Bot.demo
    strength: 0.5
    steps: 10000
    num_epoch: 4
"""


def test_the_block_is_read_and_written_and_read_again(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, BLOCK)
    expected = CloningSettings(demo_path="demos/Bot.demo", strength=0.5, steps=150_000, samples_per_update=128)
    assert settings.behaviors["Bot"].behavioral_cloning == expected
    again = tmp_path / "again.yaml"
    again.write_text(to_yaml(settings))
    assert parse(str(again)).behaviors == settings.behaviors


def test_null_switches_it_off_for_one_behavior(tmp_path: Path) -> None:
    text = "default_settings: {behavioral_cloning: {demo_path: x.demo}}\n"
    text += "behaviors: {Bot: {behavioral_cloning: null}, Other: {}}\n"
    settings = parse_text(tmp_path, text)
    assert settings.behaviors["Bot"].behavioral_cloning is None
    assert settings.behaviors["Other"].behavioral_cloning == CloningSettings(demo_path="x.demo")
    again = tmp_path / "again.yaml"
    again.write_text(to_yaml(settings))
    assert parse(str(again)).behaviors == settings.behaviors


def test_pretraining_of_2019_is_the_same_thing_and_is_converted(tmp_path: Path) -> None:
    old = tmp_path / "trainer_config.yaml"
    old.write_text(PRETRAINING)
    expected = CloningSettings(demo_path="demos/Bot.demo", strength=0.5, steps=10_000, num_epoch=4)
    assert parse(str(old), "--train").behaviors["Bot"].behavioral_cloning == expected
    new = tmp_path / "new.yaml"
    new.write_text(converted(str(old)))
    assert parse(str(new)).behaviors["Bot"].behavioral_cloning == expected


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("{}", "there is no demo_path to learn from; allowed: a .demo file, or a folder of them"),
        ("{demo_path: x.demo, strenght: 1}", "unknown key; nearest: strength"),
        ("{demo_path: x.demo, steps: -1}", "-1 is not allowed; allowed: an integer of at least 0"),
        ("{demo_path: x.demo, strength: -1}", "-1 is not allowed; allowed: a finite number of at least 0"),
        ("{demo_path: [x.demo]}", "a list is not allowed"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, block: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text(tmp_path, f"behaviors:\n  Bot:\n    behavioral_cloning: {block}\n")
    assert told in str(caught.value)
    assert "trainer.yaml:3: behaviors.Bot.behavioral_cloning" in str(caught.value)


OFFLINE = """\
default:
  trainer: ppo
  num_epoch: 3
Bot:
  trainer: offline_bc
  demo_path: demos/Bot.demo
  batch_size: 32
  use_recurrent: true
Other:
  trainer: online_bc
  brain_to_imitate: Teacher
  batches_per_epoch: 5
"""


def test_trainers_of_2019_that_clone_are_read_with_their_defaults_and_converted(tmp_path: Path) -> None:
    old = tmp_path / "trainer_config.yaml"
    old.write_text(OFFLINE)
    settings = parse(str(old), "--train")
    offline, online = settings.behaviors["Bot"], settings.behaviors["Other"]
    assert (offline.trainer_type, online.trainer_type) == ("offline_bc", "online_bc")
    assert offline.behavioral_cloning == CloningSettings(demo_path="demos/Bot.demo")
    assert online.behavioral_cloning == CloningSettings(brain_to_imitate="Teacher", batches_per_epoch=5)
    hyper = offline.hyperparameters
    assert (hyper.batch_size, hyper.learning_rate, hyper.learning_rate_schedule) == (32, 3.0e-4, "constant")
    assert (online.hyperparameters.batch_size, online.hyperparameters.buffer_size) == (64, 10_240)
    assert offline.network_settings.memory == MemorySettings(memory_size=256, sequence_length=32)
    assert (offline.max_steps, offline.time_horizon, offline.summary_freq) == (50_000, 64, 1000)
    new = tmp_path / "new.yaml"
    new.write_text(converted(str(old)))
    assert parse(str(new)).behaviors == settings.behaviors


def test_cloning_trainers_stand_in_files_of_today_too(tmp_path: Path) -> None:
    text = "default_settings: {hyperparameters: {beta: 0.1, learning_rate: 1e-3}, max_steps: 7}\n"
    text += "behaviors:\n  Bot:\n    trainer_type: online_bc\n"
    text += "    hyperparameters: {buffer_size: 500, shared_critic: false}\n"
    text += "    behavioral_cloning: {brain_to_imitate: Teacher}\n"
    settings = parse_text(tmp_path, text)
    bot = settings.behaviors["Bot"]
    assert (bot.max_steps, bot.hyperparameters.learning_rate, bot.hyperparameters.buffer_size) == (7, 1e-3, 500)
    assert not bot.hyperparameters.shared_critic
    assert any("beta: no effect with trainer_type online_bc" in each for each in settings.warnings)
    again = tmp_path / "again.yaml"
    again.write_text(to_yaml(settings))
    assert parse(str(again)).behaviors == settings.behaviors


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("trainer_type: offline_bc", "there is no demo_path to learn from (under behavioral_cloning)"),
        ("{trainer_type: online_bc, behavioral_cloning: {}}", "there is no brain_to_imitate to learn from"),
        ("{trainer_type: offline}", "offline is not allowed; allowed: one of ppo, offline_bc, online_bc"),
        (
            "{trainer_type: offline_bc, hyperparameters: {batchsize: 3}, behavioral_cloning: {demo_path: x.demo}}",
            "unknown key; nearest: batch_size",
        ),
    ],
)
def test_mistakes_of_cloning_trainers_are_told(tmp_path: Path, block: str, told: str) -> None:
    block = block if block.startswith("{") else f"{{{block}}}"
    with pytest.raises(ConfigError) as caught:
        parse_text(tmp_path, f"behaviors:\n  Bot: {block}\n")
    assert told in str(caught.value)


def test_defaults_may_leave_open_what_each_behavior_learns_from(tmp_path: Path) -> None:
    text = "default_settings: {trainer_type: offline_bc}\n"
    text += "behaviors: {Bot: {behavioral_cloning: {demo_path: x.demo}}}\n"
    settings = parse_text(tmp_path, text)
    assert settings.default_settings is not None
    assert settings.behaviors["Bot"].behavioral_cloning == CloningSettings(demo_path="x.demo")
