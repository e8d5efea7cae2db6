"""`gridworld`: a field of 5 by 5 cells seen by a camera from above; walk to the plus or to the cross, as told.

The agent (blue), a plus (green) and a cross (red) are on different cells, drawn at random. The camera gives 84x84x3.
A goal observation, one-hot of 2, says which of the two is wanted: plus, cross. One branch of 5: 0 stays, 1 goes up,
2 down, 3 left, 4 right; moves stop at the border. The wanted one gives 1, the other -1, both end the episode; after 100
steps it is interrupted. Best return: 1 (7 steps on average; a step costs nothing); walking at random earns about 0.

Environment parameter `mask_walls` (default 0): from 1 on, moves out of the field are masked.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, ImageSpec, Ints, ObservationSpec, Pixels
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

SIDE = 5
CELLS = SIDE * SIDE
PIXELS = 84
PLUS, CROSS = 0, 1
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.int64)  # rows, columns
EDGES = [PIXELS * cell // SIDE for cell in range(SIDE + 1)]
GROUND = np.array([[200, 200, 200], [216, 216, 216]], np.uint8)
BLUE, GREEN, RED = (30, 60, 220), (30, 160, 60), (210, 40, 40)
ONE_HOT = np.eye(2, dtype=np.float32)


def picture_number(agent: Ints, plus: Ints, cross: Ints) -> Ints:
    """The number of the picture with these three on these cells, all int64 (n,)."""
    return (agent * CELLS + plus) * CELLS + cross


def paint(number: int) -> Pixels:
    """The picture of that number: uint8 (84, 84, 3)."""
    rest, cross = divmod(number, CELLS)
    agent, plus = divmod(rest, CELLS)
    picture = EMPTY_FIELD.copy()
    for cell, shape, colour in ((plus, PLUS_SHAPE, GREEN), (cross, CROSS_SHAPE, RED), (agent, AGENT_SHAPE, BLUE)):
        top, left = EDGES[cell // SIDE], EDGES[cell % SIDE]
        picture[top : top + SPRITE, left : left + SPRITE][shape] = colour
    return picture


def _empty_field() -> Pixels:
    cell = np.searchsorted(EDGES, np.arange(PIXELS), side="right") - 1
    field: Pixels = GROUND[(cell[:, None] + cell[None, :]) % 2]
    return field


# A sprite is as large as the smallest cell.
SPRITE = PIXELS // SIDE
_AT = np.arange(SPRITE) - (SPRITE - 1) / 2
_DOWN, _RIGHT = np.abs(_AT)[:, None], np.abs(_AT)[None, :]
PLUS_SHAPE: Bools = ((_DOWN < 2) | (_RIGHT < 2)) & (_DOWN < 7) & (_RIGHT < 7)
CROSS_SHAPE: Bools = (np.abs(_AT[:, None] - _AT[None, :]) < 2.5) | (np.abs(_AT[:, None] + _AT[None, :]) < 2.5)
AGENT_SHAPE: Bools = (_DOWN < 6) & (_RIGHT < 6)
EMPTY_FIELD = _empty_field()


class GridWorld(SteadyWorld):
    """`cell`, `plus`, `cross` (int64, (agents,)): row * 5 + column of each; `wanted`: 0 plus, 1 cross."""

    spec = BehaviorSpec(
        "GridWorld",
        (ObservationSpec("VectorSensor_size2", 2, is_goal=True),),
        branches=(len(MOVES),),
        images=(ImageSpec("CameraSensor", PIXELS, PIXELS, paint),),
    )
    steps_max = 100
    defaults = MappingProxyType({"mask_walls": 0.0})

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.cell: Ints = np.zeros(agents, np.int64)
        self.plus: Ints = np.ones(agents, np.int64)
        self.cross: Ints = np.full(agents, 2, np.int64)
        self.wanted: Ints = np.zeros(agents, np.int64)
        self.walls_masked: Bools = np.zeros(agents, np.bool_)

    def begin(self, who: Ints) -> None:
        """Three different cells, and what is wanted."""
        drawn = uniforms(self.keys[who], 0, 4)
        # Each of the later two skips the cells that are taken, counted from the lowest.
        first = (drawn[:, 0] * CELLS).astype(np.int64)
        second = (drawn[:, 1] * (CELLS - 1)).astype(np.int64)
        second += second >= first
        third = (drawn[:, 2] * (CELLS - 2)).astype(np.int64)
        third += third >= np.minimum(first, second)
        third += third >= np.maximum(first, second)
        self.cell[who], self.plus[who], self.cross[who] = first, second, third
        self.wanted[who] = (drawn[:, 3] * 2).astype(np.int64)
        self.walls_masked[who] = self.parameters.episodes("mask_walls", self.keys[who]) >= 1.0

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """One move, and what is found there."""
        moves = MOVES[actions.discrete[:, 0]]
        row = within(self.cell // SIDE + moves[:, 0], 0, SIDE - 1)
        column = within(self.cell % SIDE + moves[:, 1], 0, SIDE - 1)
        self.cell = row * SIDE + column
        on_plus, on_cross = self.cell == self.plus, self.cell == self.cross
        right = np.where(self.wanted == PLUS, on_plus, on_cross)
        found = on_plus | on_cross
        return np.where(right, np.float32(1), -found.astype(np.float32)), found

    def observe(self) -> tuple[Floats, ...]:
        """What is wanted."""
        return (ONE_HOT[self.wanted],)

    def pictures(self) -> tuple[Ints, ...]:
        """The field from above."""
        return (picture_number(self.cell, self.plus, self.cross),)

    def mask(self) -> Bools | None:
        """Moves out of the field, where that is asked for."""
        if not self.walls_masked.any():
            return None
        row, column = self.cell // SIDE, self.cell % SIDE
        inside = np.zeros((self.agents, len(MOVES)), np.bool_)
        inside[:, 1:] = np.stack((row == 0, row == SIDE - 1, column == 0, column == SIDE - 1), axis=1)
        return inside & self.walls_masked[:, None]
