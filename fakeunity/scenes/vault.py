"""`vault`: three rooms in a row; a lever opens the first door, a key the second, and only the chest behind both pays.

Each room has 5 by 5 cells, so there are 5 rows and 15 columns, counted from 0; walls stand between columns 4 and 5 and
between 9 and 10, with a door in row 2. The agent starts anywhere in the first room but where the lever is. One branch
of 5: 0 stays, 1 goes up, 2 down, 3 left, 4 right; moves stop at walls, the border and closed doors. The lever is in row
0 of column 0, the key in row 4 of column 9; who reaches their cells has pulled and taken them, for the rest of the
episode. The chest is in row 0 of column 14: it gives 1 and ends the episode; after 80 steps it is interrupted. Best
return: 1 (26 steps on average; a step costs nothing). The agent sees its row (one-hot of 5), its column (one-hot of
15), and whether it has pulled the lever and taken the key.

Of 100,000 episodes that act at random one reaches the chest: a reward for it alone teaches nothing.
"""

from __future__ import annotations

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

SIDE = 5
COLUMNS = 3 * SIDE
DOOR_ROW = 2
LEVER, KEY, CHEST = (0, 0), (4, 9), (0, 14)
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.int64)  # rows, columns
ROW_ONE_HOT = np.eye(SIDE, dtype=np.float32)
COLUMN_ONE_HOT = np.eye(COLUMNS, dtype=np.float32)
SEEN = SIDE + COLUMNS + 2


class Vault(SteadyWorld):
    """`row`, `column` (int64, (agents,)), `has_lever`, `has_key` (bool): what each agent has pulled and taken."""

    spec = BehaviorSpec("Vault", (ObservationSpec(f"VectorSensor_size{SEEN}", SEEN),), branches=(len(MOVES),))
    steps_max = 80

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.row: Ints = np.full(agents, SIDE - 1, np.int64)
        self.column: Ints = np.zeros(agents, np.int64)
        self.has_lever: Bools = np.zeros(agents, np.bool_)
        self.has_key: Bools = np.zeros(agents, np.bool_)

    def begin(self, who: Ints) -> None:
        """Somewhere in the first room, all doors closed."""
        cell = 1 + (uniforms(self.keys[who], 0, 1)[:, 0] * (SIDE * SIDE - 1)).astype(np.int64)
        self.row[who], self.column[who] = cell // SIDE, cell % SIDE
        self.has_lever[who] = self.has_key[who] = False

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """One move, and what is found there."""
        moves = MOVES[actions.discrete[:, 0]]
        column = within(self.column + moves[:, 1], 0, COLUMNS - 1)
        wall = np.minimum(self.column, column) // SIDE
        is_open = (self.row == DOOR_ROW) & np.where(wall == 0, self.has_lever, self.has_key)
        is_stopped = (self.column // SIDE != column // SIDE) & ~is_open
        self.column = np.where(is_stopped, self.column, column)
        self.row = within(self.row + moves[:, 0], 0, SIDE - 1)
        self.has_lever |= self._is_at(LEVER)
        self.has_key |= self._is_at(KEY)
        arrived = self._is_at(CHEST)
        return arrived.astype(np.float32), arrived

    def observe(self) -> tuple[Floats, ...]:
        """Where it is, and what it has."""
        had = np.stack((self.has_lever, self.has_key), axis=1).astype(np.float32)
        return (np.concatenate((ROW_ONE_HOT[self.row], COLUMN_ONE_HOT[self.column], had), axis=1),)

    def _is_at(self, place: tuple[int, int]) -> Bools:
        found: Bools = (self.row == place[0]) & (self.column == place[1])
        return found
