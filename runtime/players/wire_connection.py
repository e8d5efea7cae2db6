"""One client of a player's port: the socket of a `ServerSide`, on the EnvWorker's asyncio loop."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from runtime.http2.frames import Http2Error
from runtime.http2.unary import Call, ServerSide, Status

_BUFFER_BYTES = 1 << 16
_STREAMS_MAX = 4
STRANGERS_BYTES_MAX = 1 << 20
"""The longest message of a client that is not (yet) the player: an introduction is far shorter."""


class CallTaker(Protocol):
    """Who serves a port."""

    def take_connection(self, connection: WireConnection) -> None:
        """A client has connected."""

    def take_call(self, connection: WireConnection, call: Call) -> None:
        """A call has come; it is answered with `answer` or `refuse`, now or later."""

    def take_loss(self, connection: WireConnection, stream: int | None, reason: str) -> None:
        """A call was given up, or (None) the connection is gone with all of its calls."""


CLOSED = "closed the connection"
"""What a client did of which nothing else is known."""


class WireConnection(asyncio.BufferedProtocol):
    """Reads what the client sends, and hands its calls on at once, within the same turn of the loop."""

    def __init__(self, taker: CallTaker, opened: dict[WireConnection, None]) -> None:
        self._taker = taker
        self._opened = opened
        self._side = ServerSide(body_bytes_max=STRANGERS_BYTES_MAX, streams_max=_STREAMS_MAX)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._transport: asyncio.Transport | None = None
        self._reason = CLOSED

    def answer(self, stream: int, body: bytes) -> None:
        """Ends a call well; nothing happens when the connection is gone."""
        self._side.answer(stream, body)
        self._flush()

    def refuse(self, call: Call, status: Status, text: str) -> None:
        """Ends a call with a status."""
        self._side.refuse(call.stream, status, text, is_unfinished=call.size > 0)
        self._flush()

    def trust(self, body_bytes_max: int) -> None:
        """It is the player: its messages may be so long; 0: as long as they like."""
        self._side.limit_messages(body_bytes_max)

    def leave(self) -> None:
        """Tells the client to make no further calls here."""
        self._side.leave()
        self._flush()

    def abort(self) -> None:
        """Closes the connection now."""
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greets the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._opened[self] = None
        self._taker.take_connection(self)
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        try:
            brought = self._side.receive(bytes(self._view[:nbytes]))
        except Http2Error as error:
            self._reason = f"broke a rule of HTTP/2 ({error})"
            self._flush()
            if self._transport is not None:
                self._transport.close()
            return
        for each in brought:
            if isinstance(each, Call):
                self._taker.take_call(self, each)
            else:
                self._taker.take_loss(self, each.stream, "gave up its call")
        self._flush()

    def pause_writing(self) -> None:
        """Who does not read what we answer is not read either: neither side's memory grows."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The client is gone: nothing is kept open for it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, however it came."""
        self._transport = None
        self._opened.pop(self, None)
        self._taker.take_loss(self, None, self._reason)

    def _flush(self) -> None:
        if self._transport is not None and (out := self._side.take_outgoing()):
            self._transport.write(out)
