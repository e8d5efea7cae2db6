"""From a buffer to the arrays of one update: order, segments, padding and minibatches.

The rows are sorted by (brain, environment, incarnation, agent), each agent's in time, so the batch is a function of
the experience and not of how it arrived. A trajectory is cut into segments by its end, by `time_horizon`, and where
the policy version changes; a segment that was only cut is bootstrapped from the value of the observation that
follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Floats
from trainers.buffer import Array, End, TransitionBuffer
from trainers.sequences import SequenceRows, sequence_rows

Indices = npt.NDArray[np.int64]
SPARE_ROWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class SightRows:
    """Sights of a batch's rows, fetched when they are needed: the one copy of them all is the transition buffer's.

    kept: (n, ...) per sight, in that buffer's order; order: int64 (n,), which of them row i shows. tails: (t, ...) per
    sight, of the rows from n on. count: n + t, without sights too.
    """

    kept: tuple[Array, ...]
    tails: tuple[Array, ...]
    order: Indices
    count: int

    def fetch(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[Array, ...]:
        """The sights of rows (b,), one array (b, ...) each; zeros for rows below 0."""
        return tuple(self._fetch(kept, tails, rows) for kept, tails in zip(self.kept, self.tails, strict=True))

    def _fetch(self, kept: Array, tails: Array, rows: npt.NDArray[np.integer[Any]]) -> Array:
        n = len(self.order)
        found = np.zeros((len(rows), *kept.shape[1:]), kept.dtype)
        is_kept, is_tail = (rows >= 0) & (rows < n), rows >= n
        found[is_kept] = kept[self.order[rows[is_kept]]]
        found[is_tail] = tails[rows[is_tail] - n]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Sorted transitions, followed by the bare observations behind their ends, where those are known.

    count: transitions n. observations: float32 (n + t, V), the vectors. sights: of the same rows. next_rows: int32
    (n + t,), the row whose value follows a transition. continues: bool, its value counts (not TERMINAL).
    follows: bool, it shows what followed, behind a real end too. is_linked: bool, the next row belongs to the same
    segment. versions: int32 (n + t,), the policy version that acted. masks, continuous, discrete, rewards: 0 from row n
    on. sequences: of a recurrent policy.
    """

    count: int
    observations: Floats
    sights: SightRows
    masks: npt.NDArray[np.bool_]
    continuous: Floats
    discrete: npt.NDArray[np.int32]
    rewards: Floats
    versions: npt.NDArray[np.int32]
    next_rows: npt.NDArray[np.int32]
    continues: npt.NDArray[np.bool_]
    follows: npt.NDArray[np.bool_]
    is_linked: npt.NDArray[np.bool_]
    sequences: SequenceRows | None = None

    def __len__(self) -> int:
        return len(self.observations)


def batch_of(buffer: TransitionBuffer, wires: Sequence[str], time_horizon: int) -> Batch:
    """The batch of all rows in `buffer`, whose open trajectories were cut. wires: brain names by number."""
    columns, order = buffer.columns(), sorted_rows(buffer, wires)
    rows = {name: column[order] for name, column in columns.items()}
    n = len(order)
    links = segment_links(rows, time_horizon)
    bootstraps = rows["bootstraps"].astype(np.int64)
    has_tail = bootstraps >= 0
    vector_tails, *sight_tails = (each[bootstraps[has_tail]] for each in buffer.tails())
    next_rows = np.minimum(np.arange(1, n + 1), n - 1)
    next_rows[has_tail] = n + np.arange(len(vector_tails))

    def padded(column: Array, dtype: type[np.generic]) -> Array:
        return np.concatenate([column, np.zeros((len(vector_tails), *column.shape[1:]), column.dtype)]).astype(dtype)

    return Batch(
        count=n,
        observations=np.concatenate([rows["observations"], vector_tails]).astype(np.float32),
        sights=SightRows(buffer.observations()[1:], tuple(sight_tails), order, n + len(vector_tails)),
        masks=padded(rows["masks"], np.bool_).astype(np.bool_),
        continuous=padded(rows["continuous"], np.float32).astype(np.float32),
        discrete=padded(rows["discrete"], np.int32).astype(np.int32),
        rewards=padded(rows["rewards"], np.float32).astype(np.float32),
        versions=np.concatenate([rows["version"], rows["version"][has_tail]]).astype(np.int32),
        next_rows=padded(next_rows, np.int32).astype(np.int32),
        continues=padded(rows["ends"] != End.TERMINAL, np.bool_).astype(np.bool_),
        follows=padded(_follows(rows["ends"], has_tail), np.bool_).astype(np.bool_),
        is_linked=padded(links, np.bool_).astype(np.bool_),
        sequences=_sequences(buffer, rows, np.where(has_tail, next_rows, -1)) if buffer.shape.memory_size else None,
    )


