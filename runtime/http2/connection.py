"""One HTTP/2 connection, either side, without a socket: bytes of the peer in, events out; orders in, bytes for it out.

A stream here carries one message each way: headers, a body, perhaps trailers. Both sides announce the largest windows
there are, so what arrives never waits for us; what we send keeps to the peer's windows and frame size (RFC 9113, 5.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.http2 import frames
from runtime.http2.flow import Outlet
from runtime.http2.frames import ErrorCode, Http2Error
from runtime.http2.header_blocks import FIELDS_BYTES_MAX, BlockReader, Fields

_RETURN_CREDIT_AT = 1 << 30
_NO_FIELDS: Fields = {}


@dataclass(slots=True)
class MessageEnded:
    """All of the peer's message on a stream. trailers: empty when it had none."""

    stream: int
    fields: Fields
    body: bytes
    trailers: Fields


@dataclass(slots=True)
class MessageTooLong:
    """A message grew over the limit; what follows of it is thrown away. begun: its first bytes."""

    stream: int
    fields: Fields
    begun: bytes


@dataclass(slots=True)
class StreamReset:
    """The peer has given a stream up."""

    stream: int
    code: int


@dataclass(slots=True)
class PeerLeaves:
    """The peer takes no more streams. last_stream: the last one that it looked at."""

    last_stream: int
    code: int
    text: str


Event = MessageEnded | MessageTooLong | StreamReset | PeerLeaves


@dataclass(slots=True)
class _Incoming:
    """What has come on a stream so far."""

    fields: Fields
    chunks: list[bytes]
    size: int = 0
    is_discarded: bool = False


