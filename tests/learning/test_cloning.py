"""Recorded experts and a teacher are copied by every seed, to at least 90 % of what they earn."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.record_demo import record
from tests.support.runs import FinishedRun, train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

SEEDS = range(1, 6)
SHARE = 0.9
SETTINGS = {"network_settings": {"hidden_units": 64, "num_layers": 2}, "summary_freq": 1000}


def configured(folder: Path, behavior: str, **fields: object) -> str:
    path = folder / "trainer.yaml"
    path.write_text(yaml.safe_dump({"behaviors": {behavior: {**SETTINGS, **fields}}}))
    return str(path)


def earned(run: FinishedRun) -> float:
    """The mean reward of the last summary."""
    assert run.code == 0, run.text
    line = next(each for each in reversed(run.lines) if ". Step: " in each)
    return float(line.partition("Mean Reward: ")[2].split(". ")[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("scene", "behavior", "episodes", "steps", "best"),
    [("basic", "Basic", 20, 10_000, 0.93), ("balance", "Balance", 5, 40_000, 50.0)],
)
def test_an_expert_is_copied_offline(
    *, tmp_path: Path, scene: str, behavior: str, episodes: int, steps: int, best: float, seed: int
) -> None:
    demo, _ = record(f"fake:{scene}", tmp_path / behavior, episodes=episodes, seed=seed + 100)
    how = {"trainer_type": "offline_bc", "hyperparameters": {"learning_rate": 1e-3}}
    file = configured(tmp_path, behavior, **how, behavioral_cloning={"demo_path": str(demo)}, max_steps=steps)
    run = train(tmp_path, "r", file, "--env", f"fake:{scene}?agents=8&link=memory", "--seed", str(seed))
    assert earned(run) >= SHARE * best


@pytest.mark.parametrize("seed", SEEDS)
def test_a_teacher_is_copied_online(tmp_path: Path, seed: int) -> None:
    cloning = {"brain_to_imitate": "Teacher"}
    file = configured(tmp_path, "Student", trainer_type="online_bc", behavioral_cloning=cloning, max_steps=10_000)
    url = "fake:teacher?protocol=API-10&agents=4&link=memory"
    assert earned(train(tmp_path, "r", file, "--env", url, "--seed", str(seed))) >= SHARE


@pytest.mark.parametrize("seed", SEEDS)
def test_who_has_seen_an_expert_needs_fewer_steps(tmp_path: Path, seed: int) -> None:
    demo, _ = record("fake:basic", tmp_path / "Basic", episodes=20, seed=seed + 100)
    hyper = {"batch_size": 32, "buffer_size": 256, "learning_rate": 1e-3}
    rewards = []
    for name, cloning in (("with", {"demo_path": str(demo), "steps": 3000}), ("without", None)):
        file = configured(tmp_path, "Basic", hyperparameters=hyper, behavioral_cloning=cloning, max_steps=2000)
        rewards.append(earned(train(tmp_path, name, file, "--env", "fake:basic?link=memory", "--seed", str(seed))))
    assert rewards[0] > rewards[1] + 0.1