def _follows(ends: Array, has_tail: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (ends == End.NONE) | (has_tail & (ends != End.LAST_SEEN))
    return found


def _sequences(buffer: TransitionBuffer, rows: Mapping[str, Array], tails: Indices) -> SequenceRows:
    return sequence_rows(
        runs=segment_links(rows, None),
        starts=rows["starts"].astype(np.bool_),
        memory=rows["memory"],
        memories=buffer.memories(),
        tails=tails,
    )


def sorted_rows(buffer: TransitionBuffer, wires: Sequence[str]) -> Indices:
    """Row numbers of `buffer` by (brain name, environment, incarnation, agent), in order of arrival for each agent."""
    columns = buffer.columns()
    ranks = np.argsort(np.argsort(np.asarray(wires, dtype=np.str_), kind="stable"), kind="stable")
    wire = ranks[columns["wire"].astype(np.int64)] if len(wires) else columns["wire"]
    return np.lexsort((columns["agent"], columns["incarnation"], columns["env"], wire))


def segment_links(rows: Mapping[str, Array], time_horizon: int | None) -> npt.NDArray[np.bool_]:
    """bool (n,): True where the next row of the sorted columns is the next of the same segment.

    time_horizon: None for segments of any length.
    """
    n = len(rows["agent"])
    if n == 0:
        return np.zeros(0, np.bool_)
    same = np.ones(n, np.bool_)
    same[-1] = False
    for name in ("wire", "env", "incarnation", "agent", "version"):
        same[:-1] &= rows[name][1:] == rows[name][:-1]
    same &= rows["ends"] == End.NONE
    if time_horizon is None:
        return same
    starts = np.concatenate([[True], ~same[:-1]])
    numbers = np.arange(n)
    position = numbers - np.maximum.accumulate(np.where(starts, numbers, 0))
    same &= position % time_horizon != time_horizon - 1
    return same


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Fixed sizes of a compiled update: rows of a batch, rows of a minibatch, passes over the batch.

    sequence_length: of a recurrent policy, whose minibatches are lanes of so many rows; else 0.
    """

    rows: int
    batch_size: int
    epochs: int
    sequence_length: int = 0

    @property
    def lanes(self) -> int:
        """Lanes of a minibatch, of a recurrent policy."""
        return max(self.batch_size // self.sequence_length, 1)

    @property
    def minibatch_rows(self) -> int:
        """Rows of a minibatch."""
        return self.lanes * self.sequence_length if self.sequence_length else self.batch_size

    @property
    def chunks_max(self) -> int:
        """Minibatches of one pass at most.

        Lanes are more than half full, but for the last one; and sequences may be half as long as that again, before
        minibatches hold more of them than lanes.
        """
        if self.sequence_length:
            return -(-(4 * self.rows // self.sequence_length + 4) // self.lanes)
        return -(-self.rows // self.batch_size)

    @property
    def minibatches_max(self) -> int:
        """Minibatches of an update at most."""
        return self.epochs * self.chunks_max


def capacity_for(
    *, rows: int, buffer_size: int, batch_size: int, epochs: int, sequence_length: int = 0, is_async: bool = False
) -> Capacity:
    """Room for `rows`, with as few different sizes as possible: each new one costs a compilation.

    The first size has a quarter of `buffer_size` to spare, for what a round brings beyond it and for bootstrapping
    rows, and holds two buffers where agents act on meanwhile (is_async); each further one is half as large again.
    """
    size = (2 if is_async else 1) * buffer_size + buffer_size // 4 + SPARE_ROWS
    while size < rows:
        size += size // 2
    return Capacity(rows=size, batch_size=min(batch_size, buffer_size), epochs=epochs, sequence_length=sequence_length)


def largest_buffer(rows: int, *, is_async: bool = False) -> int:
    """The largest buffer_size whose first capacity is no more than `rows`; 0 when there is none."""
    return max((4 * (rows - SPARE_ROWS) + 3) // (9 if is_async else 5), 0)


def minibatch_rows(count: int, capacity: Capacity, rng: np.random.Generator) -> tuple[npt.NDArray[np.int32], int]:
    """int32 (minibatches_max, batch_size) row numbers, -1 where there is none, and the number of minibatches in use.

    Each pass shuffles the rows and deals them into as few minibatches as hold them, equal in size but for one row: a
    short last one would weigh its few rows as much as all others.
    """
    table = np.full((capacity.minibatches_max, capacity.batch_size), -1, np.int32)
    parts = -(-count // capacity.batch_size)
    used = 0
    for _ in range(capacity.epochs):
        for part in np.array_split(rng.permutation(count), parts) if parts else []:
            table[used, : len(part)] = part
            used += 1
    return table, used
