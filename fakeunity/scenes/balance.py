"""`balance`: keep a rolling ball on a platform by tilting it about two axes.

The agent sees 8 numbers: platform roll / 45 degrees, pitch / 45 degrees; ball position x, y, z relative to the platform
/ 5 m; ball velocity x, y, z / (5 m/s). Two continuous actions in [-1, 1] (more is cut off) change roll and pitch by up
to 2 degrees a step. A positive roll lets the ball roll towards +x, a positive pitch towards +z. Each step gives +0.1; a
ball that is off gives -1 instead and ends the episode; after 500 steps it is interrupted. An episode starts with both
tilts within 10 degrees and the ball at rest within 1.5 m of the centre in x and z. Best return: 50 (500 steps of 0.1).

Physics: a solid ball that rolls without slipping is accelerated by 5/7 g sin(tilt) along each axis; a step lasts 0.1 s,
velocity first, then position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

STEP_S = 0.1
ROLLING_M_S2 = 9.81 * 5.0 / 7.0
HALF_WIDTH_M = 2.5
BALL_RADIUS_M = 0.5
DEGREE = 0.017453292519943295
TILT_PER_STEP_DEG = 2.0
TILT_MAX_DEG = 25.0
START_TILT_DEG = 10.0
START_OFFSET_M = 1.5

Doubles = NDArray[np.float64]


def sine(angle_rad: Doubles) -> Doubles:
    """The sine of angles within half a radian, to 2e-6, by its Taylor series: see `steady` for why not numpy's."""
    square = angle_rad * angle_rad
    return angle_rad * (1.0 - square * (1.0 / 6.0) * (1.0 - square * (1.0 / 20.0)))


class Balance(SteadyWorld):
    """One platform and one ball per agent; columns are the two axes."""

    spec = BehaviorSpec("Balance", (ObservationSpec("VectorSensor_size8", 8),), continuous=2)
    steps_max = 500

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.tilt_deg: Doubles = np.zeros((agents, 2))
        self.position_m: Doubles = np.zeros((agents, 2))
        self.velocity_m_s: Doubles = np.zeros((agents, 2))

    def begin(self, who: Ints) -> None:
        """A random tilt, the ball at rest at a random place."""
        drawn = uniforms(self.keys[who], 0, 4) * 2.0 - 1.0
        self.tilt_deg[who] = drawn[:, :2] * START_TILT_DEG
        self.position_m[who] = drawn[:, 2:] * START_OFFSET_M
        self.velocity_m_s[who] = 0.0

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Tilts, rolls, and looks whether the ball is still there."""
        change_deg = within(actions.continuous.astype(np.float64), -1.0, 1.0) * TILT_PER_STEP_DEG
        self.tilt_deg = within(self.tilt_deg + change_deg, -TILT_MAX_DEG, TILT_MAX_DEG)
        self.velocity_m_s = self.velocity_m_s + sine(self.tilt_deg * DEGREE) * (ROLLING_M_S2 * STEP_S)
        self.position_m = self.position_m + self.velocity_m_s * STEP_S
        out = np.abs(self.position_m) > HALF_WIDTH_M
        off = out[:, 0] | out[:, 1]
        return np.where(off, np.float32(-1.0), np.float32(0.1)), off

    def observe(self) -> tuple[Floats, ...]:
        """The 8 numbers of the module's docstring."""
        slope = sine(self.tilt_deg * DEGREE)
        drop_m, fall_m_s = self.position_m * slope, self.velocity_m_s * slope
        seen = np.empty((self.agents, 8), np.float32)
        seen[:, 0:2] = self.tilt_deg / 45.0
        seen[:, 2:5:2] = self.position_m / 5.0
        seen[:, 3] = (BALL_RADIUS_M - drop_m[:, 0] - drop_m[:, 1]) / 5.0
        seen[:, 5:8:2] = self.velocity_m_s / 5.0
        seen[:, 6] = (-fall_m_s[:, 0] - fall_m_s[:, 1]) / 5.0
        return (seen,)
