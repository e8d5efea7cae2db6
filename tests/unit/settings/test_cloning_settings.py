"""Demonstrations in configurations: `behavioral_cloning` of today, `pretraining` of 2019, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.convert import converted
from runtime.errors import ConfigError
from runtime.learner import CloningSettings
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
