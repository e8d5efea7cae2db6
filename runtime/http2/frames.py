"""Frames of HTTP/2 (RFC 9113, sections 4 and 6): their numbers, and the bytes of those that we send."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES: Final = 9
FRAME_BYTES_DEFAULT: Final = 1 << 14
FRAME_BYTES_LIMIT: Final = (1 << 24) - 1
WINDOW_DEFAULT: Final = (1 << 16) - 1
WINDOW_MAX: Final = (1 << 31) - 1

# Kinds of frames. Plain numbers: they are compared for every frame that arrives.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20

# Settings.
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Http2Error(Exception):
    """The peer broke a rule of HTTP/2: the connection cannot go on. code: for the GOAWAY that tells it so."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame. payload: at most as long as the peer's largest frame."""
    head = len(payload) << 48 | kind << 40 | flags << 32 | stream
    return head.to_bytes(HEAD_BYTES, "big") + payload


def settings(**values: int) -> bytes:
    """A SETTINGS frame; names are those of this module, in small letters."""
    payload = b"".join(
        globals()[name.upper()].to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items()
    )
    return frame(SETTINGS, 0, 0, payload)


def window_update(stream: int, more: int) -> bytes:
    """Lets the peer send `more` bytes."""
    return frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big"))


def reset(stream: int, code: ErrorCode) -> bytes:
    """Ends one stream at once."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def go_away(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    """Ends the connection; streams after `last_stream` were not looked at."""
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()[:512])
