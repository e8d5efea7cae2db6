"""The released trainer of ML-Agents 1.1.0 trains on an installed player."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TRAINER = os.environ.get("FAKEUNITY_PEER_TRAINER", "")
STEPS = 4000
CONFIGURATION = f"""\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {{batch_size: 64, buffer_size: 512, learning_rate: 1.0e-3}}
    network_settings: {{hidden_units: 32, num_layers: 1}}
    max_steps: {STEPS}
    summary_freq: 1000
"""

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not TRAINER, reason="FAKEUNITY_PEER_TRAINER does not name a released mlagents-learn"),
]


def test_the_released_trainer_trains_on_an_installed_player(
    fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    file = fake_unity_player("basic", agents=8, journal=tmp_path / "journal")
    configuration = tmp_path / "basic.yaml"
    configuration.write_text(CONFIGURATION)
    command = [TRAINER, str(configuration), "--env", str(file.with_suffix("")), "--run-id", "peer", "--no-graphics"]
    command += ["--base-port", str(free_port), "--results-dir", str(tmp_path / "results"), "--torch-device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path, env=environment
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "results" / "peer" / "Basic.onnx").is_file()
    (journal,) = (tmp_path / "journal").iterdir()
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["agent_steps"] >= STEPS
