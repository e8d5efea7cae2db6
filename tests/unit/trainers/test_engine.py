"""TensorFlow is loaded without what nobody here uses, and with threads that change no result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from trainers.ppo import engine
engine.load_tensorflow()
assert "keras" not in sys.modules
import tensorflow as tf
assert tf.keras.layers.Dense(3)(tf.zeros([2, 2])).shape == (2, 3)
import keras
engine.load_tensorflow()
assert sys.modules["keras"] is keras
"""


def test_keras_is_loaded_when_somebody_asks_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


TRAINING = """
import sys
from trainers.ppo import engine
engine.threads_for = lambda shape, is_async: int(sys.argv[1])
from runtime.train import main
sys.exit(main(sys.argv[2:]))
"""
WIDE = {
    "basic": {"hidden_units": 512, "num_layers": 2},
    "hallway": {"hidden_units": 256, "num_layers": 1, "memory": {"memory_size": 256, "sequence_length": 16}},
}


@pytest.mark.parametrize("scene", WIDE)
def test_a_second_thread_changes_no_bit(tmp_path: Path, scene: str) -> None:
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 128, "buffer_size": 512},
        "network_settings": WIDE[scene],
        "max_steps": 1500,
    }
    config = tmp_path / "wide.yaml"
    config.write_text(json.dumps({"default_settings": behavior}))
    found = []
    for threads in ("1", "2"):
        run = ["--run-id", threads, "--seed", "3", "--results-dir", str(tmp_path), "--actor-system", "inline"]
        argv = [threads, str(config), "--env", f"fake:{scene}?link=memory&agents=16", *run]
        done = subprocess.run(
            [sys.executable, "-c", TRAINING, *argv], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(json.loads((tmp_path / threads / "summary.json").read_text())["policy_sha256"])
    assert found[0] == found[1]
