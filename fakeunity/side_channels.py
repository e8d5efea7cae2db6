"""The side-channel bytes of a message from the trainer: read, remembered, applied to nothing.

Container: 16 bytes channel id (little-endian GUID), int32 length, payload; repeated. Strings are an int32 length and
ASCII bytes. Engine settings have no meaning without an engine; environment parameters are kept for whoever asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from fakeunity.errors import TrainerMistakeError

ENGINE_CONFIGURATION = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
_FLOAT, _SAMPLER = 0, 1
_UNIFORM, _GAUSSIAN, _MULTI_RANGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Sampler:
    """An environment parameter to be drawn at each reset, and the seed to draw with.

    kind and arguments: `uniform` (min, max), `gaussian` (mean, st_dev), `multirangeuniform` (min, max, min, max, ...).
    """

    kind: str
    seed: int
    arguments: tuple[float, ...]


def messages(container: bytes) -> Iterator[tuple[UUID, bytes]]:
    """Channel and payload of each message, in order. Raises TrainerMistakeError where the bytes are cut short."""
    at = 0
    while at < len(container):
        if at + 20 > len(container):
            raise TrainerMistakeError(f"side channel: {len(container) - at} bytes left at offset {at}, a head takes 20")
        channel = UUID(bytes_le=container[at : at + 16])
        (length,) = struct.unpack_from("<i", container, at + 16)
        at += 20
        if not 0 <= length <= len(container) - at:
            raise TrainerMistakeError(
                f"side channel {channel}: a payload of {length} bytes is announced, {len(container) - at} follow"
            )
        yield channel, container[at : at + length]
        at += length


def environment_parameter(payload: bytes) -> tuple[str, float | Sampler]:
    """Key and value of one message of the environment-parameters channel. Raises TrainerMistakeError."""
    try:
        (length,) = struct.unpack_from("<i", payload)
        if not 0 <= length <= len(payload) - 8:
            raise TrainerMistakeError(f"environment parameter: a key of {length} bytes in {len(payload)} bytes")
        key = payload[4 : 4 + length].decode("ascii")
        (kind,) = struct.unpack_from("<i", payload, 4 + length)
        return key, _value(kind, payload[8 + length :])
    except (struct.error, UnicodeDecodeError) as error:
        raise TrainerMistakeError(f"environment parameter: unreadable payload {payload.hex()!r}: {error}") from error


def _value(kind: int, rest: bytes) -> float | Sampler:
    if kind == _FLOAT:
        return float(struct.unpack_from("<f", rest)[0])
    if kind != _SAMPLER:
        raise TrainerMistakeError(f"environment parameter: kind {kind}, expected {_FLOAT} or {_SAMPLER}, a sampler")
    seed, sampler = struct.unpack_from("<ii", rest)
    if sampler == _UNIFORM:
        return Sampler("uniform", seed, struct.unpack_from("<ff", rest, 8))
    if sampler == _GAUSSIAN:
        return Sampler("gaussian", seed, struct.unpack_from("<ff", rest, 8))
    if sampler == _MULTI_RANGE:
        (count,) = struct.unpack_from("<i", rest, 8)
        return Sampler("multirangeuniform", seed, struct.unpack_from(f"<{max(0, count)}f", rest, 12))
    raise TrainerMistakeError(f"environment parameter: sampler {sampler}, expected 0 to {_MULTI_RANGE}")
