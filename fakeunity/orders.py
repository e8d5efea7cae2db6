"""Orders to step that look like an earlier one are read without the protocol's library.

From one step to the next a trainer says the same in other numbers, to as many agents. So an order that was read in full
is kept as a template: which of its bytes are actions, and what the others are. An order of the same length whose other
bytes are the same can only mean the same. Where the actions lie is found by writing the order anew with others in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakeunity.dialect import ActionLists
from runtime.players.wire import communicator_pb2 as pb

Places = NDArray[np.intp]

LENGTHS_MAX = 16
"""Lengths of orders that are remembered."""
MISSES_AT_FIRST = 2
MISSES_LATER = 16
"""Orders of a length that are read in full before a template is made of one: that costs as much as reading several."""
MESSAGE_BYTES_MAX = 1 << 16
"""Longer orders are left to the library: what a call costs is little beside them."""

# A float of which no byte is that of 0.
_MARK = float(np.array([0x3F3F3F3F], "<u4").view("<f4")[0])
_FLOAT, _INDEX = np.uint8(0xFF), np.uint8(0x7F)
"""Which bits may change: all of a float's bytes; of an index of one byte all but the one that says that more follow."""


class OrderTemplate:
    """One order to step, and all that differ from it in their actions alone."""

    def __init__(self, message: bytes, parsed: pb.UnityMessageProto) -> None:
        """parsed: the same message. Raises ValueError for one that is not written plainly, or has uneven rows."""
        if _written(parsed) != message:
            raise ValueError("written in another way than the library writes it")
        blank = pb.UnityMessageProto.FromString(message)
        behaviors = blank.unity_input.rl_input.agent_actions
        for name in behaviors:
            _fill(behaviors[name])
        zeros = _written(blank)
        if len(zeros) != len(message):
            raise ValueError("an index that takes more than one byte")
        free = np.zeros(len(message), np.uint8)
        self._tables: dict[str, tuple[Places, Places]] = {}
        for name in list(behaviors):
            rows = behaviors[name].value
            widths = {(len(row.continuous_actions), len(row.discrete_actions)) for row in rows}
            if len(widths) != 1:
                raise ValueError("rows of different widths")
            ((floats, branches),) = widths
            continuous = _places(zeros, blank, name, continuous=_MARK)
            discrete = _places(zeros, blank, name, index=1)
            free[_places(zeros, blank, name, deprecated=_MARK)] = free[continuous] = _FLOAT
            free[discrete] = _INDEX
            self._tables[name] = continuous.reshape(len(rows), 4 * floats), discrete.reshape(len(rows), branches)
        self._kept = ~free
        self._fixed = (np.frombuffer(message, np.uint8) & self._kept).tobytes()

    def read(self, message: bytes) -> Mapping[str, ActionLists] | None:
        """The actions of an order of the same length, by behavior; None when it says something else."""
        raw = np.frombuffer(message, np.uint8)
        if (raw & self._kept).tobytes() != self._fixed:
            return None
        return {
            name: ActionLists(raw.take(continuous).view("<f4"), raw.take(discrete))
            for name, (continuous, discrete) in self._tables.items()
        }


@dataclass(slots=True)
class _Length:
    """What is known of orders of one length."""

    misses_left: int = MISSES_AT_FIRST
    template: OrderTemplate | None = None


class LikeOrders:
    """The templates of one trainer's orders, the newest of each length. make: makes them."""

    def __init__(self, make: Callable[[bytes, pb.UnityMessageProto], OrderTemplate] = OrderTemplate) -> None:
        self._make = make
        self._lengths: dict[int, _Length] = {}

    def read(self, message: bytes) -> Mapping[str, ActionLists] | None:
        """The actions of an order like an earlier one; None: the library must read it, and `learn` be told."""
        known = self._lengths.get(len(message))
        return None if known is None or known.template is None else known.template.read(message)

    def learn(self, message: bytes, parsed: pb.UnityMessageProto) -> None:
        """Takes note of an order to step that has nothing but actions, and what the library made of it."""
        if len(message) > MESSAGE_BYTES_MAX:
            return
        known = self._lengths.get(len(message))
        if known is None:
            if len(self._lengths) >= LENGTHS_MAX:
                del self._lengths[next(iter(self._lengths))]
            known = self._lengths[len(message)] = _Length()
        known.misses_left -= 1
        if known.misses_left > 0:
            return
        known.misses_left = MISSES_LATER
        with contextlib.suppress(ValueError):
            known.template = self._make(message, parsed)


def _written(message: pb.UnityMessageProto) -> bytes:
    return message.SerializeToString(deterministic=True)


def _places(
    zeros: bytes,
    blank: pb.UnityMessageProto,
    name: str,
    *,
    deprecated: float = 0.0,
    continuous: float = 0.0,
    index: int = 0,
) -> Places:
    """Where the bytes of an order of zeros change when these stand in a behavior's rows. blank: the order itself."""
    actions = blank.unity_input.rl_input.agent_actions[name]
    _fill(actions, deprecated=deprecated, continuous=continuous, index=index)
    marked = _written(blank)
    _fill(actions)
    return np.flatnonzero(np.frombuffer(marked, np.uint8) != np.frombuffer(zeros, np.uint8))


def _fill(
    actions: pb.UnityRLInputProto.ListAgentActionProto,
    *,
    deprecated: float = 0.0,
    continuous: float = 0.0,
    index: int = 0,
) -> None:
    """Puts the same numbers in the place of all actions."""
    for row in actions.value:
        for floats, number in ((row.vector_actions_deprecated, deprecated), (row.continuous_actions, continuous)):
            count = len(floats)
            del floats[:]
            floats.extend([number] * count)
        branches = len(row.discrete_actions)
        del row.discrete_actions[:]
        row.discrete_actions.extend([index] * branches)
