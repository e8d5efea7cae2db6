"""Observations reach networks as contiguous float32."""

from __future__ import annotations

import numpy as np

from runtime.experience.infos import observation_floats


def test_float_observations_pass_unchanged() -> None:
    observation = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert observation_floats(observation) is observation


def test_strided_observations_become_contiguous() -> None:
    observation = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    floats = observation_floats(observation)
    assert floats.flags.c_contiguous
    np.testing.assert_array_equal(floats, observation)


def test_bytes_of_images_are_scaled_to_one() -> None:
    floats = observation_floats(np.array([[[[0, 51, 255]]]], np.uint8))
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats.ravel(), np.array([0, 51, 255], np.float32) / np.float32(255))
