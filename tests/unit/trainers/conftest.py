"""Loads TensorFlow as training does, before any test module imports it."""

from trainers.ppo.engine import load_tensorflow

load_tensorflow()
