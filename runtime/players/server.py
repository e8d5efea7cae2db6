"""The gRPC server of one player: it turns calls that are held open into requests that are answered late.

Everything runs on the EnvWorker's asyncio loop. A port serves both generations of the protocol and belongs to one
session: the connection and the service of the first call. Calls of anybody else or on the other service, and a second
call while one is open, are refused and change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from runtime.errors import InternalError, PlayerDiedError, PlayerError
from runtime.players.places import Place
from runtime.players.ports import endpoint, port_in_use, usable_addresses
from runtime.players.replies import CLOSING
from runtime.players.versions import EXCHANGE_PATH, EXCHANGE_PATH_GEN1, Generation

MESSAGE_BYTES_UNLIMITED = -1

# gRPC drops what is too long without a word to us, so it is asked to let this many times more through, to be named.
_NAMED_TIMES = 4


class ExchangeServer:
    """Serves one port. `next_call` waits for the player's next request, `answer` replies to it."""

    def __init__(
        self, place: Place, *, port: int, bind: str = "", message_bytes_max: int = MESSAGE_BYTES_UNLIMITED
    ) -> None:
        self._place = place
        self._port = port
        self._bind = bind
        self._message_bytes_max = message_bytes_max
        received_max = message_bytes_max * _NAMED_TIMES if message_bytes_max > 0 else MESSAGE_BYTES_UNLIMITED
        self._options = (
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", received_max),
            ("grpc.max_send_message_length", MESSAGE_BYTES_UNLIMITED),
        )
        self._server: grpc.aio.Server | None = None
        self._owner: str | None = None
        self._generation: Generation | None = None
        self._arrived: bytes | None = None
        self._reply: asyncio.Future[bytes] | None = None
        self._waiter: asyncio.Future[bytes] | None = None
        self._failure: PlayerError | None = None
        self._is_closing = False
        self.refused_calls = 0
        self.on_idle_failure: Callable[[PlayerError], None] = _ignore
        """Told when the session fails while nobody waits for a call."""

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
        return self._reply is not None

    async def open(self) -> None:
        """Binds the port and listens. Raises PortInUseError."""
        addresses = usable_addresses(self._bind, self._port, self._place)
        server = grpc.aio.server(options=self._options)
        for path, behaviour in ((EXCHANGE_PATH, self._exchange_gen2), (EXCHANGE_PATH_GEN1, self._exchange_gen1)):
            service, method = path.strip("/").split("/")
            handlers = {method: grpc.unary_unary_rpc_method_handler(behaviour)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        try:
            for address in addresses:
                server.add_insecure_port(endpoint(address, self._port))
        except RuntimeError as error:
            await server.stop(None)
            raise port_in_use(self._port, self._place) from error
        await server.start()
        self._server = server

    async def next_call(self, timeout_s: float | None) -> bytes:
        """The body of the player's next request.

        Raises TimeoutError after `timeout_s` (None: never), and whatever `fail` was given; InternalError when somebody
        waits already.
        """
        if self._waiter is not None:
            raise InternalError(f"{self._place.environment}: two exchanges at once; a link takes one after the other.")
        if self._failure is not None:
            raise self._failure
        if self._arrived is not None:
            body, self._arrived = self._arrived, None
            return body
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bytes] = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(max(0.0, timeout_s), _expire, waiter)
        self._waiter = waiter
        try:
            return await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def answer(self, body: bytes) -> None:
        """Replies to the open call. Without one, nothing happens: the player is gone, or was late."""
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_result(body)

    def fail(self, error: PlayerError) -> None:
        """Ends the session: whoever waits for a call, now or later, gets this error. The first one counts."""
        if self._failure is not None:
            return
        self._failure = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        elif self._waiter is None:
            self.on_idle_failure(error)

    def say_goodbye(self) -> bool:
        """Answers the open call, and all that follow, with the end. True when there was one that is open."""
        self._is_closing = True
        was_asked = self.is_asked
        self.answer(CLOSING)
        return was_asked

    async def close(self, grace_s: float) -> None:
        """Stops serving. Calls still open after the grace are cut."""
        self._is_closing = True
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s)

    async def _exchange_gen1(self, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return await self._exchange(body, context, 1)

    async def _exchange_gen2(self, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return await self._exchange(body, context, 2)

    async def _exchange(
        self, body: bytes, context: grpc.aio.ServicerContext[bytes, bytes], generation: Generation
    ) -> bytes:
        if self._owner is None and not self._is_closing:
            self._owner, self._generation = context.peer(), generation
        if context.peer() != self._owner:
            await self._refuse(context, f"port {self._port} already serves another player; one session per port")
        if generation != self._generation:
            await self._refuse(context, "this session began on the service of the other generation")
        if self._is_closing or self._failure is not None:
            return CLOSING
        if self._reply is not None or self._arrived is not None:
            await self._refuse(context, "a call is open already; one exchange at a time")
        if 0 < self._message_bytes_max < len(body):
            self.fail(self._too_long(len(body)))
            await self._refuse(context, f"a message of {len(body)} bytes; the limit is {self._message_bytes_max}")
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._reply = reply
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(body)
        else:
            self._arrived = body
        try:
            return await reply
        finally:
            if not reply.done() or reply.cancelled():
                self._hang_up()

    def _too_long(self, size: int) -> PlayerError:
        """A player that was started again would say the same again, so this is no death."""
        return self._place.protocol_error(
            f"the player sent a message of {size} bytes, the limit is {self._message_bytes_max} (--message-bytes-max); "
            "the connection is broken off. Send less, or raise it."
        )

    def _hang_up(self) -> None:
        self._reply = None
        if not self._is_closing:
            self.fail(
                PlayerDiedError(
                    f"{self._place.environment}: the player closed the connection while it waited for an answer.",
                    env_id=self._place.env_id,
                    incarnation=self._place.incarnation,
                )
            )

    async def _refuse(self, context: grpc.aio.ServicerContext[bytes, bytes], reason: str) -> None:
        self.refused_calls += 1
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)


def _expire(waiter: asyncio.Future[bytes]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


def _ignore(_error: PlayerError) -> None:
    """Nobody asked to be told."""
