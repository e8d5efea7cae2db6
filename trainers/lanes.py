"""How training sequences lie side by side: packed one behind the other into lanes of equal length.

So short sequences need no padding of their own: any two lanes that follow each other hold more than one lane's worth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from runtime.errors import InternalError
from trainers.batches import Capacity
from trainers.buffer import Array
from trainers.sequences import SequenceRows

Indices = npt.NDArray[np.int64]


def packed(rows: SequenceRows, order: Indices, *, steps: int, with_tails: bool) -> npt.NDArray[np.int32]:
    """int32 (lanes, steps): the rows of the sequences in `order`, -1 where a lane is not full.

    with_tails: each sequence is followed by its tail. Raises InternalError for a sequence longer than a lane.
    """
    first, length = rows.first[order], rows.length[order]
    has_tail = (rows.tail[order] >= 0) & with_tails
    sizes = length + has_tail
    if len(sizes) and int(sizes.max()) > steps:
        raise InternalError(
            f"a training sequence of {int(sizes.max())} rows does not fit into lanes of {steps}; expected the worker "
            "to start a new one before. Report this as a bug.",
        )
    places, lanes = _next_fit(sizes.tolist(), steps)
    table = np.full(lanes * steps, -1, np.int32)
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    table[np.repeat(places, length) + within] = np.repeat(first, length) + within
    table[(places + length)[has_tail]] = rows.tail[order][has_tail]
    return table.reshape(lanes, steps)


def _next_fit(sizes: list[int], steps: int) -> tuple[Indices, int]:
    """Where each sequence lies in the lanes laid end to end, and how many lanes that takes."""
    places, end = [], 0
    for size in sizes:
        room = -end % steps
        if size > room:
            end += room
        places.append(end)
        end += size
    return np.array(places, np.int64), -(-end // steps)


def lane_minibatches(
    rows: SequenceRows, capacity: Capacity, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], int]:
    """int32 (minibatches_max, minibatch_rows) row numbers, -1 where there is none, and the minibatches in use.

    Each pass shuffles the sequences, packs them, and deals the lanes into minibatches of equal size. There are as many
    as if each held `capacity.lanes` sequences, which is what `batch_size` means to ML-Agents: short sequences make
    minibatches of fewer rows, and not fewer steps down the gradient.
    """
    table = np.full((capacity.minibatches_max, capacity.minibatch_rows), -1, np.int32)
    wanted = min(-(-len(rows.first) // capacity.lanes), capacity.chunks_max)
    used = 0
    for _ in range(capacity.epochs):
        order = rng.permutation(len(rows.first))
        lanes = packed(rows, order, steps=capacity.sequence_length, with_tails=False)
        parts = min(max(-(-len(lanes) // capacity.lanes), wanted), max(len(lanes), 1))
        for part in np.array_split(lanes, parts) if parts else []:
            table[used, : part.size] = part.ravel()
            used += 1
    return table, used


def acted_lanes(rows: SequenceRows, capacity: Capacity) -> dict[str, Array]:
    """All rows and tails once, as inputs of an update.

    acted_lanes: int32 (chunks, lanes * (sequence_length + 1)); acted_chunks: how many are in use; acted_places: int32
    (rows,), where each row lies among all of them.
    """
    steps = capacity.sequence_length + 1
    lanes = packed(rows, np.arange(len(rows.first)), steps=steps, with_tails=True)
    table = np.full((capacity.chunks_max, capacity.lanes * steps), -1, np.int32)
    table.reshape(-1)[: lanes.size] = lanes.ravel()
    places = np.zeros(capacity.rows, np.int32)
    found = np.flatnonzero(table.reshape(-1) >= 0)
    places[table.reshape(-1)[found]] = found
    return {
        "acted_lanes": table,
        "acted_chunks": np.asarray(-(-len(lanes) // capacity.lanes), np.int32),
        "acted_places": places,
    }
