"""Closed transitions of one behavior, as growing columns; images stay in the dtype in which they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Floats
from trainers.networks import NetworkShape

Array = npt.NDArray[np.generic]
Observations = tuple[Array, ...]
"""Of n rows: float32 (n, V), all vectors side by side, then each sight (image or buffer) as announced, (n, ...)."""
ROWS_AT_FIRST = 256
CHANGING = frozenset({"rewards", "ends", "bootstraps"})
"""Columns whose rows may change after they were written; all others only grow, so that copies may share them."""


class End(IntEnum):
    """What follows a transition: NONE the next one of its agent, TERMINAL nothing, CUT a bootstrapped value.

    LAST_SEEN is a CUT whose next observation never came: the last one that was seen stands in for it.
    """

    NONE = 0
    TERMINAL = 1
    CUT = 2
    LAST_SEEN = 3


def named_parts(observations: Observations) -> dict[str, Array]:
    """Each part of `observations` by the name of its column."""
    return {f"sight.{part - 1}" if part else "observations": rows for part, rows in enumerate(observations)}


def part_types(shape: NetworkShape) -> tuple[tuple[np.dtype[np.generic], tuple[int, ...]], ...]:
    """Dtype and shape of one row of each part of `Observations`."""
    sights = zip(shape.sight_types, shape.sights, strict=True)
    return (
        (np.dtype(np.float32), (shape.vector_size,)),
        *((np.dtype(kind), shape.observations[index]) for kind, index in sights),
    )


def _column_types(shape: NetworkShape) -> dict[str, tuple[npt.DTypeLike, tuple[int, ...]]]:
    return {
        "wire": (np.int32, ()),
        "env": (np.int32, ()),
        "incarnation": (np.int32, ()),
        "agent": (np.int64, ()),
        "version": (np.int32, ()),
        "observations": part_types(shape)[0],
        **{f"sight.{place}": each for place, each in enumerate(part_types(shape)[1:])},
        "masks": (np.bool_, (shape.mask_size,)),
        "continuous": (np.float32, (shape.continuous_size,)),
        "discrete": (np.int32, (len(shape.branches),)),
        "rewards": (np.float32, ()),
        "ends": (np.uint8, ()),
        "bootstraps": (np.int32, ()),
        **({"memory": (np.int32, ()), "starts": (np.bool_, ())} if shape.memory_size else {}),
    }


class TransitionBuffer:
    """Rows of (observations, mask, action, reward, end) with the trajectory they belong to, in order of arrival.

    `bootstraps` is the row of `tails` that holds the observations after a CUT row, or after a TERMINAL one where a
    reward signal needs them, else -1. With a recurrent policy
    `memory` is the row of `memories` that was remembered before, -1 where it is not known, and `starts` is True where a
    training sequence starts.
    """

    def __init__(self, shape: NetworkShape, *, rows: int = ROWS_AT_FIRST) -> None:
        """rows: room once there is a row. What was not written to costs no memory; growing takes both sizes at once."""
        self._shape = shape
        self._rows_at_first = rows
        self._columns: dict[str, Array] = {
            name: np.zeros((0, *dimensions), dtype) for name, (dtype, dimensions) in _column_types(shape).items()
        }
        self._tails: list[Observations] = []
        self._memories: list[Floats] = []
        self._length = self._remembered = 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Mapping[str, Array], count: int) -> None:
        """Takes `count` rows: every column but `bootstraps`, arrays of that length or one value for all."""
        needed = self._length + count
        if needed > len(self._columns["agent"]):
            self._grow(needed)
        window = slice(self._length, needed)
        for name, values in rows.items():
            self._columns[name][window] = values
        self._columns["bootstraps"][window] = -1
        self._length = needed

    @property
    def shape(self) -> NetworkShape:
        """Of the network whose experience it is."""
        return self._shape

    def remember(self, rows: Floats) -> int:
        """Keeps memories (k, w) and gives the number of the first."""
        first = self._remembered
        self._memories.append(rows)
        self._remembered += len(rows)
        return first

    def memories(self) -> Floats:
        """float32 (m, w): all memories kept."""
        return np.concatenate([np.zeros((0, self._shape.memory_width), np.float32), *self._memories])

    def end(self, row: int, kind: End, observations: Observations | None) -> None:
        """Marks a row as the last of its trajectory; `observations`, one row of each part, follow it.

        Behind a real end there may be none, or they are of no use to anyone.
        """
        self._columns["ends"][row] = kind
        assert observations is not None or kind is End.TERMINAL
        if observations is not None:
            self._columns["bootstraps"][row] = len(self._tails)
            self._tails.append(observations)

    def is_open(self, row: int) -> bool:
        """True when nothing has ended the trajectory at this row."""
        return bool(self._columns["ends"][row] == End.NONE)

    def add_reward(self, row: int, reward: float) -> None:
        """Adds a reward that came after the row was closed."""
        self._columns["rewards"][row] += np.float32(reward)

    def columns(self) -> dict[str, Array]:
        """All columns but the sights, cut to the rows in use (views)."""
        return {name: column[: self._length] for name, column in self._columns.items() if not name.startswith("sight.")}

    def observations(self) -> Observations:
        """What the transitions began with (views)."""
        sights = [self._columns[f"sight.{place}"] for place in range(len(self._shape.sights))]
        return tuple(each[: self._length] for each in (self._columns["observations"], *sights))

    def tails(self) -> Observations:
        """The t observations that follow the ends of trajectories."""
        return tuple(
            np.stack([each[part] for each in self._tails]) if self._tails else np.zeros((0, *dimensions), dtype)
            for part, (dtype, dimensions) in enumerate(part_types(self._shape))
        )

    def copy(self) -> TransitionBuffer:
        """An independent copy."""
        twin = object.__new__(TransitionBuffer)
        twin._shape, twin._rows_at_first = self._shape, self._rows_at_first
        twin._columns = {
            name: column[: self._length].copy() if name in CHANGING else column[: self._length]
            for name, column in self._columns.items()
        }
        twin._tails = list(self._tails)
        twin._memories = list(self._memories)
        twin._length, twin._remembered = self._length, self._remembered
        return twin

    def extend(self, other: TransitionBuffer) -> None:
        """Appends the rows and tails of `other`."""
        start, shift = self._length, len(self._tails)
        self.append(
            {name: column[: len(other)] for name, column in other._columns.items() if name != "bootstraps"},
            len(other),
        )
        moved = other.columns()["bootstraps"].astype(np.int64)
        self._columns["bootstraps"][start : self._length] = np.where(moved >= 0, moved + shift, -1)
        self._tails.extend(other._tails)
        if self._shape.memory_size:
            known = other.columns()["memory"].astype(np.int64)
            self._columns["memory"][start : self._length] = np.where(known >= 0, known + self._remembered, -1)
            self.remember(other.memories())

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Name and content of every array, for a checkpoint."""
        yield from self.columns().items()
        vectors, *sights = self.tails()
        yield "tails", vectors
        for place, (rows, tails) in enumerate(zip(self.observations()[1:], sights, strict=True)):
            yield f"sight.{place}", rows
            yield f"tails.sight.{place}", tails
        if self._shape.memory_size:
            yield "memories", self.memories()

    @staticmethod
    def restored(shape: NetworkShape, arrays: Mapping[str, Array], *, rows: int = ROWS_AT_FIRST) -> TransitionBuffer:
        """The buffer whose `arrays()` these were."""
        count = len(arrays["agent"])
        buffer = TransitionBuffer(shape, rows=max(rows, count))
        buffer.append({name: arrays[name] for name in _column_types(shape) if name != "bootstraps"}, count)
        buffer._columns["bootstraps"][:count] = arrays["bootstraps"]
        tails = [arrays["tails"], *(arrays[f"tails.sight.{place}"] for place in range(len(shape.sights)))]
        buffer._tails = list(zip(*tails, strict=True))
        if shape.memory_size:
            buffer.remember(arrays["memories"].astype(np.float32))
        return buffer

    def _grow(self, needed: int) -> None:
        capacity = max(2 * len(self._columns["agent"]), needed, self._rows_at_first)
        for name, column in self._columns.items():
            larger = np.zeros((capacity, *column.shape[1:]), column.dtype)
            larger[: self._length] = column[: self._length]
            self._columns[name] = larger
