"""Compressed images of players: PNG files, three channels each, back to back -> one float array per observation.

A player of packages up to 2.3 sends heights and widths first (HWC), newer ones channels first (CHW), under the same
protocol version. The size of the picture tells which; the result always has the shape that the brain announced.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image

from runtime.experience.brains import Floats

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def decode_image(files: bytes, shape: tuple[int, ...], mapping: Sequence[int] = ()) -> Floats:
    """float32 of `shape` in [0, 1], from concatenated PNG files.

    mapping: the output channel of each decoded channel, several contributors are averaged, -1 is dropped; empty: one
    channel averages the first picture, more take the decoded channels in order. Raises ValueError, before anything is
    decoded when the sizes in the files' headers do not fit the shape.
    """
    parts = _split(files)
    width, height = _size(parts[0])
    channels_first = shape[1:] == (height, width)
    if not channels_first and shape[:2] != (height, width):
        msg = f"a picture of {width}×{height} pixels for an observation of shape {shape}"
        raise ValueError(msg)
    channels = shape[0] if channels_first else shape[2]
    if len(parts) > max(len(mapping), channels) // 3 + 1 or any(_size(part) != (width, height) for part in parts):
        msg = f"{len(parts)} pictures, or pictures of different sizes, for an observation of shape {shape}"
        raise ValueError(msg)
    planes = np.concatenate([_pixels(part) for part in parts], axis=2)
    image = _assign_channels(planes, channels, mapping)
    return np.ascontiguousarray(image.transpose(2, 0, 1) if channels_first else image)


def _split(files: bytes) -> list[bytes]:
    starts = []
    at = files.find(SIGNATURE)
    while at >= 0:
        starts.append(at)
        at = files.find(SIGNATURE, at + len(SIGNATURE))
    if not starts or starts[0] != 0:
        msg = "compressed data that is not a PNG file"
        raise ValueError(msg)
    return [files[begin:end] for begin, end in zip(starts, [*starts[1:], len(files)], strict=True)]


def _size(part: bytes) -> tuple[int, int]:
    """Width and height from the header, which the format keeps at a fixed place."""
    if len(part) < 24 or part[12:16] != b"IHDR":
        msg = "a PNG file without a header"
        raise ValueError(msg)
    width, height = struct.unpack_from(">II", part, 16)
    return width, height


def _pixels(part: bytes) -> Floats:
    try:
        with Image.open(io.BytesIO(part), formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"), np.float32) / np.float32(255)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        msg = f"a PNG file that cannot be decoded: {error}"
        raise ValueError(msg) from error


def _assign_channels(planes: Floats, channels: int, mapping: Sequence[int]) -> Floats:
    decoded = planes.shape[2]
    if not mapping:
        if channels == 1:
            gray: Floats = planes[:, :, :3].mean(axis=2, keepdims=True, dtype=np.float32)
            return gray
        if channels > decoded:
            msg = f"{decoded} decoded channels, expected {channels}"
            raise ValueError(msg)
        return planes[:, :, :channels]
    if len(mapping) != decoded or {each for each in mapping if each >= 0} != set(range(channels)):
        msg = f"a channel mapping {list(mapping)} for {decoded} decoded and {channels} expected channels"
        raise ValueError(msg)
    chosen = np.asarray(mapping)
    return np.stack([planes[:, :, chosen == each].mean(axis=2, dtype=np.float32) for each in range(channels)], axis=2)
