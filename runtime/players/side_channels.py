"""Side channels: short messages beside actions and observations, in a container of (channel, length, payload) records.

Everything is little-endian; a channel's id is a UUID in the byte order of .NET's Guid. We send engine settings and
environment parameters, and read statistics; what else a player sends is ignored and counted.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from runtime.errors import UsageError
from runtime.players.places import Place

ENGINE_CONFIGURATION = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
STATS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
STATS_KEPT_MAX = 10_000
NAMES_KEPT_MAX = 100
_RECORD = struct.Struct("<16si")
_INT = struct.Struct("<i")
_FLOAT = struct.Struct("<f")


class StatAggregation(IntEnum):
    """How a player wants the values of one statistic to be summed up."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How a Unity engine is to run. Sizes in pixels; time_scale in game seconds per second; -1: no frame rate limit."""

    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60


@dataclass(frozen=True, slots=True)
class Stat:
    """One value that a player reported."""

    name: str
    value: float
    aggregation: StatAggregation


def container(channel: UUID, payload: bytes) -> bytes:
    """One record; records are simply joined."""
    return _RECORD.pack(channel.bytes_le, len(payload)) + payload


def engine_configuration(settings: EngineSettings) -> bytes:
    """Records that apply all settings, one per kind, in the order in which trainers send them."""
    payloads = (
        struct.pack("<iii", 0, settings.width, settings.height),
        struct.pack("<ii", 1, settings.quality_level),
        struct.pack("<if", 2, settings.time_scale),
        struct.pack("<ii", 3, settings.target_frame_rate),
        struct.pack("<ii", 4, settings.capture_frame_rate),
    )
    return b"".join(container(ENGINE_CONFIGURATION, payload) for payload in payloads)


def environment_parameters(parameters: Mapping[str, float]) -> bytes:
    """Records that set these parameters to numbers. Raises UsageError for a name that the wire cannot carry."""
    records = []
    for name, value in parameters.items():
        if not name.isascii():
            raise UsageError(
                f"environment parameter {name!r} is not ASCII, which is all that players can read; rename it."
            )
        payload = _INT.pack(len(name)) + name.encode("ascii") + _INT.pack(0) + _FLOAT.pack(value)
        records.append(container(ENVIRONMENT_PARAMETERS, payload))
    return b"".join(records)


def read_container(body: bytes, place: Place) -> Iterator[tuple[UUID, bytes]]:
    """The records in `body`, in order. Raises PlayerProtocolError for a record that is cut short."""
    at = 0
    while at < len(body):
        if len(body) - at < _RECORD.size:
            raise place.protocol_error(
                f"a side channel record starts {len(body) - at} bytes before the end; it takes 20."
            )
        channel, length = _RECORD.unpack_from(body, at)
        at += _RECORD.size
        if not 0 <= length <= len(body) - at:
            raise place.protocol_error(
                f"a side channel record for {UUID(bytes_le=channel)} announces {length} bytes, "
                f"of which {len(body) - at} are there."
            )
        yield UUID(bytes_le=channel), body[at : at + length]
        at += length


def read_stat(payload: bytes, place: Place) -> Stat:
    """The statistic in a payload of the Stats channel; a missing aggregation is an average, as in early packages.

    Raises PlayerProtocolError for anything else.
    """
    size = _INT.unpack_from(payload)[0] if len(payload) >= 4 else -1
    if not 0 <= size <= len(payload) - 8:
        raise place.protocol_error(
            f"a statistic of {len(payload)} bytes; expected a name, a number and an aggregation."
        )
    name = payload[4 : 4 + size].decode("ascii", errors="replace")
    (value,) = _FLOAT.unpack_from(payload, 4 + size)
    number = _INT.unpack_from(payload, 8 + size)[0] if len(payload) >= 12 + size else 0
    if number not in set(StatAggregation):
        raise place.protocol_error(f"statistic {name!r} has aggregation {number}; expected 0 to 3.")
    return Stat(name, value, StatAggregation(number))


class SideChannelInbox:
    """What a player sent on its side channels: statistics until they are taken, and counts of what nobody reads."""

    def __init__(self) -> None:
        self._stats: list[Stat] = []
        self._ignored: Counter[str] = Counter()
        self.stats_dropped = 0

    def accept(self, body: bytes, place: Place) -> None:
        """Takes in the side channel bytes of one message. If it raises PlayerProtocolError, nothing was taken in."""
        stats, ignored = [], []
        for channel, payload in read_container(body, place):
            if channel == STATS:
                stats.append(read_stat(payload, place))
            else:
                ignored.append(str(channel))
        room = STATS_KEPT_MAX - len(self._stats)
        self._stats += stats[:room]
        self.stats_dropped += max(0, len(stats) - room)
        for name in ignored:
            self._ignored[name if name in self._ignored or len(self._ignored) < NAMES_KEPT_MAX else "others"] += 1

    def take_stats(self) -> tuple[Stat, ...]:
        """The statistics that came since the last call, in order."""
        stats, self._stats = tuple(self._stats), []
        return stats

    @property
    def ignored(self) -> Mapping[str, int]:
        """Messages per channel id that nobody here reads."""
        return dict(self._ignored)
