"""Runs that learn from demonstrations: recorded with a command, learned from alone or beside rewards, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.record_demo import record
from tests.support.events import scalars_in
from tests.support.runs import FinishedRun, train

BASIC = "fake:basic?link=memory"
BEST = 0.93


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demonstrations of both generations, and one of another scene."""
    folder = tmp_path_factory.mktemp("demos")
    record("fake:basic", folder / "Basic", episodes=20)
    record("fake:basic?protocol=API-10", folder / "Old", episodes=20, generation=1)
    record("fake:balance", folder / "Balance", episodes=1)
    return folder


def configured(folder: Path, **fields: object) -> str:
    path = folder / "trainer.yaml"
    small = {"hidden_units": 20, "num_layers": 1}
    behavior = {"network_settings": small, "max_steps": 2000, "summary_freq": 500, **fields}
    path.write_text(yaml.safe_dump({"behaviors": {"Basic": behavior}}))
    return str(path)


def pretraining(demo: Path, folder: Path, **fields: object) -> str:
    hyper = {"batch_size": 32, "buffer_size": 256, "learning_rate": 3e-3}
    cloning = {"demo_path": str(demo), "steps": 1500, **fields}
    return configured(folder, hyperparameters=hyper, behavioral_cloning=cloning)


def curve(run: FinishedRun, tag: str) -> list[float]:
    """The values of a tag, in the order of steps."""
    return [values[tag] for _, values in scalars_in(run.folder / "Basic") if tag in values]


@pytest.mark.parametrize("name", ["Basic", "Old"])
def test_a_recorded_expert_is_copied_offline(tmp_path: Path, demos: Path, name: str) -> None:
    demo = {"demo_path": str(demos / f"{name}.demo")}
    hyper = {"learning_rate": 3e-3}
    file = configured(tmp_path, trainer_type="offline_bc", behavioral_cloning=demo, hyperparameters=hyper)
    protocol = "" if name == "Basic" else "&protocol=API-10"
    run = train(tmp_path, "off", file, "--env", BASIC + protocol, "--seed", "3")
    assert run.code == 0, run.text
    assert run.summary["agent_steps"] == 2000
    last = [line for line in run.lines if "Basic. Step: 2000." in line]
    assert float(last[0].partition("Mean Reward: ")[2].split(". ")[0]) >= 0.9 * BEST
    losses = curve(run, "Losses/Cloning Loss")
    assert losses[-1] < 0.1 * losses[0]
    assert (run.folder / "Basic.onnx").exists()


def test_what_was_pretrained_goes_on_bit_for_bit(tmp_path: Path, demos: Path) -> None:
    file = pretraining(demos / "Basic.demo", tmp_path)
    argv = (file, "--env", BASIC, "--seed", "3")
    whole = train(tmp_path, "whole", *argv, "--restart-envs-at", "800")
    assert whole.code == 0, whole.text
    assert train(tmp_path, "parts", *argv, "--stop-at", "800").code == 0
    parts = train(tmp_path, "parts", *argv, "--resume")
    assert parts.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert len(curve(whole, "Losses/Pretraining Loss")) == 3  # none once the 1500 steps are over


def refused(folder: Path, demo: Path) -> FinishedRun:
    return train(folder, "refused", pretraining(demo, folder), "--env", BASIC)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Missing.demo", "Missing.demo does not exist; give a .demo file, or a folder of them."),
        ("Missing", "Missing does not exist; give a .demo file, or a folder of them."),
        ("Basic.txt", "Basic.txt is no .demo file; give one, or a folder of them."),
        ("empty", "empty holds no .demo file; expected at least one."),
        ("Damaged.demo", "Damaged.demo, byte"),
    ],
)
def test_a_bad_path_is_told_before_anything_is_started(tmp_path: Path, demos: Path, name: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "Basic.txt").touch()
    (tmp_path / "Damaged.demo").write_bytes((demos / "Basic.demo").read_bytes()[:300])
    run = refused(tmp_path, tmp_path / name)
    assert run.code == 2
    assert told in run.text
    assert not run.folder.exists()


def test_all_differences_between_file_and_player_are_told(tmp_path: Path, demos: Path) -> None:
    run = refused(tmp_path, demos / "Balance.demo")
    assert run.code == 2
    assert "do not fit brain 'Basic': they have observation 0 ('VectorSensor_size8') of shape (8,)" in run.text
    assert "the brain has (20,); 2 continuous actions, the brain has 0; branches of (), the brain has (3,)" in run.text


def test_a_file_of_2019_clones_offline_and_counts_env_steps(tmp_path: Path, demos: Path) -> None:
    path = tmp_path / "trainer_config.yaml"
    block = {"trainer": "offline_bc", "demo_path": str(demos), "max_steps": 300, "num_layers": 1, "hidden_units": 8}
    path.write_text(yaml.safe_dump({"Basic": {**block, "demo_path": str(demos / "Old.demo")}}))
    run = train(tmp_path, "era", str(path), "--train", "--env", "fake:basic?link=memory&agents=3", "--seed", "1")
    assert run.code == 0, run.text
    assert (run.summary["env_steps"], run.summary["agent_steps"]) == (300, 900)
    assert run.summary["policy_version"]["Basic"] >= 10
