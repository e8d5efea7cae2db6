"""`masked`: a keyboard of 210 keys of which 207 are locked, other ones at every step.

The first branch has 210 actions: keys 0-69 are red, 70-139 green, 140-209 blue. At every step one key of each colour
is free and the 207 others are masked. The agent sees which colour pays (one-hot of 3): the free key of that colour
gives 0.08. The second branch has 4 actions of which 1 to 3 are free: the highest free one gives 0.02. A masked action
is never legal: the player reports it and ends. The episode is interrupted after 10 steps. Best return: 1 (10 steps of
0.1); choosing among free actions at random earns about 0.4.
"""

from __future__ import annotations

import numpy as np

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec, Rows
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

COLOURS = 3
KEYS_PER_COLOUR = 70
KEYS = COLOURS * KEYS_PER_COLOUR
LEVERS = 4
ONE_HOT = np.eye(COLOURS, dtype=np.float32)
# Row n - 1 holds the levers that are free in pattern n: every subset of the four but none and all.
LEVER_PATTERNS = np.array([[bool(n >> lever & 1) for lever in range(LEVERS)] for n in range(1, 2**LEVERS - 1)])


class Masked(SteadyWorld):
    """`free_keys` (int64, (agents, 3)): the free key of each colour; `free_levers` (bool, (agents, 4))."""

    spec = BehaviorSpec("Masked", (ObservationSpec("VectorSensor_size3", COLOURS),), branches=(KEYS, LEVERS))
    steps_max = 10

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.colour: Ints = np.zeros(agents, np.int64)
        self.free_keys: Ints = np.zeros((agents, COLOURS), np.int64)
        self.free_levers: Bools = np.zeros((agents, LEVERS), np.bool_)

    def begin(self, who: Ints) -> None:
        """The first task of an episode."""
        self._draw(who)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Pays for the task seen, then draws the next one."""
        key, lever = actions.discrete[:, 0], actions.discrete[:, 1]
        highest = LEVERS - 1 - np.argmax(self.free_levers[:, ::-1], axis=1)
        rewards = np.float32(0.08) * (key // KEYS_PER_COLOUR == self.colour)
        rewards += np.float32(0.02) * (lever == highest)
        self._draw(np.arange(self.agents, dtype=np.int64))
        return rewards.astype(np.float32), np.zeros(self.agents, np.bool_)

    def observe(self) -> tuple[Floats, ...]:
        """The colour that pays."""
        return (ONE_HOT[self.colour],)

    def mask(self) -> Bools:
        """Everything but one key of each colour and the free levers."""
        mask = np.ones((self.agents, KEYS + LEVERS), np.bool_)
        np.put_along_axis(mask, self.free_keys, False, axis=1)
        mask[:, KEYS:] = ~self.free_levers
        return mask

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """The lowest free action of each branch: zeros might be masked."""
        discrete = np.stack((self.free_keys[:, 0], np.argmax(self.free_levers, axis=1)), axis=1)
        return Actions(np.zeros((self.agents, 0), np.float32), discrete.astype(np.int64))

    def _draw(self, who: Ints) -> None:
        drawn = uniforms(self.keys[who], self.t[who], COLOURS + 2)
        offsets = (drawn[:, :COLOURS] * KEYS_PER_COLOUR).astype(np.int64)
        self.free_keys[who] = offsets + np.arange(COLOURS) * KEYS_PER_COLOUR
        self.colour[who] = (drawn[:, COLOURS] * COLOURS).astype(np.int64)
        self.free_levers[who] = LEVER_PATTERNS[(drawn[:, COLOURS + 1] * len(LEVER_PATTERNS)).astype(np.int64)]
