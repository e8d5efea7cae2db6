"""What is said to a player and heard from it, in order, whatever carries it: handshake, resets, steps.

One object per incarnation. It holds no socket, no process and no clock; links give it bytes and carry its bytes. Which
generation of the protocol the player speaks is learnt from its first message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.errors import InternalError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo
from runtime.experience.parameters import ParameterValue
from runtime.messages import EnvAssignment
from runtime.players.channel_hub import Arrived, SideChannelHub
from runtime.players.channels import SideChannel
from runtime.players.dialects import Dialect, Heard, Reading, generation_of, meet, require_open
from runtime.players.links import PlayerHello, PlayerReply
from runtime.players.places import Place, made
from runtime.players.replies import require_actions
from runtime.players.side_channels import EngineSettings, engine_configuration, environment_parameters
from runtime.players.versions import Generation


@dataclass(frozen=True, slots=True)
class Decoded:
    """A reply whose rows are read. arrived: the messages on side channels that came with it."""

    reply: PlayerReply
    arrived: Arrived


class Conversation:
    """One side of the talk with one player: orders out, replies in.

    make_channels: gives the user's side channels, which belong to this incarnation alone; called by `open`.
    """

    def __init__(
        self,
        assignment: EnvAssignment,
        engine: EngineSettings,
        *,
        num_areas: int = 1,
        reading: Reading | None = None,
        make_channels: Callable[[], Sequence[SideChannel]] = tuple,
    ) -> None:
        self._assignment = assignment
        self._engine = engine
        self._num_areas = num_areas
        self._reading = reading or Reading()
        self._place = Place(assignment.env_id, assignment.incarnation)
        self._dialect: Dialect | None = None
        self._waiting: AllBrainInfo = {}
        self._speed: float | None = None
        self._due: Mapping[str, ParameterValue] = {}
        self._last_reset: tuple[Mapping[str, ParameterValue], bool] = ({}, True)
        self._is_all_done = False
        self._is_reset_due = False
        self._make_channels = make_channels
        self.side_channels = SideChannelHub()
        self.shows_pictures = False
        """True once a brain has shown images, whose decoding takes milliseconds."""

    def open(self) -> None:
        """Makes the user's side channels. Raises EnvironmentFactoryError with what making them raised."""
        self.side_channels = made("side channels", lambda: SideChannelHub(self._make_channels()), self._place)

    @property
    def place(self) -> Place:
        """Where we are: environment, incarnation and the number of the env step that is under way."""
        return self._place

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should know about the player that we met."""
        if self._dialect is None or self._dialect.has_side_channels or not self.side_channels.channels:
            return ()
        text = f"players of this version have no side channels; {len(self.side_channels.channels)} are not served."
        return (f"{self._place.environment}: {text}",)

    def meet(self, body: bytes, *, pid: int, generation: Generation | None = None) -> tuple[PlayerHello, bytes]:
        """The player's introduction, and our answer to it. generation: as the call tells, None: as the bytes tell.

        Raises VersionMismatchError, PlayerProtocolError, or PlayerDiedError when the player is closing.
        """
        spoken = generation if generation is not None else generation_of(body, self._place)
        answering = (self._assignment.seed, self._num_areas)
        self._dialect, hello, answer = meet(
            body, spoken, self._place, reading=self._reading, answering=answering, pid=pid
        )
        return replace(hello, takes_parameters=self._dialect.has_side_channels), answer

    def hear_ready(self, body: bytes) -> None:
        """Takes the player's second call, which asks for the first order and says nothing else."""
        self._heard(body)

    def reset_order(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> bytes:
        """The order to reset, with these parameters, and with engine settings when they change.

        train_mode False asks for the normal speed of the game.
        """
        self._place = replace(self._place, step=0)
        return self._reset_order(parameters, train_mode=train_mode)

    def step_order(self, actions: Mapping[str, Actions]) -> bytes:
        """The order to step; after the end of all agents at once, the order to reset as before.

        Raises ShapeError, and nothing changes, unless each waiting agent has an action.
        """
        dialect = self._met()
        require_actions(actions, self._waiting, dialect.brains)
        self._place = self._place.after_step()
        if self._is_all_done:
            parameters, train_mode = self._last_reset
            return self._reset_order(parameters, train_mode=train_mode)
        told, self._due = environment_parameters(self._due) if self._due else b"", {}
        return dialect.step_order(actions, side_channel=told + self.side_channels.take_outgoing())

    def tell(self, parameters: Mapping[str, ParameterValue]) -> None:
        """These parameters go with the next order; only to players that have side channels."""
        self._due = {**self._due, **parameters}

    def accept(self, body: bytes) -> PlayerReply:
        """The rows in the player's reply. Raises a PlayerError that names where the fault is."""
        return self.conclude(self.decode(body))

    def decode(self, body: bytes) -> Decoded:
        """The longer half of `accept`. Another thread may do it, while nothing else is asked of this object."""
        known = self._met().recognise(body)
        if known is not None:
            return Decoded(known, ())
        heard = self._heard(body)
        arrived = self.side_channels.read(heard.side_channel, self._place)
        return Decoded(self._met().decode(heard, self._place, is_first=self._is_reset_due), arrived)

    def conclude(self, decoded: Decoded) -> PlayerReply:
        """The other half: takes the rows for what the player shows now, and hands on what side channels brought."""
        reply = decoded.reply
        self._is_reset_due, self._is_all_done = False, reply.global_done
        self._waiting = reply.infos
        if reply.brains:
            specs = [spec for brain in self._met().brains.values() for spec in brain.observation_specs]
            self.shows_pictures = any(spec.dtype == "uint8" for spec in specs)
        if not decoded.arrived:
            return reply
        self.side_channels.deliver(decoded.arrived, self._place)
        return replace(reply, stats=self.side_channels.take_stats())

    def _reset_order(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> bytes:
        settings = self._engine if train_mode else replace(self._engine, time_scale=self._engine.normal_speed)
        changes = engine_configuration(settings) if settings.time_scale != self._speed else b""
        order = self._met().reset_order(
            parameters, train_mode=train_mode, side_channel=changes + self.side_channels.take_outgoing()
        )
        self._speed = settings.time_scale
        self._last_reset, self._due = (parameters, train_mode), {}
        self._is_reset_due, self._is_all_done = True, False
        return order

    def _met(self) -> Dialect:
        if self._dialect is None:
            raise InternalError(f"{self._place.environment}: an order before the player introduced itself.")
        return self._dialect

    def _heard(self, body: bytes) -> Heard:
        heard = self._met().parse(body, self._place)
        require_open(heard.status, self._place)
        return heard
