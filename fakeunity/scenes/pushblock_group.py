"""`pushblock_group`: a block that no member of a group can move alone, and a reward that only the group gets.

Agents come in groups of three (the last group has who is left over). Each group has a track of 8 cells; its block
stands at cell 4 and belongs at cell 7. A member walks in a lane of its own, starting at a random cell from 0 to 3. One
branch of 3: 0 stays, 1 goes left, 2 goes right; cell 0 is the left end, and nobody passes the block. The block moves
one cell right when two members (all, of a smaller group) that stand right behind it go right in the same step; all
members that do so move along. Each member sees its cell (one-hot of 8), the block's (one-hot of 8) and how many of the
other members stand right behind the block, / 2.

When the block is at cell 7 the group gets 1 and everybody's episode ends; after 40 steps it is interrupted. Members get
no reward of their own. Best return: 1 (of the group, which each member's account shares); a step costs nothing. Walking
at random earns about half of that.
"""

from __future__ import annotations

import numpy as np

from fakeunity.bounds import within
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

GROUP = 3
CELLS = 8
BLOCK_START = 4
PUSHERS = 2
MOVES = np.array([0, -1, 1], np.int64)
ONE_HOT = np.eye(CELLS, dtype=np.float32)
SEEN = 2 * CELLS + 1


class PushBlockGroup(SteadyWorld):
    """`cell` (int64, (agents,)), `block` (int64, (groups,)); agent n is of group n // 3, and the wire counts from 1."""

    spec = BehaviorSpec("PushBlockGroup", (ObservationSpec(f"VectorSensor_size{SEEN}", SEEN),), branches=(3,))
    steps_max = 40

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.group: Ints = np.arange(agents, dtype=np.int64) // GROUP
        self.needed: Ints = np.minimum(PUSHERS, np.bincount(self.group)).astype(np.int64)
        self.cell: Ints = np.zeros(agents, np.int64)
        self.block: Ints = np.full(len(self.needed), BLOCK_START, np.int64)
        self._given: Floats = np.zeros(agents, np.float32)

    def begin(self, who: Ints) -> None:
        """Random cells behind the block; a group always begins together."""
        self.cell[who] = (uniforms(self.keys[who], 0, 1)[:, 0] * BLOCK_START).astype(np.int64)
        self.block[self.group[who]] = BLOCK_START
        self._given[who] = 0.0

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Everybody walks, and enough of them push."""
        move = MOVES[actions.discrete[:, 0]]
        pushes = (self._behind() == 0) & (move == 1)
        moves_on = np.bincount(self.group[pushes], minlength=len(self.block)) >= self.needed
        self.block += moves_on
        self.cell = within(self.cell + move, 0, self.block[self.group] - 1)
        arrived = (self.block == CELLS - 1)[self.group]
        self._given = arrived.astype(np.float32)
        return np.zeros(self.agents, np.float32), arrived

    def observe(self) -> tuple[Floats, ...]:
        """Own cell, the block's, and how many others are ready."""
        is_ready = self._behind() == 0
        ready = np.bincount(self.group[is_ready], minlength=len(self.block))[self.group] - is_ready
        others = (ready / (GROUP - 1)).astype(np.float32)[:, None]
        return (np.concatenate((ONE_HOT[self.cell], ONE_HOT[self.block[self.group]], others), axis=1),)

    def groups(self) -> tuple[Ints, Floats]:
        """Everybody's group and what it was given."""
        return self.group + 1, self._given.copy()

    def _behind(self) -> Ints:
        """How many cells are between each member and its block."""
        return self.block[self.group] - 1 - self.cell
