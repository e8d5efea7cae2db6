"""`hallway`: a sign at the entrance says where the prize is, and is out of sight when the choice comes.

Cells 0 to 5, start 0. The agent sees its cell (one-hot of 6) and the sign (one-hot of 2: left, right), which is dark
everywhere but in cell 0. One branch of 4: 0 stays, 1 goes one cell on, 2 turns left, 3 turns right; there is no way
back, and turning does something in cell 5 only: it ends the episode, with 1 on the side of the sign and 0 on the other.
After 40 steps it is interrupted. Best return: 1 (6 steps; a step costs nothing). Both sides are equally likely, so a
policy without memory, to which all hallways look the same from cell 1 on, gets at most 0.5 on average.
"""

from __future__ import annotations

import numpy as np

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

CELLS = 6
STAY, ON, LEFT, RIGHT = range(4)
CELL_ONE_HOT = np.eye(CELLS, dtype=np.float32)
SIGN_ONE_HOT = np.eye(2, dtype=np.float32)


class Hallway(SteadyWorld):
    """`cell` and `sign` (0 left, 1 right), int64 (agents,)."""

    spec = BehaviorSpec("Hallway", (ObservationSpec(f"VectorSensor_size{CELLS + 2}", CELLS + 2),), branches=(4,))
    steps_max = 40

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.cell: Ints = np.zeros(agents, np.int64)
        self.sign: Ints = np.zeros(agents, np.int64)

    def begin(self, who: Ints) -> None:
        """Back to the entrance, a new sign."""
        self.cell[who] = 0
        self.sign[who] = (uniforms(self.keys[who], 0, 1)[:, 0] * 2).astype(np.int64)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """One step on, or the choice at the end."""
        action = actions.discrete[:, 0]
        turns = (self.cell == CELLS - 1) & (action >= LEFT)
        self.cell = np.minimum(self.cell + (action == ON), CELLS - 1)
        return (turns & (action - LEFT == self.sign)).astype(np.float32), turns

    def observe(self) -> tuple[Floats, ...]:
        """The cell, and the sign where it can be seen."""
        sign = SIGN_ONE_HOT[self.sign] * (self.cell == 0)[:, None].astype(np.float32)
        return (np.concatenate((CELL_ONE_HOT[self.cell], sign), axis=1),)
