"""`buffer`: a seesaw with a changing number of stones; say which side goes down.

At every step 1 to 8 stones lie on the seesaw, drawn anew: for each the agent sees its place (-1 left end, 1 right end)
and its weight (above 0, at most 1), in a variable-length observation of at most 8 rows of 2; rows without a stone are
zeros. One branch of 2: 0 left, 1 right. A right answer gives 0.1; the episode is interrupted after 10 steps. Best
return: 1; answering at random earns 0.5.
"""

from __future__ import annotations

import numpy as np

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

STONES_MAX = 8
NUMBERS = 2  # of a stone: place, weight


class Buffer(SteadyWorld):
    """`stones` (float32, (agents, 8, 2)): place and weight of each; zeros where there is none."""

    spec = BehaviorSpec(
        "Buffer", (ObservationSpec("BufferSensor", STONES_MAX * NUMBERS, rows=STONES_MAX),), branches=(2,)
    )
    steps_max = 10

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.stones: Floats = np.zeros((agents, STONES_MAX, NUMBERS), np.float32)

    def begin(self, who: Ints) -> None:
        """The first stones of an episode."""
        self._draw(who)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Pays for the stones seen, then lays others."""
        heavier_right = self.torque() > 0.0
        rewards = np.float32(0.1) * (actions.discrete[:, 0] == heavier_right)
        self._draw(np.arange(self.agents, dtype=np.int64))
        return rewards.astype(np.float32), np.zeros(self.agents, np.bool_)

    def torque(self) -> Floats:
        """Which side goes down: right where above 0; float32 (agents,)."""
        total = np.zeros(self.agents, np.float32)
        # One stone after the other, as sums over an axis need not add in the same order for every number of agents.
        for stone in range(STONES_MAX):
            total = total + self.stones[:, stone, 0] * self.stones[:, stone, 1]
        return total

    def observe(self) -> tuple[Floats, ...]:
        """The stones, row after row."""
        return (self.stones.reshape(self.agents, -1).copy(),)

    def _draw(self, who: Ints) -> None:
        drawn = uniforms(self.keys[who], self.t[who], 1 + STONES_MAX * NUMBERS)
        count = 1 + (drawn[:, 0] * STONES_MAX).astype(np.int64)
        stones = drawn[:, 1:].reshape(len(who), STONES_MAX, NUMBERS)
        is_there = (np.arange(STONES_MAX) < count[:, None])[:, :, None]
        laid = np.stack((stones[:, :, 0] * 2.0 - 1.0, 1.0 - stones[:, :, 1]), axis=2)
        self.stones[who] = np.where(is_there, laid, 0.0)
