"""Closed transitions of one behavior, as growing columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Floats
from trainers.networks import NetworkShape

Array = npt.NDArray[np.generic]
ROWS_AT_FIRST = 256


class End(IntEnum):
    """What follows a transition: NONE the next one of its agent, TERMINAL nothing, CUT a bootstrapped value."""

    NONE = 0
    TERMINAL = 1
    CUT = 2


def _column_types(shape: NetworkShape) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
    return {
        "wire": (np.int32, ()),
        "env": (np.int32, ()),
        "incarnation": (np.int32, ()),
        "agent": (np.int64, ()),
        "version": (np.int32, ()),
        "observations": (np.float32, (shape.observation_size,)),
        "masks": (np.bool_, (shape.mask_size,)),
        "continuous": (np.float32, (shape.continuous_size,)),
        "discrete": (np.int32, (len(shape.branches),)),
        "rewards": (np.float32, ()),
        "ends": (np.uint8, ()),
        "bootstraps": (np.int32, ()),
    }


class TransitionBuffer:
    """Rows of (observation, mask, action, reward, end) with the trajectory they belong to, in order of arrival.

    `bootstraps` is the row of `tails` that holds the observation after a CUT row, else -1.
    """

    def __init__(self, shape: NetworkShape) -> None:
        self._columns: dict[str, Array] = {
            name: np.zeros((ROWS_AT_FIRST, *dimensions), dtype)
            for name, (dtype, dimensions) in _column_types(shape).items()
        }
        self._tails: list[Floats] = []
        self._tail_size = shape.observation_size
        self._length = 0

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

    def end(self, row: int, kind: End, observation: Floats | None) -> None:
        """Marks a row as the last of its trajectory; `observation` (D,) follows a CUT."""
        self._columns["ends"][row] = kind
        if kind is End.CUT:
            assert observation is not None
            self._columns["bootstraps"][row] = len(self._tails)
            self._tails.append(observation)

    def is_open(self, row: int) -> bool:
        """True when nothing has ended the trajectory at this row."""
        return bool(self._columns["ends"][row] == End.NONE)

    def add_reward(self, row: int, reward: float) -> None:
        """Adds a reward that came after the row was closed."""
        self._columns["rewards"][row] += np.float32(reward)

    def columns(self) -> dict[str, Array]:
        """All columns, cut to the rows in use (views)."""
        return {name: column[: self._length] for name, column in self._columns.items()}

    def tails(self) -> Floats:
        """float32 (t, D): the observations that follow CUT rows."""
        if not self._tails:
            return np.zeros((0, self._tail_size), np.float32)
        return np.stack(self._tails)

    def copy(self) -> TransitionBuffer:
        """An independent copy."""
        twin = object.__new__(TransitionBuffer)
        twin._columns = {name: column[: max(self._length, 1)].copy() for name, column in self._columns.items()}
        twin._tails = list(self._tails)
        twin._tail_size = self._tail_size
        twin._length = self._length
        return twin

    def extend(self, other: TransitionBuffer) -> None:
        """Appends the rows and tails of `other`."""
        start, shift = self._length, len(self._tails)
        rows = other.columns()
        self.append({name: column for name, column in rows.items() if name != "bootstraps"}, len(other))
        moved = rows["bootstraps"].astype(np.int64)
        self._columns["bootstraps"][start : self._length] = np.where(moved >= 0, moved + shift, -1)
        self._tails.extend(other.tails())

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Name and content of every array, for a checkpoint."""
        yield from self.columns().items()
        yield "tails", self.tails()

    @staticmethod
    def restored(shape: NetworkShape, arrays: Mapping[str, Array]) -> TransitionBuffer:
        """The buffer whose `arrays()` these were."""
        buffer = TransitionBuffer(shape)
        count = len(arrays["agent"])
        buffer.append({name: arrays[name] for name in _column_types(shape) if name != "bootstraps"}, count)
        buffer._columns["bootstraps"][:count] = arrays["bootstraps"]
        buffer._tails = list(arrays["tails"].astype(np.float32))
        return buffer

    def _grow(self, needed: int) -> None:
        capacity = max(2 * len(self._columns["agent"]), needed)
        for name, column in self._columns.items():
            larger = np.zeros((capacity, *column.shape[1:]), column.dtype)
            larger[: self._length] = column[: self._length]
            self._columns[name] = larger
