"""Unary gRPC calls over one HTTP/2 connection, either side, without a socket ("gRPC over HTTP2", grpc/grpc docs).

A message is five bytes (is it compressed, how long is it) and the message; a status stands in the trailers. We offer no
compression, so nobody may send us any.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from urllib.parse import quote, unquote

from runtime.http2.connection import Connection, Event, MessageEnded, MessageTooLong, PeerLeaves, StreamReset
from runtime.http2.frames import ErrorCode, Http2Error
from runtime.http2.header_blocks import Fields, write_block

_PREFIX_BYTES: Final = 5
_CONTENT_TYPE: Final = ("content-type", "application/grpc")
_OK_HEAD: Final = write_block(((":status", "200"), _CONTENT_TYPE))
_OK_TRAILERS: Final = write_block((("grpc-status", "0"),))


class Status(IntEnum):
    """How a call ended: the gRPC codes that we use or read by name."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


@dataclass(slots=True)
class Call:
    """A client's call, which waits for its answer. size: of a body that was too long to be taken; it is empty then."""

    stream: int
    path: str
    body: bytes
    size: int = 0


@dataclass(slots=True)
class CallGivenUp:
    """The client waits for an answer no more."""

    stream: int


@dataclass(slots=True)
class Answer:
    """What became of our call. body: the server's message when the status is OK."""

    stream: int
    status: int
    body: bytes = b""
    text: str = ""


def framed(body: bytes) -> bytes:
    """A message as it travels."""
    return b"\x00" + len(body).to_bytes(4, "big") + body


class ServerSide:
    """Takes calls and answers them when it likes.

    body_bytes_max: longer messages are not taken, 0: all are. streams_max: how many calls may be open at once.
    """

    def __init__(self, *, body_bytes_max: int = 0, streams_max: int = 100) -> None:
        self._connection = Connection(is_server=True, streams_max=streams_max)
        self.limit_messages(body_bytes_max)

    def limit_messages(self, body_bytes_max: int) -> None:
        """From now on longer messages are not taken; 0: all are."""
        self._connection.limit_bodies(body_bytes_max + _PREFIX_BYTES if body_bytes_max > 0 else 0)

    def take_outgoing(self) -> bytes:
        """The bytes for the client since the last call."""
        return self._connection.take_outgoing()

    def receive(self, data: bytes) -> list[Call | CallGivenUp]:
        """What the client's bytes bring. Raises Http2Error when the connection must be closed."""
        brought: list[Call | CallGivenUp] = []
        for event in self._connection.receive(data):
            if isinstance(event, MessageEnded):
                call = self._call(event)
                if call is not None:
                    brought.append(call)
            elif isinstance(event, MessageTooLong):
                size = int.from_bytes(event.begun[1:_PREFIX_BYTES], "big")
                brought.append(Call(event.stream, event.fields.get(":path", ""), b"", size))
            elif isinstance(event, StreamReset):
                brought.append(CallGivenUp(event.stream))
        return brought

    def answer(self, stream: int, body: bytes) -> None:
        """Ends a call well."""
        self._connection.send(stream, _OK_HEAD, framed(body), trailers=_OK_TRAILERS)

    def refuse(self, stream: int, status: Status, text: str, *, is_unfinished: bool = False) -> None:
        """Ends a call with a status. is_unfinished: the client's message is still coming, and is not wanted."""
        words = (("grpc-status", str(int(status))), ("grpc-message", quote(text, safe=" ,;:!?'()-_./=+")))
        self._connection.send(stream, write_block(((":status", "200"), _CONTENT_TYPE, *words)))
        if is_unfinished:
            self._connection.reset(stream, ErrorCode.NO_ERROR)

    def leave(self) -> None:
        """Tells the client to make no further calls here."""
        self._connection.leave()

    def _call(self, message: MessageEnded) -> Call | None:
        fields, raw = message.fields, message.body
        if fields.get(":method") != "POST" or not fields.get("content-type", "").startswith("application/grpc"):
            self._connection.send(message.stream, write_block(((":status", "415"),)))
        elif not _is_one_message(raw):
            self.refuse(message.stream, Status.INTERNAL, "a call must carry exactly one message")
        elif raw[0]:
            self.refuse(message.stream, Status.UNIMPLEMENTED, "the message is compressed; send it as it is")
        else:
            return Call(message.stream, fields.get(":path", ""), raw[_PREFIX_BYTES:])
        return None


class ClientSide:
    """Makes calls of one method. authority: `host:port` of the server."""

    def __init__(self, *, authority: str, path: str, user_agent: str) -> None:
        self._connection = Connection(is_server=False)
        self._has_left = False
        self._head = write_block(
            (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", authority),
                ("te", "trailers"),
                _CONTENT_TYPE,
                ("user-agent", user_agent),
            )
        )

    @property
    def is_ready(self) -> bool:
        """True once the server has shown that it is one."""
        return self._connection.has_settings

    def take_outgoing(self) -> bytes:
        """The bytes for the server since the last call."""
        return self._connection.take_outgoing()

    def call(self, body: bytes) -> int:
        """Begins a call; its number. Raises Http2Error when the server has said that it takes no more."""
        if self._has_left:
            raise Http2Error(ErrorCode.REFUSED_STREAM, "the server takes no more calls")
        stream = self._connection.open_stream()
        self._connection.send(stream, self._head, framed(body))
        return stream

    def receive(self, data: bytes) -> list[Answer]:
        """Calls that the server's bytes end. Raises Http2Error when the connection must be closed."""
        return [answer for event in self._connection.receive(data) for answer in self._answers(event)]

    def leave(self) -> None:
        """Tells the server that we go."""
        self._connection.leave()

    def _answers(self, event: Event) -> list[Answer]:
        if isinstance(event, MessageEnded):
            return [_answer(event)]
        if isinstance(event, StreamReset):
            status = Status.UNAVAILABLE if event.code == ErrorCode.REFUSED_STREAM else Status.CANCELLED
            return [Answer(event.stream, status, text=f"the server reset the call (code {event.code})")]
        if isinstance(event, PeerLeaves):
            self._has_left = True
        return []


def _is_one_message(raw: bytes) -> bool:
    """True when a body is one message, compressed or not, and nothing else."""
    return len(raw) >= _PREFIX_BYTES and len(raw) - _PREFIX_BYTES == int.from_bytes(raw[1:_PREFIX_BYTES], "big")


def _answer(message: MessageEnded) -> Answer:
    stream = message.stream
    if message.fields.get(":status") != "200":
        return Answer(stream, Status.UNKNOWN, text=f"HTTP status {message.fields.get(':status')!r}")
    status, text = _status(message.trailers or message.fields)
    if status != Status.OK:
        return Answer(stream, status, text=text)
    raw = message.body
    if not _is_one_message(raw) or raw[0]:
        return Answer(stream, Status.INTERNAL, text="the answer is not one plain message")
    return Answer(stream, Status.OK, raw[_PREFIX_BYTES:])


def _status(fields: Fields) -> tuple[int, str]:
    code = fields.get("grpc-status", "")
    text = fields.get("grpc-message", "")
    return (int(code) if code.isdecimal() else Status.UNKNOWN), unquote(text) if text else ""
