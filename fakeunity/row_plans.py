"""Rows that differ from earlier ones in their numbers alone are written into the bytes of those.

From one message to the next mostly the same agents are told of, and often those of a few episodes end. A plan belongs
to rows of such ids, ends and rewards that are or are not 0: together these say what every byte of the message is but
for its numbers. Where the numbers lie is found by writing the rows with others in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fakeunity.rows import Floats, Rows

Places = NDArray[np.intp]
Key = tuple[bytes, ...]
Kept = TypeVar("Kept")
_NOWHERE: Places = np.zeros(0, np.intp)

PLANS_MAX = 64
KEYS_MAX = 256
ROWS_MAX = 64
"""More rows are never the same twice, and writing them costs so much that a plan would save little."""
PLAN_BYTES_MAX = 1 << 14

# Two floats, neither of them 0, of which no byte is the same.
_ONE, _OTHER = np.array([0x3F3F3F3F, 0x40404040], "<u4").view("<f4")


class _Plan:
    """The bytes of some rows, and where in them their numbers lie.

    columns: of observations, in the order of the wire. places: every byte of what a source gives, by source.
    """

    def __init__(self, written: bytes, rows: Rows, columns: Sequence[int], places: Mapping[str | int, Places]) -> None:
        self._written = np.frombuffer(written, np.uint8)
        self._columns = columns
        self._rewarded = _where(rows.rewards) if len(places["rewards"]) else None
        group = places.get("group_rewards", _NOWHERE)
        self._group_rewarded: Places | slice | None = None
        if rows.group_rewards is not None and len(group):
            self._group_rewarded = _where(rows.group_rewards)
        self._floats = np.concatenate([places["rewards"], *(places[column] for column in columns), group])
        self._mask = places.get("mask")

    def write(self, rows: Rows) -> bytes:
        """The bytes of other rows to which the plan belongs."""
        floats: list[Floats] = [] if self._rewarded is None else [rows.rewards[self._rewarded]]
        floats += [rows.observations[column].reshape(-1) for column in self._columns]
        if self._group_rewarded is not None and rows.group_rewards is not None:
            floats.append(rows.group_rewards[self._group_rewarded])
        written = self._written.copy()
        if floats:
            joined = floats[0] if len(floats) == 1 else np.concatenate(floats)
            written[self._floats] = joined.astype("<f4", copy=False).view(np.uint8)
        if self._mask is not None and rows.mask is not None:
            written[self._mask] = rows.mask.view(np.uint8).reshape(-1)
        return written.tobytes()


class RowPlans:
    """Writes rows of one behavior without pictures, by a plan where one is known. write: the long way."""

    def __init__(self, write: Callable[[Rows], bytes], columns: Sequence[int]) -> None:
        self._write = write
        self._columns = columns
        self._plans: dict[Key, _Plan] = {}
        self._seen: dict[Key, None] = {}

    def write(self, rows: Rows) -> bytes:
        """Bytes of all rows in their order."""
        if len(rows.ids) > ROWS_MAX:
            return self._write(rows)
        key = _key(rows)
        plan = self._plans.get(key)
        if plan is not None:
            return plan.write(rows)
        written = self._write(rows)
        # A plan costs several writings: it is made when rows come a second time.
        if key not in self._seen:
            _remember(self._seen, key, None, KEYS_MAX)
        elif len(written) <= PLAN_BYTES_MAX:
            _remember(self._plans, key, self._planned(rows), PLANS_MAX)
        return written

    def _planned(self, rows: Rows) -> _Plan:
        blank = replace(
            rows,
            rewards=_marked(rows.rewards, _ONE),
            observations=tuple(np.full_like(seen, _ONE) for seen in rows.observations),
            group_rewards=None if rows.group_rewards is None else _marked(rows.group_rewards, _ONE),
            mask=None if rows.mask is None else np.zeros_like(rows.mask),
        )
        others: dict[str | int, Rows] = {"rewards": replace(blank, rewards=_marked(rows.rewards, _OTHER))}
        if rows.group_rewards is not None:
            others["group_rewards"] = replace(blank, group_rewards=_marked(rows.group_rewards, _OTHER))
        if rows.mask is not None:
            others["mask"] = replace(blank, mask=np.ones_like(rows.mask))
        for column, seen in enumerate(blank.observations):
            observations = (*blank.observations[:column], np.full_like(seen, _OTHER), *blank.observations[column + 1 :])
            others[column] = replace(blank, observations=observations)
        written = self._write(blank)
        plain = np.frombuffer(written, np.uint8)
        places = {
            source: np.flatnonzero(np.frombuffer(self._write(other), np.uint8) != plain)
            for source, other in others.items()
        }
        return _Plan(written, rows, self._columns, places)


def _key(rows: Rows) -> Key:
    """What rows must have in common with others that are written by the same plan."""
    key = (
        rows.ids.tobytes(),
        rows.done.tobytes(),
        rows.interrupted.tobytes(),
        (rows.rewards != 0).tobytes(),
        b"" if rows.mask is None else b"masked",
    )
    if rows.group_ids is None or rows.group_rewards is None:
        return key
    return (*key, rows.group_ids.tobytes(), (rows.group_rewards != 0).tobytes())


def _marked(rewards: Floats, mark: np.float32) -> Floats:
    marked: Floats = np.where(rewards != 0, mark, np.float32(0))
    return marked


def _where(rewards: Floats) -> Places | slice:
    """Which rewards are not 0; a slice, which costs less, where all are."""
    found = np.flatnonzero(rewards)
    return slice(None) if len(found) == len(rewards) else found


def _remember(memory: dict[Key, Kept], key: Key, kept: Kept, most: int) -> None:
    """Keeps the newest `most`."""
    if len(memory) >= most:
        del memory[next(iter(memory))]
    memory[key] = kept
