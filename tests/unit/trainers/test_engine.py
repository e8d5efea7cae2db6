"""TensorFlow is loaded without what nobody here uses, and embedding programs get that all the same."""

from __future__ import annotations

import subprocess
import sys

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
