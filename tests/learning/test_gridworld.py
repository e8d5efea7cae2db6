"""Pictures and a goal are learned by either encoder with the bundled configuration, and the model says the same."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import yaml

from fakeunity.rows import Actions
from fakeunity.scenes.catalogue import open_world
from tests.support.runs import train
from tests.support.training import seen_by

pytestmark = [pytest.mark.learning, pytest.mark.slow]

PLAYER = "fake:gridworld?agents=64&link=memory"
EPISODES = 3000


def configured(folder: Path, **changes: object) -> str:
    """The bundled configuration with other values of network settings or hyperparameters."""
    content = yaml.safe_load((files("runtime") / "configs" / "gridworld.yaml").read_text())
    behavior = content["behaviors"]["GridWorld"]
    for key, value in changes.items():
        part = "network_settings" if key in behavior["network_settings"] else "hyperparameters"
        assert key in behavior[part]
        behavior[part][key] = value
    path = folder / "gridworld.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


LEARNING_RATES = {"simple": 1.5e-3, "nature_cnn": 5e-4}


@pytest.mark.parametrize("encoder", sorted(LEARNING_RATES))
def test_gridworld_is_learned_to_95_of_100_and_so_is_its_exported_model(tmp_path: Path, encoder: str) -> None:
    settings = configured(tmp_path, vis_encode_type=encoder, learning_rate=LEARNING_RATES[encoder])
    run = train(tmp_path, "r", settings, "--env", PLAYER, "--seed", "1")
    assert run.code == 0, run.text
    assert run.summary["exit_reason"] == "max_steps"
    assert run.summary["mean_reward"]["GridWorld"] >= 0.95
    assert earned(run.folder / "GridWorld.onnx") >= 0.95


def earned(model: Path) -> float:
    """The mean return of the exported model as it samples, acted by a bare onnxruntime as Unity does."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    world = open_world("gridworld", agents=50, handshake_seed=99, url_seed=0)
    rows, total, episodes = world.reset()["GridWorld"], 0.0, 0
    while episodes < EPISODES:
        image, goal = (each[~rows.done] for each in seen_by(world.specs[0], rows))
        feed = {
            "obs_0": image.astype(np.float32) / np.float32(255),
            "obs_1": goal.astype(np.float32),
            "action_masks": np.ones((len(goal), 5), np.float32),
        }
        (actions,) = session.run(["discrete_actions"], feed)
        rows = world.step({"GridWorld": Actions(np.zeros((len(goal), 0), np.float32), actions)})["GridWorld"]
        total += float(rows.rewards.sum(dtype=np.float64))
        episodes += int(rows.done.sum())
    return total / episodes


def test_gridworld_is_not_learned_without_learning(tmp_path: Path) -> None:
    frozen = configured(tmp_path, learning_rate=1e-10)
    run = train(tmp_path, "r", frozen, "--env", PLAYER, "--seed", "1", "--stop-at", "30000")
    assert run.code == 0, run.text
    assert run.summary["mean_reward"]["GridWorld"] < 0.4
