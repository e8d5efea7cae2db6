"""A player over gRPC: our server first, its process second, then one exchange after the other.

Whatever ends a wait, the reply, the deadline, a closed connection or the end of the process, ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping

from runtime.errors import PlayerDiedError, PlayerError, PlayerRefusalError, PlayerTimeoutError
from runtime.experience.actions import Actions
from runtime.experience.parameters import ParameterValue
from runtime.messages import EnvAssignment
from runtime.players.conversation import Conversation, Decoded
from runtime.players.links import LinkLimits, MessageTap, PlayerHello, PlayerReply, Told
from runtime.players.places import made
from runtime.players.process import PlayerProcess
from runtime.players.replies import CLOSING
from runtime.players.server import ExchangeServer, settle
from runtime.players.wire_connection import CLOSED

_EXIT_WORDS_S = 3.0
logger = logging.getLogger(__name__)


class GrpcPlayerLink:
    """A `PlayerLink` to a process that we launch, or to the Editor (no process), on the assignment's port.

    on_note: told, once, when a player has not connected within note_after_s. on_lost: told when the player is lost
    between two exchanges, which the next one would raise. Both may be set any time before `start`. open_tap: gives
    who hears every message, called by `start`.
    """

    def __init__(
        self,
        assignment: EnvAssignment,
        limits: LinkLimits,
        *,
        conversation: Conversation,
        process: PlayerProcess | None,
        server: ExchangeServer,
        note_after_s: float,
        open_tap: Callable[[], MessageTap | None] = lambda: None,
    ) -> None:
        self._assignment = assignment
        self._limits = limits
        self._talk = conversation
        self._process = process
        self._server = server
        self._note_after_s = note_after_s
        self._open_tap = open_tap
        self._tap: MessageTap | None = None
        self._is_closed = False
        self._telling: asyncio.Task[None] | None = None  # held, or it could be collected before its end
        self.on_note: Callable[[str], None] = _log_note
        self.on_lost: Callable[[PlayerError], None] = _ignore_loss
        self._server.on_idle_failure = self._note_idle_failure
        self._server.describe_place = self._where

    @property
    def pid(self) -> int:
        """The player's process id as soon as there is one, else 0."""
        return self._process.pid if self._process is not None else 0

    @property
    def conversation(self) -> Conversation:
        """The talk with this player: what it sent on side channels is there."""
        return self._talk

    async def start(self) -> PlayerHello:
        """Serves the port, launches the player, and waits until both agreed on a version.

        Raises PortInUseError, EnvironmentFactoryError, PlayerTimeoutError, PlayerDiedError, VersionMismatchError or
        PlayerProtocolError. The Editor may take as long as a person takes to press Play.
        """
        self._talk.open()
        self._tap = made("message tap", self._open_tap, self._talk.place)
        await self._server.open()
        note = None
        if self._process is not None:
            self._process.start(self._note_exit)
            note = asyncio.get_running_loop().call_later(self._note_after_s, self._tell_silence)
        else:
            self.on_note(
                f"{self._talk.place.environment}: listening on port {self._assignment.port}; "
                "press Play in the Unity Editor."
            )
        began = time.monotonic()
        try:
            introduction = await self._start_call(began)
            hello, answer = self._talk.meet(introduction, pid=self.pid, generation=self._server.generation)
            for text in self._talk.notes:
                self.on_note(text)
            self._say(answer)
            self._talk.hear_ready(await self._start_call(began))
        except (PlayerDiedError, PlayerRefusalError) as error:
            raise await self._death(error) from error
        finally:
            if note is not None:
                note.cancel()
        return hello

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        """Resets the player with these environment parameters; its first observations."""
        return await self._exchange(self._talk.reset_order(parameters, train_mode=train_mode))

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        """One env step. Raises ShapeError for wrong actions, before anything is sent, and PlayerErrors."""
        return await self._exchange(self._talk.step_order(actions))

    def step_then(self, actions: Mapping[str, Actions], told: Told) -> None:
        """As in `PromptLink`."""
        self._exchange_then(self._talk.step_order(actions), told)

    def tell(self, parameters: Mapping[str, ParameterValue]) -> None:
        """As in `ToldLink`."""
        self._talk.tell(parameters)

    async def close(self) -> None:
        """Ends the player: tells it to leave, waits the grace if it was listening, then terminates and kills it."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._telling is not None:
            self._telling.cancel()
        was_listening = self._server.say_goodbye()
        if self._tap is not None:
            if was_listening:
                self._tap.on_bytes("trainer", CLOSING)
            self._tap.close()
        if self._process is not None:
            await self._process.end(self._limits.close_timeout_s if was_listening else 0.0)
        await self._server.close(self._limits.close_timeout_s if was_listening and self._process is None else 0.1)

    def _say(self, body: bytes) -> None:
        if self._tap is not None:
            self._tap.on_bytes("trainer", body)
        self._server.answer(body)

    async def _next_call(self, timeout_s: float | None) -> bytes:
        body = await self._server.next_call(timeout_s)
        if self._tap is not None:
            self._tap.on_bytes("player", body)
        return body

    async def _exchange(self, order: bytes) -> PlayerReply:
        outcome: asyncio.Future[PlayerReply] = asyncio.get_running_loop().create_future()
        self._exchange_then(order, lambda reply: settle(outcome, reply))
        try:
            return await outcome
        except asyncio.CancelledError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """As in `PromptLink`."""
        # The reply may still come, and must not be taken for the reply to another order.
        self._server.fail(self._died(f"{self._where()}: the exchange was abandoned; close this link."))

    def _exchange_then(self, order: bytes, told: Told) -> None:
        self._say(order)
        self._server.hear(lambda outcome: self._heard(outcome, told), self._limits.step_timeout_s)

    def _heard(self, outcome: bytes | PlayerError | TimeoutError, told: Told) -> None:
        """Turns a call's bytes, or what came instead, into what `told` is told."""
        if isinstance(outcome, bytes):
            try:
                if self._tap is not None:
                    self._tap.on_bytes("player", outcome)
                if self._talk.shows_pictures:
                    self._decode_aside(outcome, told)
                    return
                reply = self._talk.accept(outcome)
            except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it is
                self._tell_failure(error, told)
            else:
                told(reply)
        elif isinstance(outcome, TimeoutError):
            failure = self._silence("answered", self._limits.step_timeout_s, "--step-timeout (or --timeout-wait)")
            self._server.fail(failure)
            told(failure)
        else:
            self._tell_failure(outcome, told)

    def _decode_aside(self, body: bytes, told: Told) -> None:
        """Decodes on another thread: images take milliseconds, in which other players of this loop can go on."""

        def conclude(decoding: asyncio.Future[Decoded]) -> None:
            if decoding.cancelled():
                return
            try:
                reply = self._talk.conclude(decoding.result())
            except Exception as error:  # noqa: BLE001 - as above
                self._tell_failure(error, told)
            else:
                told(reply)

        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._talk.decode, body).add_done_callback(conclude)

    def _tell_failure(self, failure: Exception, told: Told) -> None:
        if isinstance(failure, PlayerDiedError | PlayerRefusalError):
            self._telling = asyncio.get_running_loop().create_task(self._tell_death(failure, told))
        else:
            told(failure)

    async def _tell_death(self, error: PlayerError, told: Told) -> None:
        told(await self._death(error))

    async def _start_call(self, began: float) -> bytes:
        limit = self._limits.start_timeout_s
        try:
            return await self._next_call(None if self._process is None else began + limit - time.monotonic())
        except TimeoutError as error:
            failure = self._silence("connected", limit, "--timeout-wait")
            self._server.fail(failure)
            raise failure from error
        except PlayerDiedError as error:
            raise await self._death(error) from error

    def _note_exit(self) -> None:
        """The process has ended: whoever waits learns it now."""
        refusal = self._process.refusal if self._process is not None else None
        self._server.fail(refusal or self._died(f"{self._where()}: the player died; {_closed(self._exit_words())}"))

    def _note_idle_failure(self, error: PlayerError) -> None:
        if not self._is_closed:
            self._telling = asyncio.get_running_loop().create_task(self._tell_loss(error))

    async def _tell_loss(self, error: PlayerError) -> None:
        told = await self._death(error) if isinstance(error, PlayerDiedError) else error
        if not self._is_closed:
            self.on_lost(told)

    async def _death(self, error: PlayerError) -> PlayerError:
        """The same error with how the process ended, for which a closed connection is only the first sign."""
        self._server.say_goodbye()  # a player that is closing waits for an answer before it leaves
        text = str(error)
        if self._process is not None and await self._process.wait(_EXIT_WORDS_S) and self._exit_words() not in text:
            # Which of the two ends is seen first is chance: a player whose process has ended died.
            sign = text.rstrip(".").replace(f"the player {CLOSED}", "the player died", 1)
            text = f"{sign}; {_closed(self._exit_words())}"
        if isinstance(error, PlayerRefusalError):
            return PlayerRefusalError(text, env_id=error.env_id, incarnation=error.incarnation)
        return self._died(text)

    def _died(self, text: str) -> PlayerDiedError:
        return PlayerDiedError(text, env_id=self._assignment.env_id, incarnation=self._assignment.incarnation)

    def _exit_words(self) -> str:
        return self._process.describe_exit() if self._process is not None else ""

    def _where(self) -> str:
        place = self._talk.place
        return (
            f"{place.environment}, env step {place.step}" if self._server.has_session else f"{place.environment}, start"
        )

    def _silence(self, verb: str, limit_s: float, option: str) -> PlayerTimeoutError:
        causes = (
            "It may wait for input in a window, use no Decision Requester or another behavior type than Default, "
            "need -nographics on a machine without a screen, or have been built for an incompatible version"
            if verb == "connected"
            else "It may wait for input in a window, compute for long between two decisions, or hang"
        )
        return PlayerTimeoutError(
            f"{self._where()}: the player has not {verb} for {limit_s:.1f} s; {self._situation()}. {causes}. "
            f"Look at its log, or raise {option}.",
            env_id=self._assignment.env_id,
            incarnation=self._assignment.incarnation,
        )

    def _situation(self) -> str:
        if self._process is None:
            return f"port {self._assignment.port}, no process of ours"
        log = f"log {self._process.log}" if self._process.log is not None else "no log file"
        return f"port {self._assignment.port}, {log}, {self._exit_words()}"

    def _tell_silence(self) -> None:
        if not self._server.has_session:
            with contextlib.suppress(Exception):
                self.on_note(
                    f"{self._talk.place.environment}: the player has not connected within {self._note_after_s:g} s; "
                    f"{self._situation()}. Waiting until {self._limits.start_timeout_s:g} s have passed "
                    "(--timeout-wait)."
                )


def _closed(words: str) -> str:
    """A sentence with its full stop; one that ends in lines of a log ends with them."""
    return words if "\n" in words else f"{words}."


def _log_note(text: str) -> None:
    logger.warning(text)


def _ignore_loss(_error: PlayerError) -> None:
    """The next exchange tells."""