class Connection:
    """One side of a connection. Not for use by two threads at once.

    body_bytes_max: longer messages of the peer are cut off, 0: none is. streams_max: how many the peer may have open.
    """

    def __init__(self, *, is_server: bool, body_bytes_max: int = 0, streams_max: int = 100) -> None:
        self._is_server = is_server
        self._body_bytes_max = body_bytes_max
        self._streams_max = streams_max
        self._unread = b""
        self._awaits_preface = is_server
        self._has_settings = False
        self._reader = BlockReader()
        self._headers: tuple[int, int, bytearray] | None = None  # stream, flags and what there is of a block
        self._incoming: dict[int, _Incoming] = {}
        self._last_stream = 0
        self._next_stream = 1
        self._credit_used = 0
        self._events: list[Event] = []
        self._outlet = Outlet()
        announced = frames.settings(
            enable_push=0, initial_window_size=frames.WINDOW_MAX, max_concurrent_streams=streams_max
        )
        more = frames.window_update(0, frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        self._outlet.put((b"" if is_server else frames.PREFACE) + announced + more)

    def limit_bodies(self, body_bytes_max: int) -> None:
        """From now on longer messages of the peer are cut off; 0: none is."""
        self._body_bytes_max = body_bytes_max

    @property
    def has_settings(self) -> bool:
        """True once the peer has shown that it speaks HTTP/2."""
        return self._has_settings

    def take_outgoing(self) -> bytes:
        """The bytes for the peer since the last call."""
        return self._outlet.take()

    def receive(self, data: bytes) -> list[Event]:
        """What the peer's bytes mean, whole frames only; the rest waits for more.

        Raises Http2Error when the peer breaks a rule; `take_outgoing` then has the GOAWAY that says so, and the
        connection must be closed.
        """
        self._events = []
        try:
            self._read(self._unread + data if self._unread else data)
        except Http2Error as error:
            self._outlet.put(frames.go_away(self._last_stream, error.code, str(error)))
            raise
        return self._events

    def open_stream(self) -> int:
        """The number of a new stream, for `send`. For clients. Raises Http2Error once all numbers are used up."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        if stream > frames.WINDOW_MAX:
            raise Http2Error(ErrorCode.REFUSED_STREAM, "all numbers of streams are used up; connect again")
        self._incoming[stream] = _Incoming(_NO_FIELDS, [])
        self._outlet.open(stream)
        return stream

    def send(self, stream: int, block: bytes, body: bytes = b"", *, trailers: bytes = b"") -> None:
        """Our whole message on a stream: a header block, a body, and trailers' block; the latter two if not empty.

        Nothing is sent on a stream that the peer has given up.
        """
        self._outlet.send(stream, block, body, trailers)

    def reset(self, stream: int, code: ErrorCode) -> None:
        """Gives a stream up, both ways."""
        self._incoming.pop(stream, None)
        self._outlet.drop(stream)
        self._outlet.put(frames.reset(stream, code))

    def leave(self, code: ErrorCode = ErrorCode.NO_ERROR, text: str = "") -> None:
        """Tells the peer that we take no more streams."""
        self._outlet.put(frames.go_away(self._last_stream, code, text))

    # ---- reading

    def _read(self, data: bytes) -> None:
        at, size = 0, len(data)
        if self._awaits_preface:
            opening = frames.PREFACE
            if not opening.startswith(data[: len(opening)]):
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first bytes are no HTTP/2")
            if size < len(opening):
                self._unread = data
                return
            self._awaits_preface = False
            at = len(opening)
        while size - at >= frames.HEAD_BYTES:
            length = int.from_bytes(data[at : at + 3], "big")
            kind, flags = data[at + 3], data[at + 4]
            if length > frames.FRAME_BYTES_DEFAULT:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes; at most 16384 are allowed")
            start = at + frames.HEAD_BYTES
            if size - start < length:
                break
            stream = int.from_bytes(data[at + 5 : start], "big") & frames.WINDOW_MAX
            at = start + length
            self._frame(kind, flags, stream, data[start:at])
        self._unread = data[at:]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if not self._has_settings and kind != frames.SETTINGS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"the first frame is of kind {kind}; expected SETTINGS")
        if self._headers is not None and (kind != frames.CONTINUATION or stream != self._headers[0]):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block was interrupted")
        if kind == frames.DATA:
            self._data(flags, stream, payload)
        elif kind == frames.HEADERS:
            payload = _unpadded(flags, payload)
            if flags & frames.PRIORITIZED:
                payload = payload[5:]
            self._block(flags, stream, payload)
        elif kind == frames.WINDOW_UPDATE:
            _require_size(payload, 4)
            self._outlet.widen(stream, int.from_bytes(payload, "big") & frames.WINDOW_MAX)
        elif kind == frames.PING:
            _require_size(payload, 8)
            if not flags & frames.ACK:
                self._outlet.put(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.SETTINGS:
            self._settings(flags, stream, payload)
        elif kind == frames.CONTINUATION:
            self._continuation(flags, payload)
        elif kind == frames.RST_STREAM:
            _require_size(payload, 4)
            self._was_reset(stream, int.from_bytes(payload, "big"))
        elif kind == frames.GOAWAY:
            self._peer_leaves(payload)
        elif kind == frames.PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a pushed stream, which we have not allowed")
        # Anything else, PRIORITY and kinds to come, may be passed over (RFC 9113, 4.1 and 5.3.2).

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self._credit_used += len(payload)
        if self._credit_used >= _RETURN_CREDIT_AT:
            self._outlet.put(frames.window_update(0, self._credit_used))
            self._credit_used = 0
        incoming = self._incoming.get(stream)
        if incoming is None:
            self._require_seen(stream)
            return  # of a stream that we gave up: the peer had not heard yet
        if flags & frames.PADDED:
            payload = _unpadded(flags, payload)
        if payload and not incoming.is_discarded:
            incoming.chunks.append(payload)
            incoming.size += len(payload)
            if 0 < self._body_bytes_max < incoming.size:
                begun = b"".join(incoming.chunks)[:64]
                incoming.is_discarded, incoming.chunks = True, []
                self._events.append(MessageTooLong(stream, incoming.fields, begun))
        if flags & frames.END_STREAM:
            self._end(stream, incoming, _NO_FIELDS)

    def _block(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.END_HEADERS:
            self._fields(flags, stream, self._reader.read(payload))
        else:
            self._headers = (stream, flags, bytearray(payload))

    def _continuation(self, flags: int, payload: bytes) -> None:
        if self._headers is None:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the continuation of nothing")
        stream, first_flags, block = self._headers
        block += payload
        if len(block) > FIELDS_BYTES_MAX:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"headers of more than {FIELDS_BYTES_MAX} bytes")
        if flags & frames.END_HEADERS:
            self._headers = None
            self._fields(first_flags, stream, self._reader.read(bytes(block)))

    def _fields(self, flags: int, stream: int, fields: Fields) -> None:
        incoming = self._incoming.get(stream)
        if incoming is None:
            if stream <= self._last_stream or not self._is_server:
                self._require_seen(stream)
                return
            if not stream & 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {stream} of a client has an even number")
            self._last_stream = stream
            if len(self._incoming) >= self._streams_max:
                self._outlet.put(frames.reset(stream, ErrorCode.REFUSED_STREAM))
                return
            incoming = self._incoming[stream] = _Incoming(fields, [])
            self._outlet.open(stream)
        elif not incoming.fields:
            if fields.get(":status", "").startswith("1"):
                return  # an interim answer; the final one follows
            incoming.fields = fields
        elif flags & frames.END_STREAM:
            self._end(stream, incoming, fields)
            return
        else:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {stream} has headers twice")
        if flags & frames.END_STREAM:
            self._end(stream, incoming, _NO_FIELDS)

    def _end(self, stream: int, incoming: _Incoming, trailers: Fields) -> None:
        del self._incoming[stream]
        if not incoming.is_discarded:
            chunks = incoming.chunks
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            self._events.append(MessageEnded(stream, incoming.fields, body, trailers))

    def _was_reset(self, stream: int, code: int) -> None:
        self._require_seen(stream)
        was_open = self._incoming.pop(stream, None) is not None
        if self._outlet.drop(stream) or was_open:
            self._events.append(StreamReset(stream, code))

    def _require_seen(self, stream: int) -> None:
        """Raises Http2Error for a stream that was never opened: nothing can come on it."""
        if stream == 0 or stream > max(self._last_stream, self._next_stream - 2):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame for stream {stream}, which was never opened")

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream != 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "settings on a stream")
        self._has_settings = True
        if flags & frames.ACK:
            return
        if len(payload) % 6:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"settings of {len(payload)} bytes")
        for at in range(0, len(payload), 6):
            number, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            if number == frames.INITIAL_WINDOW_SIZE:
                self._outlet.set_window(value)
            elif number == frames.MAX_FRAME_SIZE:
                self._outlet.set_frame_size(value)
            # The size of the header table is no matter: what we write never uses it.
        self._outlet.put(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _peer_leaves(self, payload: bytes) -> None:
        if len(payload) < 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a GOAWAY of {len(payload)} bytes")
        last = int.from_bytes(payload[:4], "big") & frames.WINDOW_MAX
        text = payload[8:].decode(errors="replace")
        self._events.append(PeerLeaves(last, int.from_bytes(payload[4:8], "big"), text))


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & frames.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than there is frame")
    return payload[1 : len(payload) - payload[0]]


def _require_size(payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {len(payload)} bytes; expected {size}")
