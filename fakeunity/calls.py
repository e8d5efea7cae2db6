"""Unary gRPC calls over one blocking socket: what a player needs of a gRPC client, and nothing more.

A general client costs a player several times what its world does. The HTTP/2 beneath is `runtime.http2`; tests hold it
against the released libraries from both sides.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Self

from runtime.http2.frames import Http2Error
from runtime.http2.unary import ClientSide, Status

HOST = "localhost"
RETRY_S = 0.1
DIAL_S_MAX = 5.0
_READ_BYTES = 1 << 18
_USER_AGENT = "fakeunity"


class TrainerGoneError(Exception):
    """The trainer cannot be reached, has closed the connection, or has refused a call."""


class Channel:
    """A connection to a trainer on this machine, for calls of one method. Use it as a context."""

    def __init__(self, port: int, path: str, connection: socket.socket) -> None:
        self._socket = connection
        self._timeout_s = connection.gettimeout()
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._side = ClientSide(authority=f"{HOST}:{port}", path=path, user_agent=_USER_AGENT)

    @classmethod
    def dial(cls, port: int, path: str, *, connect_s: float) -> Self | None:
        """A connection to whoever serves `port` as HTTP/2 within `connect_s` seconds; None when nobody does."""
        due_s = time.monotonic() + connect_s
        while True:
            left_s = due_s - time.monotonic()
            channel = cls._tried(port, path, min(DIAL_S_MAX, max(0.05, left_s)))
            if channel is not None:
                return channel
            if left_s <= RETRY_S:
                return None
            time.sleep(RETRY_S)

    @classmethod
    def _tried(cls, port: int, path: str, limit_s: float) -> Self | None:
        """One try at each of the host's addresses, until one answers as a server of HTTP/2 does."""
        with contextlib.suppress(OSError):
            connection = socket.create_connection((HOST, port), timeout=limit_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = cls(port, path, connection)
            with contextlib.suppress(TrainerGoneError, OSError):
                channel._greet()
                connection.settimeout(None)
                channel._timeout_s = None
                return channel
            connection.close()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Says that no more calls will come, and closes the connection."""
        with contextlib.suppress(OSError):
            self._side.leave()
            self._send()
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def exchange(self, body: bytes, *, timeout_s: float | None = None) -> bytes:
        """The answer to a call. timeout_s: for each wait on the way; None for a trainer that may think for hours.

        Raises TrainerGoneError.
        """
        if timeout_s != self._timeout_s:  # a system call, which most exchanges can do without
            self._socket.settimeout(timeout_s)
            self._timeout_s = timeout_s
        try:
            stream = self._side.call(body)
            self._send()
            while True:
                for answer in self._side.receive(self._read()):
                    if answer.stream == stream:
                        if answer.status != Status.OK:
                            raise TrainerGoneError(f"{_name(answer.status)}: {answer.text}")
                        self._send()
                        return answer.body
                self._send()
        except (OSError, Http2Error) as error:
            raise TrainerGoneError(str(error) or type(error).__name__) from error

    def _greet(self) -> None:
        self._send()
        while not self._side.is_ready:
            self._side.receive(self._read())
            self._send()

    def _read(self) -> bytes:
        # `recv` would make bytes of the largest size each time, which the C library gets from the system and returns.
        size = self._socket.recv_into(self._buffer)
        if not size:
            raise TrainerGoneError("the connection was closed")
        return bytes(self._view[:size])

    def _send(self) -> None:
        if out := self._side.take_outgoing():
            self._socket.sendall(out)


def _name(status: int) -> str:
    return Status(status).name if status in Status.__members__.values() else f"status {status}"
