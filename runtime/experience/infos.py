"""Observations as a network takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from runtime.experience.brains import Floats, Observation

_BYTE_MAX = np.float32(255)


def observation_floats(observation: Observation) -> Floats:
    """float32, contiguous, of the same shape: floats as they are, uint8 images scaled to [0, 1]."""
    if observation.dtype == np.uint8:
        return np.asarray(observation, np.float32) / _BYTE_MAX
    return np.ascontiguousarray(observation, np.float32)
