"""`hybrid`: point and press at once. Two continuous actions, branches of 3 and 2, three vector observations.

At every step the agent sees a switch (1 number, -1 or 1), a target (2 numbers within [-0.8, 0.8]) and a colour
(one-hot of 3), all drawn anew. It should point at the target with its continuous actions (cut off at [-1, 1]), choose
the colour with the first branch and, with the second, 1 if the switch is 1, else 0. A step pays 0.05 (1 - d^2), at
least -0.05, for pointing at distance d from the target; 0.03 for the colour; 0.02 for the switch. The episode is
interrupted after 20 steps. Best return: 2 (20 steps of 0.1); uniform random actions earn about 0.4.
"""

from __future__ import annotations

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

COLOURS = 3
TARGET_MAX = 0.8
ONE_HOT = np.eye(COLOURS, dtype=np.float32)


class Hybrid(SteadyWorld):
    """What an agent does has no influence on what it sees next."""

    spec = BehaviorSpec(
        "Hybrid",
        (
            ObservationSpec("VectorSensor_size1", 1),
            ObservationSpec("VectorSensor_size2", 2),
            ObservationSpec("VectorSensor_size3", COLOURS),
        ),
        continuous=2,
        branches=(COLOURS, 2),
    )
    steps_max = 20

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.target: Floats = np.zeros((agents, 2), np.float32)
        self.colour: Ints = np.zeros(agents, np.int64)
        self.switch: Ints = np.zeros(agents, np.int64)

    def begin(self, who: Ints) -> None:
        """The first task of an episode."""
        self._draw(who)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Pays for the task seen, then draws the next one."""
        gap = within(actions.continuous, -1.0, 1.0) - self.target
        square = gap[:, 0] * gap[:, 0] + gap[:, 1] * gap[:, 1]
        rewards = np.float32(0.05) * np.maximum(np.float32(-1.0), np.float32(1.0) - square)
        rewards += np.float32(0.03) * (actions.discrete[:, 0] == self.colour)
        rewards += np.float32(0.02) * (actions.discrete[:, 1] == self.switch)
        self._draw(np.arange(self.agents, dtype=np.int64))
        return rewards.astype(np.float32), np.zeros(self.agents, np.bool_)

    def observe(self) -> tuple[Floats, ...]:
        """Switch, target, colour."""
        switch = (self.switch * 2 - 1).astype(np.float32)[:, None]
        return switch, self.target.copy(), ONE_HOT[self.colour]

    def _draw(self, who: Ints) -> None:
        drawn = uniforms(self.keys[who], self.t[who], 4)
        self.target[who] = (drawn[:, :2] * 2.0 - 1.0) * TARGET_MAX
        self.colour[who] = (drawn[:, 2] * COLOURS).astype(np.int64)
        self.switch[who] = (drawn[:, 3] * 2.0).astype(np.int64)
