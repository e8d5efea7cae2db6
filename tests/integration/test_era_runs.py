"""Configurations of 2019 train players over gRPC: steps are env steps, NaN becomes 0, a converted file trains equal."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from runtime.convert import main as convert
from tests.support.runs import journal_totals, train

ERA = """\
default:
  trainer: ppo
  batch_size: 32
  beta: 5.0e-3
  buffer_size: 128
  hidden_units: 16
  learning_rate: 1.0e-3
  max_steps: 3.0e2
  num_epoch: 2
  num_layers: 1
  time_horizon: 32
  summary_freq: 100
Basic: Small
Small:
  num_epoch: 1
"""


def era(folder: Path) -> Path:
    path = folder / "trainer_config.yaml"
    path.write_text(ERA)
    return path


def test_c21_steps_are_env_steps_and_the_converted_file_trains_equal(tmp_path: Path) -> None:
    old, new, journal = era(tmp_path), tmp_path / "new.yaml", tmp_path / "journal"
    argv = ("--env", f"fake:basic?agents=3&journal={journal}", "--num-envs", "2", "--seed", "5")
    before = train(tmp_path, "old", str(old), "--train", *argv)
    assert before.code == 0, before.text
    assert before.summary["env_steps"] == 300
    assert before.summary["agent_steps"] == 900
    assert journal_totals(journal)["env_steps"] == 300
    assert "[INFO] Basic. Step: 300." in before.text
    assert convert([str(old), str(new)]) == 0
    after = train(tmp_path, "new", str(new), *argv)
    assert after.summary["policy_sha256"] == before.summary["policy_sha256"]
    assert after.lasting("run_id") == before.lasting("run_id")


def test_c20_numbers_that_are_not_finite_become_0_and_are_counted(tmp_path: Path) -> None:
    url = "fake:basic?link=memory&fault=nan@step=20"
    run = train(tmp_path, "nan", str(era(tmp_path)), "--train", "--env", url, "--seed", "5")
    assert run.code == 0, run.text
    assert run.summary["replaced_numbers"] == 1


def test_a_brain_without_a_block_of_its_own_is_said_to_take_the_default_settings(tmp_path: Path) -> None:
    document = {"default": {"max_steps": 64, "buffer_size": 64, "batch_size": 32}, "Basi": {"max_steps": 99}}
    path = tmp_path / "misspelt.yaml"
    path.write_text(yaml.safe_dump(document))
    run = train(tmp_path, "r", str(path), "--train", "--env", "fake:basic?link=memory")
    assert run.code == 0, run.text
    assert "[INFO] behavior 'Basic' takes the default settings; blocks of their own have: Basi" in run.lines


def test_several_runs_have_seeds_one_after_another_and_folders_of_their_own(tmp_path: Path) -> None:
    argv = (str(era(tmp_path)), "--train", "--env", "fake:basic?link=memory", "--num-runs", "2", "--seed", "40")
    run = train(tmp_path, "many", *argv)
    assert run.code == 0, run.text
    assert "[INFO] Run 2 of 2: many-1, seed 41" in run.lines
    configurations = [yaml.safe_load((tmp_path / f"many-{n}" / "configuration.yaml").read_text()) for n in (0, 1)]
    assert [each["env_settings"]["seed"] for each in configurations] == [40, 41]
    alone = train(tmp_path, "alone", *argv[:4], "--seed", "41")
    second = (tmp_path / "many-1" / "Basic.onnx").read_bytes()
    assert (alone.folder / "Basic.onnx").read_bytes() == second
    again = train(tmp_path, "many", *argv)
    assert again.code == 2
    assert "the runs many-0, many-1 of 'many' exist already" in again.text


def test_a_series_that_was_interrupted_is_completed_by_resume_with_the_seeds_it_would_have_had(tmp_path: Path) -> None:
    argv = (str(era(tmp_path)), "--train", "--env", "fake:basic?link=memory")
    first = train(tmp_path, "many-0", *argv, "--seed", "40")
    run = train(tmp_path, "many", *argv, "--num-runs", "2", "--resume")
    assert run.code == 0, run.text
    assert "[INFO] Run 1 of 2: many-0, resumed" in run.lines
    assert any(line.startswith("[INFO] The run many-0 is finished already") for line in run.lines)
    assert "[INFO] Run 2 of 2: many-1, seed 41" in run.lines
    assert any(line.startswith("[INFO] Run many-1: ") and ", seed 41, " in line for line in run.lines)
    assert first.summary["seed"] + 1 == json.loads((tmp_path / "many-1" / "summary.json").read_text())["seed"]
