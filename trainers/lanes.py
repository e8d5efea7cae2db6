"""How training sequences lie side by side: packed one behind the other into lanes of equal length.

So short sequences need no padding of their own: any two lanes that follow each other hold more than one lane's worth.
"""

from __future__ import annotations

from heapq import heapreplace

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
    length = rows.length[order]
    has_tail = (rows.tail[order] >= 0) & with_tails
    sizes = length + has_tail
    places, lanes = _next_fit(sizes.tolist(), steps)
    table = _filled(rows, order, places, lanes * steps)
    table[(places + length)[has_tail]] = rows.tail[order][has_tail]
    return table.reshape(lanes, steps)


def _filled(rows: SequenceRows, sequences: Indices, places: Indices, size: int) -> npt.NDArray[np.int32]:
    """int32 (size,): the rows of `sequences` from their places on, -1 elsewhere."""
    first, length = rows.first[sequences], rows.length[sequences]
    table = np.full(size, -1, np.int32)
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    table[np.repeat(places, length) + within] = np.repeat(first, length) + within
    return table


def _next_fit(sizes: list[int], steps: int) -> tuple[Indices, int]:
    """Where each sequence lies in the lanes laid end to end, and how many lanes that takes. Raises InternalError."""
    if max(sizes, default=0) > steps:
        raise InternalError(
            f"a training sequence of {max(sizes)} rows does not fit into lanes of {steps}; expected the worker "
            "to start a new one before. Report this as a bug.",
        )
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
        places, lanes = _next_fit(rows.length[order].tolist(), capacity.sequence_length)
        parts = min(max(-(-lanes // capacity.lanes), wanted), max(lanes, 1))
        for part in np.array_split(np.arange(lanes), parts) if lanes else []:
            start, end = part[0] * capacity.sequence_length, (part[-1] + 1) * capacity.sequence_length
            own = (places >= start) & (places < end)
            table[used] = _spread(rows, order[own], places[own] - start, capacity)
            used += 1
    return table, used


def _spread(rows: SequenceRows, sequences: Indices, places: Indices, capacity: Capacity) -> npt.NDArray[np.int32]:
    """int32 (minibatch_rows,): sequences over all lanes, the longest first, each into the one that holds least.

    A minibatch takes as long as its longest lane. `places`, where they fit for certain, where that is longer.
    """
    steps, lengths = capacity.sequence_length, rows.length[sequences].tolist()
    lanes = [(0, lane) for lane in range(capacity.lanes)]
    spread = places.copy()
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        held, lane = lanes[0]
        spread[number] = lane * steps + held
        heapreplace(lanes, (held + lengths[number], lane))
    fits = max(held for held, _ in lanes) <= steps
    return _filled(rows, sequences, spread if fits else places, capacity.minibatch_rows)


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
