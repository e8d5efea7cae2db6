"""Frames between processes of a run: nothing is buffered, let alone unpickled, before its sender has proved the key.

    magic 4 | kind 1 | body length 8 | sender 8 | sequence 8 | header tag 16 | body tag 32 | body

The header tag is HMAC-SHA256 of the 29 bytes before it, cut to 16 bytes: a peer without the key cannot make us wait for
more than the 77 bytes of a header. The body tag is the full HMAC-SHA256 of header and body. Sender and sequence name a
message once and for all, so that an answer can be matched with it and a repetition recognised.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Final

from runtime.errors import ActorProtocolError

FRAME_BYTES_MAX: Final = 1 << 30
FIRST_READ_BYTES: Final = 1 << 16
KEY_BYTES: Final = 32

_MAGIC: Final = b"URL1"
_FIELDS: Final = struct.Struct(">4sBQ8sQ")
_HEADER_TAG_BYTES: Final = 16
_BODY_TAG_BYTES: Final = 32
HEADER_BYTES: Final = _FIELDS.size + _HEADER_TAG_BYTES + _BODY_TAG_BYTES


class FrameError(ActorProtocolError):
    """Bytes that no process of this run has sent: the connection must be closed."""


class FrameKind(enum.IntEnum):
    """What a frame says: here is a message; I have it; I cannot read it."""

    MESSAGE = 1
    ACCEPTED = 2
    UNREADABLE = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One verified frame; `body` is pickled data of a MESSAGE and empty otherwise."""

    kind: FrameKind
    sender: bytes
    sequence: int
    body: bytearray


@dataclass(frozen=True, slots=True)
class _Header:
    kind: FrameKind
    body_bytes: int
    sender: bytes
    sequence: int
    fields: bytes
    body_tag: bytes


class FrameSeal:
    """Writes and verifies frames with one key; `refused` counts what was not ours."""

    def __init__(self, key: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        if len(key) < KEY_BYTES:
            msg = f"the key of an actor system has {len(key)} bytes, expected at least {KEY_BYTES}"
            raise ValueError(msg)
        self._mac = hmac.new(key, digestmod=hashlib.sha256)
        self.frame_bytes_max = frame_bytes_max
        self.refused = 0

    def _tag(self, *parts: bytes | bytearray) -> bytes:
        mac = self._mac.copy()
        for part in parts:
            mac.update(part)
        return mac.digest()

    def seal(self, kind: FrameKind, sender: bytes, sequence: int, body: bytes = b"") -> bytes:
        """The bytes of one frame. Raises ValueError if the body is longer than `frame_bytes_max`."""
        if len(body) > self.frame_bytes_max:
            msg = f"a message of {len(body)} bytes is above the limit of {self.frame_bytes_max}; send it in parts"
            raise ValueError(msg)
        fields = _FIELDS.pack(_MAGIC, kind, len(body), sender, sequence)
        return b"".join((fields, self._tag(fields)[:_HEADER_TAG_BYTES], self._tag(fields, body), body))

    def open_header(self, data: bytes | bytearray) -> _Header:
        """The header at the start of `data` (HEADER_BYTES long). Raises FrameError unless the key wrote it."""
        fields = bytes(data[: _FIELDS.size])
        tag = bytes(data[_FIELDS.size : _FIELDS.size + _HEADER_TAG_BYTES])
        if not hmac.compare_digest(tag, self._tag(fields)[:_HEADER_TAG_BYTES]):
            raise self._refusal("a frame header without the key of this run")
        magic, kind, body_bytes, sender, sequence = _FIELDS.unpack(fields)
        if magic != _MAGIC or body_bytes > self.frame_bytes_max:
            raise self._refusal(f"a frame of {body_bytes} bytes, at most {self.frame_bytes_max} are allowed")
        body_tag = bytes(data[HEADER_BYTES - _BODY_TAG_BYTES : HEADER_BYTES])
        return _Header(FrameKind(kind), body_bytes, sender, sequence, fields, body_tag)

    def check_body(self, header: _Header, body: bytearray) -> None:
        """Raises FrameError unless the key wrote `body` under `header`."""
        if not hmac.compare_digest(header.body_tag, self._tag(header.fields, body)):
            raise self._refusal("a frame body that does not fit its tag")

    def _refusal(self, what: str) -> FrameError:
        self.refused += 1
        return FrameError(f"refused {what}; the connection is closed")


class FrameBuffer:
    """Collects one frame from a stream; the surface (mixed case included) is that of Thespian's ReceiveBuffer."""

    def __init__(self, seal: FrameSeal) -> None:
        self._seal = seal
        self._data = bytearray()
        self._header: _Header | None = None
        self._extra = b""

    def addMore(self, data: bytes) -> None:  # noqa: N802
        """Take bytes as they come. Raises FrameError as soon as they cannot be a frame of this run."""
        if self.isDone():
            self._extra += data
            return
        self._data += data
        if self._header is None and len(self._data) >= HEADER_BYTES:
            self._header = self._seal.open_header(self._data)
            del self._data[:HEADER_BYTES]
        if self._header is not None and len(self._data) >= self._header.body_bytes:
            self._extra = bytes(self._data[self._header.body_bytes :])
            del self._data[self._header.body_bytes :]
            self._seal.check_body(self._header, self._data)

    def is_empty(self) -> bool:
        """True before the first byte."""
        return self._header is None and not self._data

    def remainingAmount(self) -> int:  # noqa: N802
        """How many bytes to ask the socket for: what may follow the frame is kept for the next one."""
        if self._header is None:
            return FIRST_READ_BYTES
        return max(1, self._header.body_bytes - len(self._data))

    def isDone(self) -> bool:  # noqa: N802
        """True once the frame is complete and verified."""
        return self._header is not None and len(self._data) == self._header.body_bytes

    def take(self) -> tuple[Frame, bytes]:
        """The complete frame, and the bytes that came behind it."""
        if self._header is None or not self.isDone():
            msg = "the frame is not complete; ask isDone() first"
            raise ActorProtocolError(msg)
        header = self._header
        return Frame(header.kind, header.sender, header.sequence, self._data), self._extra
