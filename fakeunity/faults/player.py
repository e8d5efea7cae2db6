"""A player that does what its plan of faults says, whatever carries its bytes."""

from __future__ import annotations

import math
import random
from typing import Protocol

from fakeunity.faults.clock import CrashOrderedError, FaultClock, HangOrderedError
from fakeunity.faults.plan import Fault
from fakeunity.faults.wire import SPOILERS, spoiled

FOREVER_S = math.inf


class Talker(Protocol):
    """A player as its link sees it: the first call, and the call that follows on each reply."""

    def hello(self) -> bytes | None:
        """The first call; None when the player has ended."""

    def reply(self, message: bytes) -> bytes | None:
        """The call that follows on a reply; None when the player ends."""

    def close(self) -> None:
        """Ends the player; harmless twice."""


class Body(Protocol):
    """What a player can do to the process and the connection that it has."""

    def crash(self, how: str) -> None:
        """Ends the process by an exit code or a signal's name; in a process of somebody else, raises."""

    def flood(self, mib: float) -> None:
        """Prints that much."""

    def fork(self, seconds: float) -> None:
        """Starts a child that outlives the player, for that long."""

    def cut(self, after_bytes: int) -> None:
        """Resets the connection once so many bytes more are on their way."""


class HostedBody:
    """A player inside somebody else's process: it can fail and be silent, and nothing else."""

    def crash(self, how: str) -> None:
        """Raises CrashOrderedError."""
        raise CrashOrderedError(how)

    def flood(self, mib: float) -> None:
        """Refused when the player is opened."""
        raise self._impossible(f"flood of {mib} MiB")

    def fork(self, seconds: float) -> None:
        """Refused when the player is opened."""
        raise self._impossible(f"child for {seconds} s")

    def cut(self, after_bytes: int) -> None:
        """Refused when the player is opened."""
        raise self._impossible(f"connection to cut after {after_bytes} bytes")

    @staticmethod
    def _impossible(what: str) -> ValueError:
        return ValueError(f"a player in somebody else's process has no {what}; use link=grpc")


class FaultyPlayer:
    """`player`, whose world tells `clock` its phases, with the faults of that clock. seed: for delays."""

    def __init__(self, player: Talker, clock: FaultClock, *, body: Body, seed: str) -> None:
        self._player = player
        self._clock = clock
        self._body = body
        self._random = random.Random(seed)
        self._delay_s = 0.0
        self._hits: dict[Fault, int] = {}
        self._has_connected = False
        self._is_silent = False

    @property
    def fired(self) -> list[str]:
        """What happened so far."""
        return self._clock.fired

    def connect(self) -> None:
        """What happens before the player dials; once."""
        if not self._has_connected:
            self._has_connected = True
            self._clock.enter("connect")
            self._act()

    def hello(self) -> bytes | None:
        """The first call."""
        self.connect()
        if self._is_silent:
            return b""
        call = self._player.hello()
        self._clock.enter("handshake")
        return self._sent(call)

    def reply(self, message: bytes) -> bytes | None:
        """The call that follows on a reply of the trainer; never heard of when the player hangs."""
        if self._is_silent:
            return b""
        self._clock.begin_exchange()
        try:
            call = self._player.reply(message)
        except HangOrderedError:
            return self._silent()
        except CrashOrderedError as crash:
            self._body.crash(crash.how)
            raise
        if call is None:
            self._clock.enter("close")
        return self._sent(call)

    def take_delay_s(self) -> float:
        """How long to wait before the last call goes out; infinite for ever. Asked for once."""
        if self._is_silent:
            return FOREVER_S
        delay_s, self._delay_s = self._delay_s, 0.0
        return delay_s

    def close(self) -> None:
        """Ends the player."""
        self._player.close()

    def _sent(self, call: bytes | None) -> bytes | None:
        self._act()
        if call is None:
            return None
        if self._is_silent:
            return b""
        for fault in self._clock.due(*SPOILERS):
            call = spoiled(call, fault)
        return call

    def _act(self) -> None:
        for fault in self._clock.due("delay"):
            self._delay_s += self._delay_of(fault)
        for fault in self._clock.due("fork"):
            self._body.fork(float(fault.value("s")))
        for fault in self._clock.due("flood"):
            self._body.flood(float(fault.value("mib")))
        for fault in self._clock.due("rst"):
            self._body.cut(fault.whole("bytes"))
        for fault in self._clock.due("crash"):
            self._body.crash(str(fault.value("how")))
        if any(self._clock.due("hang")):
            self._silent()

    def _silent(self) -> bytes:
        self._is_silent = True
        return b""

    def _delay_of(self, fault: Fault) -> float:
        hits = self._hits[fault] = self._hits.get(fault, -1) + 1
        delay_ms = float(fault.value("ms")) + hits * float(fault.value("grow"))
        sigma = float(fault.value("sigma"))
        return (self._random.lognormvariate(math.log(delay_ms), sigma) if sigma and delay_ms else delay_ms) / 1000.0
