"""`basic`: a walk on a line of 20 cells, a small prize near on the left and a large one on the right.

Cells 0 to 19, start 10. The agent sees its cell as a one-hot vector of 20. One branch of 3: 0 stays, 1 goes left,
2 goes right; moves stop at the ends. Every step costs 0.01, the arriving one too. Cell 7 pays 0.1 and cell 17 pays 1.0,
both end the episode; after 100 steps it is interrupted. Best return: 0.93 (7 steps right).
"""

from __future__ import annotations

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance
from fakeunity.scenes.steady import SteadyWorld

CELLS = 20
START = 10
SMALL_PRIZE_CELL = 7
LARGE_PRIZE_CELL = 17
MOVES = np.array([0, -1, 1], np.int64)
ONE_HOT = np.eye(CELLS, dtype=np.float32)
PRIZES = np.full(CELLS, -0.01, np.float32)
PRIZES[SMALL_PRIZE_CELL] = 0.1 - 0.01
PRIZES[LARGE_PRIZE_CELL] = 1.0 - 0.01


class Basic(SteadyWorld):
    """Every agent walks a line of its own."""

    spec = BehaviorSpec("Basic", (ObservationSpec(f"VectorSensor_size{CELLS}", CELLS),), branches=(len(MOVES),))
    steps_max = 100

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.cell: Ints = np.full(agents, START, np.int64)

    def begin(self, who: Ints) -> None:
        """Back to the start cell; nothing is random here."""
        self.cell[who] = START

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """One move, its cost, and the prize of the cell reached."""
        self.cell = within(self.cell + MOVES[actions.discrete[:, 0]], 0, CELLS - 1)
        ended = (self.cell == SMALL_PRIZE_CELL) | (self.cell == LARGE_PRIZE_CELL)
        return PRIZES[self.cell], ended

    def observe(self) -> tuple[Floats, ...]:
        """The cell, one-hot."""
        return (ONE_HOT[self.cell],)
