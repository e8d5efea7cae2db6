"""What leaves a connection: frames in order, bodies within the peer's windows (RFC 9113, 5.2 and 6.9)."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.http2 import frames
from runtime.http2.frames import ErrorCode, Http2Error


@dataclass(slots=True)
class _Outgoing:
    """Our side of one stream. window: bytes that it may still carry. body: what waits; trailers: what follows it."""

    window: int
    body: memoryview | None = None
    trailers: bytes = b""


class Outlet:
    """Frames for the peer, and the bodies that wait until it lets us go on."""

    def __init__(self) -> None:
        self._ready: list[bytes] = []
        self._streams: dict[int, _Outgoing] = {}
        self._window = frames.WINDOW_DEFAULT
        self._stream_window = frames.WINDOW_DEFAULT
        self._frame_bytes = frames.FRAME_BYTES_DEFAULT

    def put(self, raw: bytes) -> None:
        """Bytes that wait for nothing."""
        self._ready.append(raw)

    def take(self) -> bytes:
        """All that may leave now."""
        ready = self._ready
        if not ready:
            return b""
        self._ready = []
        return ready[0] if len(ready) == 1 else b"".join(ready)

    def open(self, stream: int) -> None:
        """A stream on which one message of ours may leave."""
        self._streams[stream] = _Outgoing(self._stream_window)

    def drop(self, stream: int) -> bool:
        """Forgets a stream; whether our message on it had not left yet."""
        return self._streams.pop(stream, None) is not None

    def send(self, stream: int, block: bytes, body: bytes, trailers: bytes) -> None:
        """Headers at once, the body as far as the windows reach, trailers after it. Nothing on a stream that is gone.

        block, trailers: header blocks of at most 16,384 bytes.
        """
        outgoing = self._streams.get(stream)
        if outgoing is None:
            return
        size = len(body)
        self._ready.append(_headers(stream, block, ends=not size and not trailers))
        if size > self._frame_bytes or size > self._window or size > outgoing.window:
            outgoing.body, outgoing.trailers = memoryview(body), trailers
            self._pump(stream, outgoing)
            return
        if size:
            self._window -= size
            self._ready.append(frames.frame(frames.DATA, 0 if trailers else frames.END_STREAM, stream, body))
        if trailers:
            self._ready.append(_headers(stream, trailers, ends=True))
        del self._streams[stream]

    def widen(self, stream: int, more: int) -> None:
        """The peer takes `more` bytes: on one stream, or in all for stream 0. Raises Http2Error for too many."""
        if more == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream == 0:
            self._window = _grown(self._window, more)
            for each, outgoing in list(self._streams.items()):
                self._pump(each, outgoing)
            return
        widened = self._streams.get(stream)
        if widened is not None:
            widened.window = _grown(widened.window, more)
            self._pump(stream, widened)

    def set_window(self, size: int) -> None:
        """How much the peer takes on a new stream; those that are open change by the difference."""
        if size > frames.WINDOW_MAX:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {size} bytes")
        more, self._stream_window = size - self._stream_window, size
        for stream, outgoing in list(self._streams.items()):
            outgoing.window = _grown(outgoing.window, more)
            self._pump(stream, outgoing)

    def set_frame_size(self, size: int) -> None:
        """The longest frame that the peer takes."""
        if not frames.FRAME_BYTES_DEFAULT <= size <= frames.FRAME_BYTES_LIMIT:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a largest frame of {size} bytes")
        self._frame_bytes = size

    def _pump(self, stream: int, outgoing: _Outgoing) -> None:
        """Sends as much of a waiting body as fits."""
        body = outgoing.body
        if body is None:
            return
        while body:
            size = min(len(body), self._frame_bytes, self._window, outgoing.window)
            if size <= 0:
                outgoing.body = body
                return
            is_last = size == len(body) and not outgoing.trailers
            flags = frames.END_STREAM if is_last else 0
            self._ready.append(frames.frame(frames.DATA, flags, stream, bytes(body[:size])))
            self._window -= size
            outgoing.window -= size
            body = body[size:]
        if outgoing.trailers:
            self._ready.append(_headers(stream, outgoing.trailers, ends=True))
        del self._streams[stream]


def _headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    flags = frames.END_HEADERS | (frames.END_STREAM if ends else 0)
    return frames.frame(frames.HEADERS, flags, stream, block)


def _grown(window: int, more: int) -> int:
    if window + more > frames.WINDOW_MAX:
        raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window of more than 2,147,483,647 bytes")
    return window + more
