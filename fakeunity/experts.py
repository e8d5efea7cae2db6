"""Experts: what somebody who knows a scene does, from what an agent sees alone; for demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, Floats
from fakeunity.scenes.balance import TILT_PER_STEP_DEG
from fakeunity.scenes.teacher import KEY_OF_SIGN, SIGNS

Expert = Callable[[Sequence[Floats]], Actions]
"""One row of actions for each row of the observations, which are those of a behavior's sensors in their order."""

RIGHT = 2
TILT_OBSERVED_DEG, LENGTH_OBSERVED_M = 45.0, 5.0
TILT_FOR_POSITION_DEG_M, TILT_FOR_VELOCITY_DEG_S_M = 10.0, 7.0


def _discrete(indices: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]) -> Actions:
    chosen = np.asarray(indices, np.int64)[:, None]
    return Actions(np.zeros((len(chosen), 0), np.float32), chosen)


def walk_right(seen: Sequence[Floats]) -> Actions:
    """`basic`: to the larger prize, which is to the right of the start."""
    return _discrete(np.full(len(seen[0]), RIGHT))


def hold_ball(seen: Sequence[Floats]) -> Actions:
    """`balance`: tilts against the ball's position and velocity, as fast as the platform can."""
    (numbers,) = seen
    tilt_deg = numbers[:, 0:2] * TILT_OBSERVED_DEG
    position_m, velocity_m_s = numbers[:, 2:5:2] * LENGTH_OBSERVED_M, numbers[:, 5:8:2] * LENGTH_OBSERVED_M
    wanted_deg = -TILT_FOR_POSITION_DEG_M * position_m - TILT_FOR_VELOCITY_DEG_S_M * velocity_m_s
    change = within((wanted_deg - tilt_deg) / TILT_PER_STEP_DEG, -1.0, 1.0)
    return Actions(change.astype(np.float32), np.zeros((len(change), 0), np.int64))


def press_key(seen: Sequence[Floats]) -> Actions:
    """`teacher`: the key of the sign that is shown."""
    return _discrete(KEY_OF_SIGN[np.argmax(seen[0][:, :SIGNS], axis=1)])


EXPERTS: Mapping[str, Expert] = MappingProxyType({"Basic": walk_right, "Balance": hold_ball, "Student": press_key})
"""By the name of the behavior."""
