"""The released trainer of ML-Agents 1.1.0 trains on installed players."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.peers.released import interpreter, needs

pytestmark = needs("trainer-1.1.0")

TRAINER_TIMEOUT_S = 900.0
COMMON: Mapping[str, Any] = {  # YAML
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 64, "buffer_size": 512, "learning_rate": 1e-3},
    "network_settings": {"hidden_units": 32, "num_layers": 1},
    "max_steps": 4000,
    "summary_freq": 1000,
}
MEMORY = {"hidden_units": 32, "num_layers": 1, "memory": {"sequence_length": 8, "memory_size": 16}}
PLAY_AGAINST_ITSELF = {"save_steps": 500, "team_change": 1000, "swap_steps": 250, "window": 3}
SETTINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "basic": ("Basic", {}),
    "gridworld": (
        "GridWorld",
        {"network_settings": {"hidden_units": 32, "vis_encode_type": "simple"}, "max_steps": 2000},
    ),
    "hallway": ("Hallway", {"network_settings": MEMORY}),
    "soccer": ("Soccer", {"self_play": PLAY_AGAINST_ITSELF}),
}


@pytest.mark.parametrize("scene", SETTINGS)
def test_the_released_trainer_trains_on_an_installed_player(
    scene: str, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    name, settings = SETTINGS[scene]
    file = fake_unity_player(scene, agents=8, journal=tmp_path / "journal")
    configuration = tmp_path / f"{scene}.yaml"
    configuration.write_text(yaml.safe_dump({"behaviors": {name: {**COMMON, **settings}}}))
    command = [interpreter("trainer-1.1.0"), "-m", "mlagents.trainers.learn", str(configuration)]
    command += ["--env", str(file.with_suffix("")), "--run-id", "peer", "--no-graphics", "--torch-device", "cpu"]
    command += ["--base-port", str(free_port), "--results-dir", str(tmp_path / "results")]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TRAINER_TIMEOUT_S,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "results" / "peer" / f"{name}.onnx").is_file()
    (journal,) = (tmp_path / "journal").iterdir()
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["agent_steps"] >= {**COMMON, **settings}["max_steps"]
    assert last["episodes"] > 0
