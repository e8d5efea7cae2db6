"""Faults that need a process of the player's own: ending it, printing without end, children, a connection cut."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

from fakeunity.faults.plan import FaultPlan

_LINE = b"fakeunity prints because it was told to. " * 24 + b"\n"
_CHUNK = 65_536
_LINGER_ZERO = struct.pack("ii", 1, 0)
HOST = "localhost"


class ProcessBody:
    """The body of a player that is a process. relay: through which it dials, where a connection is to be cut."""

    def __init__(self) -> None:
        self.relay: Relay | None = None

    def crash(self, how: str) -> None:
        """Ends this process at once, without cleaning up, as a crash does."""
        if how.lstrip("-").isdigit():
            os._exit(int(how))
        number = signal.Signals[f"SIG{how}"]
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def flood(self, mib: float) -> None:
        """Prints that much to standard output, blocking while nobody reads it."""
        left = int(mib * (1 << 20))
        while left > 0:
            left -= os.write(1, _LINE[: min(left, len(_LINE))])

    def fork(self, seconds: float) -> None:
        """Starts a child in this process group that ignores hang-ups; its pid is printed."""
        program = f"import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); time.sleep({seconds!r})"
        child = subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.DEVNULL)
        os.write(1, b"child %d\n" % child.pid)

    def cut(self, after_bytes: int) -> None:
        """Resets the connection once so many bytes more are on their way to the trainer."""
        if self.relay is None:
            raise ValueError("a connection is cut by a relay; start one before the player dials")
        self.relay.cut(after_bytes)


class Relay:
    """Stands between the player and the trainer's `port`, on a port of its own, until it cuts the connection.

    It forwards bytes as they are. After a cut both sides get a reset (RST) and nobody is let in again.
    """

    def __init__(self, port: int) -> None:
        self._trainer_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._left: int | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self, after_bytes: int) -> None:
        """From now on this many bytes reach the trainer, and then none."""
        self._left = after_bytes

    def _serve(self) -> None:
        """One connection after the other, until one is cut."""
        with self._listener:
            while self._left is None:
                player, _ = self._listener.accept()
                try:
                    trainer = socket.create_connection((HOST, self._trainer_port))
                except OSError:
                    player.close()  # nobody is there yet; the player tries again
                    continue
                # One thread forwards both ways, so that nothing holds a socket that is to be reset.
                with player, trainer, contextlib.suppress(OSError):
                    self._forward(player, trainer)

    def _forward(self, player: socket.socket, trainer: socket.socket) -> None:
        """Until one of them ends, or the cut."""
        while True:
            ready, _, _ = select.select([player, trainer], [], [])
            for origin, to in ((player, trainer), (trainer, player)):
                if origin not in ready:
                    continue
                chunk = origin.recv(_CHUNK)
                if not chunk:
                    return
                left = self._left if origin is player else None
                to.sendall(chunk if left is None else chunk[:left])
                if left is not None:
                    self._left = left - len(chunk)
                    if len(chunk) >= left:
                        _reset_at_close(player, trainer)
                        return


def _reset_at_close(*ends: socket.socket) -> None:
    """A close neither waits nor says goodbye: the peer gets a reset."""
    for each in ends:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)


def port_to_dial(plan: FaultPlan, body: ProcessBody, port: int) -> int:
    """The trainer's port, or that of a relay where the plan may cut the connection."""
    if not any(fault.verb == "rst" for fault in plan.faults):
        return port
    body.relay = Relay(port)
    return body.relay.port


def wait_s(delay_s: float, sleep: Callable[[float], None]) -> None:
    """Lets `delay_s` seconds pass; an infinite number of them ends only with the process."""
    while delay_s == math.inf:
        signal.pause()
    if delay_s:
        sleep(delay_s)
