"""A player inside the EnvWorker's process: the same conversation and the same bytes, without a socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from runtime.errors import (
    EnvironmentFactoryError,
    PlayerDiedError,
    PlayerError,
    PlayerRefusalError,
    PlayerTimeoutError,
    UsageError,
)
from runtime.experience.actions import Actions
from runtime.experience.parameters import ParameterValue
from runtime.messages import EnvAssignment
from runtime.players.conversation import Conversation
from runtime.players.links import LinkLimits, MessageTap, PlayerHello, PlayerReply
from runtime.players.places import made
from runtime.players.replies import CLOSING


class BytePlayer(Protocol):
    """A player that is called instead of calling: what `fakeunity.memory.open_player` gives."""

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The player's next call; with None the first one. None when the player has ended.

        What it raises is the player's end. An exception with a true `is_final` says that a player started again would
        raise it too.
        """

    def next_delay_s(self) -> float:
        """How long to wait, without blocking, before that call is looked at."""

    def close(self) -> None:
        """Ends the player; harmless twice."""


class MemoryPlayerLink:
    """A `PlayerLink` to a `BytePlayer`, which `open_player` makes at `start`.

    open_tap: gives who hears every message; called by `start`.
    """

    def __init__(
        self,
        assignment: EnvAssignment,
        limits: LinkLimits,
        *,
        conversation: Conversation,
        open_player: Callable[[], BytePlayer],
        open_tap: Callable[[], MessageTap | None] = lambda: None,
    ) -> None:
        self._assignment = assignment
        self._limits = limits
        self._talk = conversation
        self._open_player = open_player
        self._open_tap = open_tap
        self._tap: MessageTap | None = None
        self._player: BytePlayer | None = None

    @property
    def pid(self) -> int:
        """0: the player has no process of its own."""
        return 0

    @property
    def conversation(self) -> Conversation:
        """The talk with this player: what it sent on side channels is there."""
        return self._talk

    async def start(self) -> PlayerHello:
        """Opens the player and agrees on a version. Raises as `GrpcPlayerLink.start` does, but never for a port."""
        self._talk.open()
        self._tap = made("message tap", self._open_tap, self._talk.place)
        try:
            self._player = self._open_player()
        except (UsageError, OSError) as error:
            raise self._lost(EnvironmentFactoryError, f"could not be opened: {error}") from error
        limit = self._limits.start_timeout_s
        began = time.monotonic()
        hello, answer = self._talk.meet(await self._call(None, limit), pid=0)
        self._talk.hear_ready(await self._call(answer, limit - (time.monotonic() - began)))
        return hello

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        """Resets the player with these environment parameters; its first observations."""
        order = self._talk.reset_order(parameters, train_mode=train_mode)
        return self._talk.accept(await self._call(order, self._limits.step_timeout_s))

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        """One env step. Raises ShapeError for wrong actions, before anything is sent, and PlayerErrors."""
        order = self._talk.step_order(actions)
        return self._talk.accept(await self._call(order, self._limits.step_timeout_s))

    def tell(self, parameters: Mapping[str, ParameterValue]) -> None:
        """As in `ToldLink`."""
        self._talk.tell(parameters)

    async def close(self) -> None:
        """Tells the player to leave and closes it. Never raises; a second call does nothing."""
        player, self._player = self._player, None
        if player is not None:
            try:
                player.exchange(CLOSING)
            except Exception:  # noqa: BLE001, S110 - a player that fails while it leaves has left
                pass
            finally:
                player.close()
        tap, self._tap = self._tap, None
        if tap is not None:
            if player is not None:
                tap.on_bytes("trainer", CLOSING)
            tap.close()

    async def _call(self, reply: bytes | None, limit_s: float) -> bytes:
        if self._player is None:
            raise self._died("is closed")
        if self._tap is not None and reply is not None:
            self._tap.on_bytes("trainer", reply)
        try:
            call = self._player.exchange(reply)
            delay_s = self._player.next_delay_s()
        except Exception as error:
            if getattr(error, "is_final", False):
                text = f"does not take what it was told, and would not if it were started again: {error}"
                raise self._lost(PlayerRefusalError, text) from error
            raise self._died(f"failed: {type(error).__name__}: {error}") from error
        if delay_s > 0.0:
            await asyncio.sleep(min(delay_s, max(0.0, limit_s)))
        if delay_s > limit_s:
            raise self._lost(
                PlayerTimeoutError,
                f"has not answered for {limit_s:.1f} s; it runs in this process, with a delay of its own. "
                "Raise --step-timeout (or --timeout-wait).",
            )
        if call is None:
            raise self._died("has ended")
        if self._tap is not None:
            self._tap.on_bytes("player", call)
        return call

    def _died(self, text: str) -> PlayerError:
        return self._lost(PlayerDiedError, f"{text}; expected an answer.")

    def _lost(self, kind: type[PlayerError], text: str) -> PlayerError:
        place = self._talk.place
        return kind(
            f"{place.environment}, env step {place.step}: the player in memory {text}",
            env_id=place.env_id,
            incarnation=place.incarnation,
        )
