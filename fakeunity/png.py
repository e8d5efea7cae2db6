"""Pictures as PNG files, after the PNG specification (ISO/IEC 15948), in the simplest form: 8 bits RGB, no filter."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from fakeunity.rows import CHANNELS, Pixels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUE_COLOUR = 2
LEVEL = 1


def png(pixels: Pixels) -> bytes:
    """The file of a picture, uint8 (height, width, 3), top row first."""
    height, width, _ = pixels.shape
    # Each line opens with the number of its filter; 0 is none.
    lines = np.zeros((height, 1 + width * CHANNELS), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, TRUE_COLOUR, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), LEVEL)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
