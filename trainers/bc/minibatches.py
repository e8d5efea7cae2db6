"""Which samples an update learns from, in which order: whole passes, or a number of minibatches.

With memory, samples are dealt as training sequences in lanes (`trainers.lanes`). A sequence begins with an episode, and
again after `sequence_length` samples; there nobody knows what was remembered, and it begins with an empty memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trainers.batches import Capacity, minibatch_rows
from trainers.lanes import lane_minibatches
from trainers.sequences import SequenceRows

Numbers = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


def sequence_starts(begins: Bools, sequence_length: int) -> Bools:
    """bool (n,): where a training sequence starts. sequence_length: 0 without memory, where every row is by itself."""
    if not sequence_length:
        return np.ones(len(begins), np.bool_)
    numbers = np.arange(len(begins))
    first = np.maximum.accumulate(np.where(begins, numbers, 0))
    starts: Bools = (numbers - first) % sequence_length == 0
    return starts


def minibatches_of(
    starts: Bools,
    capacity: Capacity,
    *,
    samples_max: int,
    rng: np.random.Generator,
) -> Iterator[Numbers]:
    """int32 (minibatch_rows,) numbers of samples, -1 where there is none, for `capacity.epochs` passes.

    starts: where sequences start. capacity: its rows do not count. samples_max: so many samples, drawn for this
    update, are learned from; 0 = all. With memory whole sequences are drawn, until there are as many samples.
    """
    first = np.flatnonzero(starts)
    length = np.diff(np.append(first, len(starts)))
    if samples_max and samples_max < len(starts):
        drawn = rng.permutation(len(first))
        needed = int(np.searchsorted(np.cumsum(length[drawn]), samples_max)) + 1
        first, length = first[drawn[:needed]], length[drawn[:needed]]
    held = Capacity(
        rows=int(length.sum()),
        batch_size=capacity.batch_size,
        epochs=capacity.epochs,
        sequence_length=capacity.sequence_length,
    )
    if capacity.sequence_length:
        table, used = lane_minibatches(_sequences(first, length), held, rng)
    else:
        table, used = minibatch_rows(held.rows, held, rng)
        table = np.where(table >= 0, first[table], -1).astype(np.int32)
    yield from table[:used]


def _sequences(first: Indices, length: Indices) -> SequenceRows:
    nothing = np.zeros((0, 0), np.float32)
    return SequenceRows(nothing, np.zeros(0, np.bool_), first, length, np.full(len(first), -1, np.int64))
