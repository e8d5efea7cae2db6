"""The gRPC server of one player: it turns calls that are held open into requests that are answered late.

Everything runs on the EnvWorker's asyncio loop, and a call is handed on in the same turn of it in which its last byte
came. A port serves both generations of the protocol and belongs to one session: the connection and the service of the
first call. Calls of anybody else or on the other service, and a second call while one is open, are refused and change
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from typing import TypeVar

from runtime.errors import InternalError, PlayerDiedError, PlayerError, PortInUseError
from runtime.http2.unary import Call, Status
from runtime.players.places import Place
from runtime.players.ports import listening_socket, port_in_use, usable_addresses
from runtime.players.replies import CLOSING
from runtime.players.versions import EXCHANGE_PATH, EXCHANGE_PATH_GEN1, Generation
from runtime.players.wire_connection import STRANGERS_BYTES_MAX, WireConnection

MESSAGE_BYTES_UNLIMITED = -1

STRANGERS_MAX = 8
RELEASE_S = 0.5

_GENERATIONS: dict[str, Generation] = {EXCHANGE_PATH: 2, EXCHANGE_PATH_GEN1: 1}

Outcome = TypeVar("Outcome")

# The next request's body, a PlayerError that ended the session, or TimeoutError.
Heard = Callable[[bytes | PlayerError | TimeoutError], None]


class ExchangeServer:
    """Serves one port. `hear` (or `next_call`) waits for the player's next request, `answer` replies to it."""

    def __init__(
        self, place: Place, *, port: int, bind: str = "", message_bytes_max: int = MESSAGE_BYTES_UNLIMITED
    ) -> None:
        self._place = place
        self._port = port
        self._bind = bind
        self._message_bytes_max = message_bytes_max
        self._listeners: list[asyncio.Server] = []
        self._connections: dict[WireConnection, None] = {}
        self._last_gone = asyncio.Event()
        self._owner: WireConnection | None = None
        self._generation: Generation | None = None
        self._arrived: bytes | None = None
        self._open_call: Call | None = None
        self._heard: Heard | None = None
        self._alarm = _Alarm(self._expire)
        self._failure: PlayerError | None = None
        self._is_closing = False
        self.refused_calls = 0
        self.on_idle_failure: Callable[[PlayerError], None] = _ignore
        """Told when the session fails while nobody waits for a call."""
        self.describe_place: Callable[[], str] = lambda: place.environment
        """Says where the player is, for the error that it is lost."""

    @property
    def has_session(self) -> bool:
        """True once a player has called."""
        return self._owner is not None

    @property
    def generation(self) -> Generation | None:
        """The generation of the player, told by the service that it called; None before its first call."""
        return self._generation

    @property
    def is_asked(self) -> bool:
        """True while a call of the player is open, so that an answer would reach it."""
        return self._open_call is not None

    async def open(self) -> None:
        """Binds the port and listens. Raises PortInUseError.

        The listener of the player before may be held for a moment by a process that is being started: it is waited for.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + RELEASE_S
        while True:
            try:
                await self._listen()
            except (PortInUseError, OSError) as error:
                self._stop_listening()
                if isinstance(error, PortInUseError) and loop.time() < until_s:
                    await asyncio.sleep(RELEASE_S / 10)
                    continue
                await self.close(0.0)
                raise
            return

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for address in usable_addresses(self._bind, self._port, self._place):
                listener = await loop.create_server(self._connection, sock=listening_socket(address, self._port))
                self._listeners.append(listener)
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
            raise port_in_use(self._port, self._place, error.strerror or "") from error

    def hear(self, heard: Heard, timeout_s: float | None) -> None:
        """Calls `heard` once: with the body of the player's next request, or with what came instead.

        That is TimeoutError after `timeout_s` (None: never), or whatever `fail` was given. It may be called before this
        returns. Raises InternalError when somebody waits already.
        """
        if self._heard is not None:
            raise InternalError(f"{self._place.environment}: two exchanges at once; a link takes one after the other.")
        if self._failure is not None:
            heard(self._failure)
        elif self._arrived is not None:
            body, self._arrived = self._arrived, None
            heard(body)
        else:
            self._heard = heard
            if timeout_s is not None:
                self._alarm.set(timeout_s)

    async def next_call(self, timeout_s: float | None) -> bytes:
        """The same for who would rather wait. Raises TimeoutError, the PlayerError, and InternalError."""
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.hear(lambda outcome: settle(waiter, outcome), timeout_s)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._stop_waiting()
            raise

    def answer(self, body: bytes) -> None:
        """Replies to the open call. Without one, nothing happens: the player is gone, or was late."""
        call, self._open_call = self._open_call, None
        if call is not None and self._owner is not None:
            self._owner.answer(call.stream, body)

    def fail(self, error: PlayerError) -> None:
        """Ends the session: whoever waits for a call, now or later, gets this error. The first one counts."""
        if self._failure is not None:
            return
        self._failure = error
        if self._heard is not None:
            self._tell(error)
        else:
            self.on_idle_failure(error)

    def say_goodbye(self) -> bool:
        """Answers the open call, and all that follow, with the end. True when there was one that is open."""
        self._is_closing = True
        was_asked = self.is_asked
        self.answer(CLOSING)
        return was_asked

    async def close(self, grace_s: float) -> None:
        """Stops serving. Clients that have not left after the grace are cut off."""
        self._is_closing = True
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.leave()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last_gone.wait(), grace_s)
        for connection in tuple(self._connections):
            connection.abort()
        self._alarm.cancel()

    def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()

    # ---- what clients do

    def _connection(self) -> WireConnection:
        return WireConnection(self, self._connections)

    def take_connection(self, connection: WireConnection) -> None:
        """As in CallTaker. Of clients that are not the player the newest few may stay: a stranger cannot use us up."""
        strangers = [each for each in self._connections if each is not self._owner]
        for oldest in strangers[:-STRANGERS_MAX]:
            oldest.abort()

    def take_call(self, connection: WireConnection, call: Call) -> None:
        """As in CallTaker."""
        generation = _GENERATIONS.get(call.path)
        if generation is None:
            connection.refuse(call, Status.UNIMPLEMENTED, f"no method {call.path[:200]} here")
            return
        if self._owner is None and call.size:
            text = f"a first message of {call.size} bytes; the limit is {STRANGERS_BYTES_MAX}"
            self._refuse(connection, call, text)
            return
        if self._owner is None and not self._is_closing:
            self._owner, self._generation = connection, generation
            connection.trust(max(0, self._message_bytes_max))
        if connection is not self._owner:
            self._refuse(connection, call, f"port {self._port} already serves another player; one session per port")
        elif generation != self._generation:
            self._refuse(connection, call, "this session began on the service of the other generation")
        elif self._is_closing or self._failure is not None:
            connection.answer(call.stream, CLOSING)
        elif self._open_call is not None or self._arrived is not None:
            self._refuse(connection, call, "a call is open already; one exchange at a time")
        elif call.size:
            self._refuse(connection, call, f"a message of {call.size} bytes; the limit is {self._message_bytes_max}")
            self.fail(self._too_long(call.size))
        else:
            self._open_call = call
            if self._heard is not None:
                self._tell(call.body)
            else:
                self._arrived = call.body

    def take_loss(self, connection: WireConnection, stream: int | None, reason: str) -> None:
        """As in CallTaker."""
        if not self._connections:
            self._last_gone.set()
        if connection is not self._owner:
            return
        call = self._open_call
        if stream is not None and (call is None or call.stream != stream):
            return
        self._open_call = None
        if not self._is_closing:
            waited = " while it waited for an answer" if call is not None else ""
            self.fail(
                PlayerDiedError(
                    f"{self.describe_place()}: the player {reason}{waited}.",
                    env_id=self._place.env_id,
                    incarnation=self._place.incarnation,
                )
            )

    def _refuse(self, connection: WireConnection, call: Call, reason: str) -> None:
        self.refused_calls += 1
        connection.refuse(call, Status.RESOURCE_EXHAUSTED, reason)

    # ---- who waits

    def _tell(self, outcome: bytes | PlayerError | TimeoutError) -> None:
        heard = self._heard
        self._stop_waiting()
        if heard is not None:
            heard(outcome)

    def _expire(self) -> None:
        self._tell(TimeoutError())

    def _stop_waiting(self) -> None:
        self._heard = None
        self._alarm.disarm()

    def _too_long(self, size: int) -> PlayerError:
        """A player that was started again would say the same again, so this is no death."""
        return self._place.protocol_error(
            f"the player sent a message of {size} bytes, the limit is {self._message_bytes_max} (--message-bytes-max); "
            "the connection is broken off. Send less, or raise it."
        )


class _Alarm:
    """A deadline that is set for every exchange and hardly ever reached: its timer moves only when it rings early."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, after_s: float) -> None:
        """Ring after so many seconds."""
        loop = asyncio.get_running_loop()
        due_s = self._due_s = loop.time() + max(0.0, after_s)
        if self._timer is not None and self._timer.when() > due_s:
            self.cancel()
            self._due_s = due_s
        if self._timer is None:
            self._timer = loop.call_at(due_s, self._look)

    def disarm(self) -> None:
        """Do not ring; the timer stays for the next deadline."""
        self._due_s = None

    def cancel(self) -> None:
        """Leave nothing behind."""
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._due_s is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_s:
            self._timer = loop.call_at(self._due_s, self._look)
            return
        self._due_s = None
        self._ring()


def settle(waiter: asyncio.Future[Outcome], outcome: Outcome | Exception) -> None:
    """Gives a future its end, unless nobody waits for it any more."""
    if waiter.done():
        return
    if isinstance(outcome, Exception):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)


def _ignore(_error: PlayerError) -> None:
    """Nobody asked to be told."""
