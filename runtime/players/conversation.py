"""What is said to a player and heard from it, in order, whatever carries it: handshake, resets, steps.

One object per incarnation. It holds no socket, no process and no clock; links give it bytes and carry its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runtime.errors import PlayerDiedError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo
from runtime.messages import EnvAssignment
from runtime.players.codec import STATUS_OK, Known, decode_reply, parse_message
from runtime.players.handshake import encode_answer, hello, introduction, require_version
from runtime.players.links import PlayerHello, PlayerReply
from runtime.players.places import Place
from runtime.players.replies import encode_reset, encode_step, require_actions
from runtime.players.side_channels import (
    EngineSettings,
    SideChannelInbox,
    engine_configuration,
    environment_parameters,
)
from runtime.players.wire import communicator_pb2 as pb


class Conversation:
    """One side of the talk with one player: orders out, replies in."""

    def __init__(self, assignment: EnvAssignment, engine: EngineSettings, *, num_areas: int = 1) -> None:
        self._assignment = assignment
        self._engine = engine
        self._num_areas = num_areas
        self._place = Place(assignment.env_id, assignment.incarnation)
        self._known = Known()
        self._waiting: AllBrainInfo = {}
        self._speed: float | None = None
        self.side_channels = SideChannelInbox()

    @property
    def place(self) -> Place:
        """Where we are: environment, incarnation and the number of the env step that is under way."""
        return self._place

    def meet(self, body: bytes, *, pid: int) -> tuple[PlayerHello, bytes]:
        """The player's introduction, and our answer to it.

        Raises VersionMismatchError, PlayerProtocolError, or PlayerDiedError when the player is closing.
        """
        told = introduction(self._heard(body), self._place)
        require_version(told, self._place)
        return hello(told, pid=pid), encode_answer(told, seed=self._assignment.seed, num_areas=self._num_areas)

    def hear_ready(self, body: bytes) -> None:
        """Takes the player's second call, which asks for the first order and says nothing else."""
        self._heard(body)

    def reset_order(self, parameters: Mapping[str, float], *, train_mode: bool) -> bytes:
        """The order to reset, with these parameters, and with engine settings when they change.

        train_mode False asks for the normal speed of the game.
        """
        settings = self._engine if train_mode else replace(self._engine, time_scale=1.0)
        changes = engine_configuration(settings) if settings.time_scale != self._speed else b""
        self._speed = settings.time_scale
        self._place = replace(self._place, step=0)
        return encode_reset(changes + environment_parameters(parameters))

    def step_order(self, actions: Mapping[str, Actions]) -> bytes:
        """The order to step. Raises ShapeError, and nothing changes, unless each waiting agent has an action."""
        require_actions(actions, self._waiting, self._known.brains)
        self._place = replace(self._place, step=self._place.step + 1)
        return encode_step(actions)

    def accept(self, body: bytes) -> PlayerReply:
        """The rows in the player's reply. Raises a PlayerError that names where the fault is."""
        message = self._heard(body)
        reply, known = decode_reply(message, self._known, self._place)
        side_channel = message.unity_output.rl_output.side_channel
        if side_channel:
            self.side_channels.accept(side_channel, self._place)
        self._known, self._waiting = known, reply.infos
        return reply

    def _heard(self, body: bytes) -> pb.UnityMessageProto:
        message = parse_message(body, self._place)
        if message.header.status != STATUS_OK:
            raise PlayerDiedError(
                f"{self._place.environment}, env step {self._place.step}: the player says that it is closing "
                f"(status {message.header.status}); expected it to go on.",
                env_id=self._place.env_id,
                incarnation=self._place.incarnation,
            )
        return message
