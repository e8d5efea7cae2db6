"""What agents remember between two acts of a policy with memory, and where their training sequences start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from runtime.experience.brains import Bools, BrainInfo, Floats, Ids, Ints

SILENT_AGENTS_MAX = 10_000
"""Agents known beside those that act; beyond so many they are forgotten, as if their episodes had ended."""
_SLOTS_AT_FIRST = 16


class Remembered(NamedTuple):
    """Of n agents: before float32 (n, w), what each remembers; starts bool (n,), a training sequence starts now."""

    before: Floats
    starts: Bools


class AgentMemories:
    """The memories of all agents of one incarnation of one environment.

    A memory is zero after an agent's episode has ended; it survives new versions of the policy. A training sequence
    starts with an episode, with another version, and when the one before is `sequence_length` steps long.
    """

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def clear(self) -> None:
        """Forgets everything, as a reset demands."""
        self._tables.clear()

    def recall(self, brain: str, info: BrainInfo, *, version: int, size: int, sequence_length: int) -> Remembered:
        """What the agents that ask for a decision remember, after all episodes that ended in this reply are forgotten.

        To be called once for each reply, and followed by `remember`.
        """
        table = self._tables.get(brain)
        if table is None:
            table = self._tables[brain] = _Table(size)
        table.forget(info.terminals.agents)
        return table.recall(info.decisions.agents, version, sequence_length)

    def remember(self, brain: str, agents: Ids, after: Floats) -> None:
        """Keeps what the agents of the latest `recall` remember from now on: float32 (n, w)."""
        self._tables[brain].remember(agents, after)


def given_memories(info: BrainInfo, size: int) -> Remembered:
    """The memories that stand in `info`, or zeros where it has none of that size."""
    rows = len(info.decisions)
    before = info.memories if info.memories.shape == (rows, size) else np.zeros((rows, size), np.float32)
    return Remembered(np.asarray(before, np.float32), np.ones(rows, np.bool_))


class _Table:
    """Memories of one brain's agents in slots. steps: of the sequence under way; versions: of the latest act."""

    def __init__(self, size: int) -> None:
        self._slots: dict[int, int] = {}
        self._free = list(range(_SLOTS_AT_FIRST))
        self._memory = np.zeros((_SLOTS_AT_FIRST, size), np.float32)
        self._steps = np.zeros(_SLOTS_AT_FIRST, np.int32)
        self._versions = np.zeros(_SLOTS_AT_FIRST, np.int64)

    def recall(self, agents: Ids, version: int, sequence_length: int) -> Remembered:
        if len(self._slots) > SILENT_AGENTS_MAX + len(agents):
            self.forget(np.setdiff1d(np.fromiter(self._slots, np.int64), agents))
        slots = self._slots_of(agents)
        steps = self._steps[slots]
        starts: Bools = (steps == 0) | (steps >= sequence_length) | (self._versions[slots] != version)
        self._steps[slots] = np.where(starts, 0, steps) + 1
        self._versions[slots] = version
        return Remembered(self._memory[slots], starts)

    def remember(self, agents: Ids, after: Floats) -> None:
        self._memory[self._slots_of(agents)] = after

    def forget(self, agents: Ids) -> None:
        for agent in agents.tolist():
            slot = self._slots.pop(agent, None)
            if slot is not None:
                self._memory[slot] = 0.0
                self._steps[slot] = 0
                self._free.append(slot)

    def _slots_of(self, agents: Ids) -> Ints:
        slots = np.empty(len(agents), np.int32)
        for row, agent in enumerate(agents.tolist()):
            slot = self._slots.get(agent)
            if slot is None:
                slot = self._slots[agent] = self._free.pop() if self._free else self._grown()
            slots[row] = slot
        return slots

    def _grown(self) -> int:
        count = len(self._memory)
        self._memory = np.concatenate([self._memory, np.zeros_like(self._memory)])
        self._steps = np.concatenate([self._steps, np.zeros_like(self._steps)])
        self._versions = np.concatenate([self._versions, np.zeros_like(self._versions)])
        self._free += range(count + 1, 2 * count)
        return count
