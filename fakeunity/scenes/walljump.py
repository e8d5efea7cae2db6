"""`walljump`: run up, jump the wall and reach the goal behind it; the higher the wall, the longer the run-up.

A track of 12 cells and 3 lanes; between cells 7 and 8 stands a wall, at cell 11 of the middle lane is the goal. Four
branches act at once: along (3: 0 nothing, 1 forward, 2 back), turn (3: 0 nothing, 1 left, 2 right), side (3: 0 nothing,
1 left, 2 right) and jump (2). The agent faces left, ahead or right, and runs only when it faces ahead. Each forward
step in a row adds 1 to its speed, at most 4; anything else makes it 0. A forward step from cell 7 passes the wall if
the agent jumps and its speed before that step is at least the wall's height; else it stays and the speed is lost.
Without a wall (height 0) no jump is needed. Order within a step: turn, side, along.

The agent starts in a random lane of a random cell from 3 to 5, facing anywhere: a wall of height 4 asks for going back
first. It sees its cell (one-hot of 12), lane (one-hot of 3), facing (one-hot of 3), speed / 4 and wall height / 4. The
goal gives 1 and ends the episode; after 60 steps it is interrupted. Best return: 1 (a step costs nothing), at every
height.

Environment parameter `wall_height` (default 0): 0 to 4, what is above counts as 4; read when an episode begins.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

CELLS = 12
BEFORE_WALL = 7
MIDDLE = 1
AHEAD = 1
SPEED_MAX = 4
HEIGHT_MAX = 4.0
SHIFTS = np.array([0, -1, 1], np.int64)  # of turn and side: nothing, left, right
FORWARD, BACK = 1, 2
CELL_ONE_HOT = np.eye(CELLS, dtype=np.float32)
THREE_ONE_HOT = np.eye(3, dtype=np.float32)
SEEN = CELLS + 3 + 3 + 1 + 1


class WallJump(SteadyWorld):
    """`cell`, `lane`, `facing`, `speed` (int64, (agents,)) and `height` (float64, (agents,))."""

    spec = BehaviorSpec("WallJump", (ObservationSpec(f"VectorSensor_size{SEEN}", SEEN),), branches=(3, 3, 3, 2))
    steps_max = 60
    defaults = MappingProxyType({"wall_height": 0.0})

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.cell: Ints = np.zeros(agents, np.int64)
        self.lane: Ints = np.zeros(agents, np.int64)
        self.facing: Ints = np.zeros(agents, np.int64)
        self.speed: Ints = np.zeros(agents, np.int64)
        self.height: NDArray[np.float64] = np.zeros(agents)

    def begin(self, who: Ints) -> None:
        """Somewhere before the wall, at rest."""
        drawn = (uniforms(self.keys[who], 0, 3) * 3).astype(np.int64)
        self.cell[who], self.lane[who], self.facing[who] = 3 + drawn[:, 0], drawn[:, 1], drawn[:, 2]
        self.speed[who] = 0
        self.height[who] = within(self.parameters.episodes("wall_height", self.keys[who]), 0.0, HEIGHT_MAX)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Turn, side, along."""
        along, turn, side, jump = actions.discrete.T
        self.facing = within(self.facing + SHIFTS[turn], 0, 2)
        self.lane = within(self.lane + SHIFTS[side], 0, 2)
        is_ahead = self.facing == AHEAD
        runs = is_ahead & (along == FORWARD) & (self.cell < CELLS - 1)
        passes = (self.height == 0.0) | ((jump == 1) & (self.speed >= self.height))
        runs &= (self.cell != BEFORE_WALL) | passes
        # Behind the wall there is no way back.
        goes_back = is_ahead & (along == BACK) & (self.cell > 0) & (self.cell != BEFORE_WALL + 1)
        self.cell = self.cell + runs - goes_back
        self.speed = np.where(runs, np.minimum(self.speed + 1, SPEED_MAX), 0)
        arrived = (self.cell == CELLS - 1) & (self.lane == MIDDLE)
        return arrived.astype(np.float32), arrived

    def observe(self) -> tuple[Floats, ...]:
        """Cell, lane, facing, speed, height."""
        rest = np.stack((self.speed / SPEED_MAX, self.height / HEIGHT_MAX), axis=1).astype(np.float32)
        parts = (CELL_ONE_HOT[self.cell], THREE_ONE_HOT[self.lane], THREE_ONE_HOT[self.facing], rest)
        return (np.concatenate(parts, axis=1),)
