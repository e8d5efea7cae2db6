"""Training sequences of a recurrent policy: where they start, and what was remembered there.

A sequence is a run of rows of one agent, in one episode, under one policy version, at most `sequence_length` long. It
starts with what the agent remembered when it acted; nothing before it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runtime.errors import InternalError
from runtime.experience.brains import Floats, Ints
from runtime.experience.columns import ActionMemories
from trainers.buffer import Array, TransitionBuffer

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


class Sent(NamedTuple):
    """An action under way: its numbers, the version that chose it, and, where they are known, what was remembered."""

    continuous: Floats
    discrete: Ints
    version: int
    memory: Floats | None
    starts: bool


@dataclass(frozen=True, slots=True, eq=False)
class SequenceRows:
    """The sequences of a batch of n rows and t tails. memories: float32 (n + t, w), 0 but where one starts.

    starts: bool (n + t,). first, length: int64 (s,), the rows of each. tail: int64 (s,), the row whose observation
    bootstraps its end, or -1.
    """

    memories: Floats
    starts: Bools
    first: Indices
    length: Indices
    tail: Indices


def memory_columns(
    memories: ActionMemories | None,
    actions: Array,
    carried: Sequence[Sent],
    buffer: TransitionBuffer,
) -> dict[str, Array]:
    """Columns `memory` and `starts` of transitions; their memories go into `buffer`.

    actions: numbers of the block's own actions; -1, -2, ... are those of `carried`.
    """
    own, starts = np.zeros(0, np.int32), np.zeros(0, np.bool_)
    if memories is not None:
        starts = memories.starts
        own = np.full(len(starts), -1, np.int32)
        own[memories.actions] = buffer.remember(memories.before) + np.arange(len(memories.actions))
    numbers = [-1 if each.memory is None else buffer.remember(each.memory[None]) for each in carried]
    # As elsewhere: negative numbers count from the end, so what is carried is laid there in reverse.
    places = actions.astype(np.int64)
    return {
        "memory": np.concatenate([own, np.array(numbers[::-1], np.int32)])[places],
        "starts": np.concatenate([starts, np.array([each.starts for each in carried[::-1]], np.bool_)])[places],
    }


def sent(memories: ActionMemories | None, number: int) -> tuple[Floats | None, bool]:
    """What was remembered before an action of a block, None when it is not known, and whether a sequence starts."""
    if memories is None:
        return None, False
    place = int(np.searchsorted(memories.actions, number))
    is_known = place < len(memories.actions) and int(memories.actions[place]) == number
    return memories.before[place].copy() if is_known else None, bool(memories.starts[number])


def sequence_rows(
    *,
    runs: Bools,
    starts: Bools,
    memory: Array,
    memories: Floats,
    tails: Indices,
) -> SequenceRows:
    """The sequences of n sorted rows.

    runs: bool (n,), the next row goes on with the same agent, episode and version. starts: bool (n,), as the worker
    said. memory: (n,), the row of memories (m, w) that was remembered before, or -1. tails: int64 (n,), or -1. Raises
    InternalError for a start whose memory is not known.
    """
    n, tail_count = len(runs), int((tails >= 0).sum())
    is_start = np.ones(n, np.bool_)
    is_start[1:] = ~runs[:-1] | starts[1:]
    first = np.flatnonzero(is_start)
    numbers = memory[first].astype(np.int64)
    if (numbers < 0).any():
        raise InternalError(
            f"{int((numbers < 0).sum())} of {len(first)} training sequences start where no memory is known; expected "
            "one with the first actions of each block. Report this as a bug.",
        )
    length = np.diff(np.append(first, n))
    table = np.zeros((n + tail_count, memories.shape[1]), np.float32)
    table[first] = memories[numbers]
    return SequenceRows(
        memories=table,
        starts=np.append(is_start, np.zeros(tail_count, np.bool_)),
        first=first,
        length=length,
        tail=tails[first + length - 1],
    )
