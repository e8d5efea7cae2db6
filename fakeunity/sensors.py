"""One observation of one agent as bytes of an ObservationProto, in the format that the trainer can read."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fakeunity.formats import Format
from fakeunity.png import png
from fakeunity.rows import CHANNELS, ImageSpec, ObservationSpec, Pixels

PLAIN, EQUIVARIANT, VARIABLE = 1, 2, 4
PICTURES_KEPT_MAX = 16384
NO_PICTURE = -1

# Tags are field number * 8 + wire type; 2 is length-delimited, 0 a varint.
_SHAPE, _COMPRESSED_PNG, _DATA, _FLOATS, _MAPPING = b"\x0a", b"\x10\x01", b"\x1a", b"\x22", b"\x2a"
_PROPERTIES, _IS_GOAL, _NAME = b"\x32", b"\x38\x01", b"\x42"
_FLOATS_DATA = b"\x0a"


def varint(number: int) -> bytes:
    """`number` (not negative) in base 128, lowest digits first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def field(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + varint(len(content)) + content


def numbers(tag: bytes, values: tuple[int, ...]) -> bytes:
    """A packed field of integers that are not negative."""
    return field(tag, b"".join(varint(value) for value in values))


def vector(sensor: ObservationSpec, format_: Format) -> tuple[bytes, bytes]:
    """What stands before and after the floats of an observation, the length of the floats counted in."""
    floats = bytes(sensor.size * 4)
    properties = (VARIABLE, PLAIN) if sensor.rows else (PLAIN,)
    after = _about(sensor.name, properties, format_, is_goal=sensor.is_goal)
    data = field(_FLOATS, field(_FLOATS_DATA, floats))
    return numbers(_SHAPE, sensor.shape) + data[: len(data) - len(floats)], after


class Camera:
    """Writes the observations of one camera; each picture is compressed once and then remembered, up to a limit."""

    def __init__(self, spec: ImageSpec, format_: Format) -> None:
        self._spec = spec
        self._format = format_
        self._is_compressed = format_.is_compressed(spec.frames)
        channels = CHANNELS * spec.frames
        size = (spec.height, spec.width)
        self._shape = (channels, *size) if format_.channels_first else (*size, channels)
        properties = (PLAIN, EQUIVARIANT, EQUIVARIANT) if format_.channels_first else (EQUIVARIANT, EQUIVARIANT, PLAIN)
        mapping = b""
        if spec.frames > 1 and self._is_compressed and format_.has_channel_mapping:
            mapping = numbers(_MAPPING, tuple(range(channels)))
        self._after = mapping + _about(spec.name, properties, format_)
        self._remembered = lru_cache(PICTURES_KEPT_MAX)(self._written)

    def observation(self, pictures: tuple[int, ...]) -> bytes:
        """The ObservationProto of these pictures, oldest first."""
        return self._remembered(pictures) if self._is_compressed else self._written(pictures)

    def _written(self, pictures: tuple[int, ...]) -> bytes:
        shown = [pixels_of(self._spec, number) for number in pictures]
        if self._is_compressed:
            data = _COMPRESSED_PNG + field(_DATA, b"".join(png(pixels) for pixels in shown))
        else:
            floats = np.concatenate(shown, axis=2).astype(np.float32) / np.float32(255)
            ordered = floats.transpose(2, 0, 1) if self._format.channels_first else floats
            data = field(_FLOATS, field(_FLOATS_DATA, ordered.astype("<f4").tobytes()))
        return numbers(_SHAPE, self._shape) + data + self._after


def pixels_of(spec: ImageSpec, number: int) -> Pixels:
    """A picture of this camera; black for NO_PICTURE."""
    return np.zeros((spec.height, spec.width, CHANNELS), np.uint8) if number == NO_PICTURE else spec.paint(number)


def _about(name: str, properties: tuple[int, ...], format_: Format, *, is_goal: bool = False) -> bytes:
    """The fields after the data, as far as the version has them."""
    about = b""
    if format_.has_dimension_properties:
        about += numbers(_PROPERTIES, properties) + _IS_GOAL * is_goal
    if format_.has_observation_names:
        about += field(_NAME, name.encode())
    return about
