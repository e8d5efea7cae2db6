"""Side channels: short messages beside actions and observations, in a container of (channel, length, payload) records.

Everything is little-endian; a channel's id is a UUID in the byte order of .NET's Guid. This room knows the bytes of the
container and of the built-in channels; `channels` has them as objects for users, `channel_hub` connects them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from runtime.errors import UsageError
from runtime.experience.parameters import Draw, GaussianDraw, MultiRangeDraw, ParameterValue, UniformDraw
from runtime.experience.stats import Stat, StatAggregation
from runtime.players.places import Place

ENGINE_CONFIGURATION = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
FLOAT_PROPERTIES = UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
STATS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
TRAINING_ANALYTICS = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")
_RECORD = struct.Struct("<16si")
_INT = struct.Struct("<i")
_FLOAT = struct.Struct("<f")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How a Unity engine is to run. Sizes in pixels; time_scale in game seconds per second; -1: no frame rate limit.

    normal_speed: the time scale after a reset without training mode.
    """

    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    normal_speed: float = 1.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60


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


def environment_parameters(parameters: Mapping[str, ParameterValue]) -> bytes:
    """Records that set these parameters to numbers, or to samplers from which the player draws.

    Raises UsageError for a name or a number that the wire cannot carry.
    """
    return b"".join(
        container(ENVIRONMENT_PARAMETERS, environment_parameter(name, value)) for name, value in parameters.items()
    )


def environment_parameter(name: str, value: ParameterValue) -> bytes:
    """The payload that sets one parameter. Raises UsageError for a name or a number that the wire cannot carry."""
    if not name.isascii():
        raise UsageError(f"environment parameter {name!r} is not ASCII, which is all that players can read; rename it.")
    head = _INT.pack(len(name)) + name.encode("ascii")
    try:
        if isinstance(value, UniformDraw | GaussianDraw | MultiRangeDraw):
            return head + _INT.pack(1) + _sampler(value)
        return head + _INT.pack(0) + _FLOAT.pack(value)
    except (struct.error, OverflowError) as error:
        raise UsageError(
            f"environment parameter {name!r} is {value!r}: {error}; expected floats and a seed of 32 bits."
        ) from error


def _sampler(sampler: Draw) -> bytes:
    seed = _INT.pack(sampler.seed)
    match sampler:
        case UniformDraw(min_value=low, max_value=high):
            return seed + struct.pack("<iff", 0, low, high)
        case GaussianDraw(mean=mean, st_dev=deviation):
            return seed + struct.pack("<iff", 1, mean, deviation)
        case MultiRangeDraw(intervals=intervals):
            ends = [end for interval in intervals for end in interval]
            return seed + struct.pack(f"<ii{len(ends)}f", 2, len(ends), *ends)


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
