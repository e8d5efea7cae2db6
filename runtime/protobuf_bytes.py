"""Bytes of protobuf messages, read and written without a library where that is in the way."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED_64, LENGTH_DELIMITED, FIXED_32 = 0, 1, 2, 5

Span = tuple[int, int]
"""First byte, and the one behind the last."""


def fields(body: bytes, within: Span) -> Iterator[tuple[int, int, Span]]:
    """Number, wire type and content of each field of the message at `within`. Raises ValueError for other bytes."""
    at, end = within
    while at < end:
        tag, at = read_varint(body, at, end)
        kind, start = tag & 7, at
        if kind == VARINT:
            _, at = read_varint(body, at, end)
        elif kind == LENGTH_DELIMITED:
            size, start = read_varint(body, at, end)
            at = start + size
        elif kind in {FIXED_32, FIXED_64}:
            at += 4 if kind == FIXED_32 else 8
        else:
            raise ValueError(f"wire type {kind}")
        if at > end:
            raise ValueError("a field ends behind its message")
        yield tag >> 3, kind, (start, at)


def read_varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, of 64 bits without a sign, and the place behind it. Raises ValueError."""
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError("a number without an end")


def varint(value: int) -> bytes:
    """A number from 0 in base 128, lowest digits first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
