"""Compressed images of players: PNG files, three channels each, back to back -> bytes, channels first.

A player of packages up to 2.3 sends heights and widths first (HWC), newer ones channels first (CHW), under the same
protocol version. Which of the two a shape means is told by the size of the picture, by the flags of its dimensions, and
by the version of the package, in this order; everything behind this room sees channels first.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
Pixels = npt.NDArray[np.uint8]
_HEADER_BYTES = 24
_TRANSLATIONAL = 2
_CHANNELS_FIRST_SINCE = 3


def decode_image(files: bytes, shape: tuple[int, ...], mapping: Sequence[int] = ()) -> Pixels:
    """uint8 of `shape` (channels, height, width), from concatenated PNG files.

    mapping: the output channel of each decoded channel, several contributors are averaged, -1 is dropped; empty: one
    channel averages the first picture, more take the decoded channels in order. Raises ValueError, before anything is
    decoded when the sizes in the files' headers do not fit the shape.
    """
    channels, height, width = shape
    parts = _split(files)
    sizes = [picture_size(part) for part in parts]
    if sizes[0] != (height, width):
        msg = f"a picture of {sizes[0][1]}×{sizes[0][0]} pixels for an observation of shape {shape}"
        raise ValueError(msg)
    if len(parts) > (channels if mapping else channels // 3 + 1) or any(size != sizes[0] for size in sizes):
        msg = f"{len(parts)} pictures, or pictures of different sizes, for an observation of shape {shape}"
        raise ValueError(msg)
    if mapping and (len(mapping) != 3 * len(parts) or {each for each in mapping if each >= 0} != set(range(channels))):
        msg = (
            f"a channel mapping {list(mapping[:32])} for {3 * len(parts)} decoded and {channels} expected channels; "
            "expected one number per decoded channel"
        )
        raise ValueError(msg)
    planes = np.concatenate([_pixels(part) for part in parts], axis=2)
    return np.ascontiguousarray(_assign_channels(planes, channels, mapping).transpose(2, 0, 1))


def picture_size(file: bytes) -> tuple[int, int]:
    """Height and width from the header, which the format keeps at a fixed place. Raises ValueError for another file."""
    if not file.startswith(SIGNATURE):
        msg = "compressed data that is not a PNG file"
        raise ValueError(msg)
    if len(file) < _HEADER_BYTES or file[12:16] != b"IHDR":
        msg = "a PNG file without a header"
        raise ValueError(msg)
    width, height = struct.unpack_from(">II", file, 16)
    return height, width


def is_channels_last(
    shape: tuple[int, ...], *, picture: bytes = b"", properties: Sequence[int] = (), package_version: str = ""
) -> bool:
    """True when `shape` of rank 3 means (height, width, channels).

    picture: the compressed data, if any. properties: the flags of the dimensions; "translational equivariance" sits on
    height and width. package_version: of the player's com.unity.ml-agents. Without any of them the smaller end of the
    shape is taken for the channels.
    """
    with contextlib.suppress(ValueError):  # what is wrong with a picture is told when it is decoded
        size = picture_size(picture)
        fits = shape[:2] == size, shape[1:] == size
        if fits[0] != fits[1]:
            return fits[0]
    moves = [bool(each & _TRANSLATIONAL) for each in properties]
    if moves in ([True, True, False], [False, True, True]):
        return moves[0]
    package = re.match(r"(\d{1,6})\.", package_version)
    if package:
        return int(package[1]) < _CHANNELS_FIRST_SINCE
    return shape[2] < shape[0]


def channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(height, width, channels) as (channels, height, width); also for one flag per dimension."""
    return (shape[2], shape[0], shape[1])


def as_bytes(values: npt.NDArray[np.float32]) -> Pixels:
    """uint8 for numbers from 0 to 1. Raises ValueError for others."""
    if not ((values >= 0.0) & (values <= 1.0)).all():
        msg = f"an uncompressed image with numbers from {values.min()} to {values.max()}; expected 0 to 1"
        raise ValueError(msg)
    pixels: Pixels = np.rint(values * np.float32(255)).astype(np.uint8)
    return pixels


def _split(files: bytes) -> list[bytes]:
    if not files.startswith(SIGNATURE):
        msg = "compressed data that is not a PNG file"
        raise ValueError(msg)
    return [SIGNATURE + part for part in files[len(SIGNATURE) :].split(SIGNATURE)]


def _pixels(part: bytes) -> Pixels:
    try:
        with Image.open(io.BytesIO(part), formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        msg = f"a PNG file that cannot be decoded: {error}"
        raise ValueError(msg) from error


def _assign_channels(planes: Pixels, channels: int, mapping: Sequence[int]) -> Pixels:
    if not mapping:
        if channels == 1:
            return _mean(planes[:, :, :3])[:, :, None]
        if channels > planes.shape[2]:
            msg = f"{planes.shape[2]} decoded channels, expected {channels}"
            raise ValueError(msg)
        return planes[:, :, :channels]
    chosen = np.asarray(mapping)
    return np.stack([_mean(planes[:, :, chosen == each]) for each in range(channels)], axis=2)


def _mean(planes: Pixels) -> Pixels:
    """The mean over the last axis, to the nearest byte."""
    count = planes.shape[2]
    if count == 1:
        return planes[:, :, 0]
    total = planes.sum(axis=2, dtype=np.uint32)
    mean: Pixels = ((2 * total + count) // (2 * count)).astype(np.uint8)
    return mean
