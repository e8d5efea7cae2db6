"""The two generations of the protocol behind one surface: messages of a player in, orders for it out.

A dialect is chosen when a player introduces itself and lives as long as its incarnation. It remembers what the player
has told about its brains; nothing else of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from runtime.errors import PlayerContentError, PlayerDiedError, PlayerRefusalError, VersionMismatchError
from runtime.experience.actions import Actions
from runtime.experience.brains import BrainParameters
from runtime.experience.parameters import ParameterValue, drawn_value
from runtime.players import codec, codec_gen1, handshake, handshake_gen1, replies, replies_gen1
from runtime.players.guards import Guard, NonFinite
from runtime.players.links import PlayerHello, PlayerReply
from runtime.players.look_alikes import LookAlikes
from runtime.players.places import Place
from runtime.players.side_channels import environment_parameters
from runtime.players.versions import GEN1_VERSIONS, Generation
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2

STATUS_OK = 200
STATUS_REFUSING = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a player's content is read.

    watches: also brains that the player controls by itself: shown apart (API-8 to API-10), or as ours (1.x), as the
    low-level interfaces of those days had it. imitated: names of such brains that somebody learns from: only these are
    shown, and a player that does not show them is refused. default_teacher: one more of those where a behavior appears
    that is not among `named`; empty for none.
    """

    nonfinite: NonFinite = "refuse"
    watches: bool = False
    imitated: tuple[str, ...] = ()
    default_teacher: str = ""
    named: frozenset[str] = frozenset()

    def teachers_of(self, brains: Iterable[BrainParameters]) -> tuple[str, ...]:
        """The brains that are learned from where these are ours."""
        if not self.default_teacher or all(each.behavior_name in self.named for each in brains):
            return self.imitated
        return tuple(dict.fromkeys((*self.imitated, self.default_teacher)))


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of a player, parsed: its bytes, its status, the bytes on its side channels, and itself."""

    body: bytes
    status: int
    side_channel: bytes
    message: pb1.UnityMessage | pb2.UnityMessageProto


class Dialect(Protocol):
    """One generation, as spoken with one player."""

    @property
    def has_side_channels(self) -> bool:
        """False when what is queued for side channels cannot be sent."""

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """The brains that we control, as far as they are known."""

    def parse(self, body: bytes, place: Place) -> Heard:
        """The message in `body`. Raises PlayerProtocolError."""

    def decode(self, heard: Heard, place: Place, *, is_first: bool) -> PlayerReply:
        """The rows of a reply; is_first: to a reset. If it raises a PlayerProtocolError, nothing has changed."""

    def recognise(self, body: bytes) -> PlayerReply | None:
        """A reply that says what an earlier one said but for its numbers; None: it must be parsed and decoded."""

    def reset_order(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool, side_channel: bytes) -> bytes:
        """The order to reset with these parameters. side_channel: records that come before them."""

    def step_order(self, actions: Mapping[str, Actions], *, side_channel: bytes) -> bytes:
        """The order to step."""


class FirstDialect:
    """API-8, API-9 and API-10."""

    has_side_channels = False

    def __init__(self, told: pb1.UnityRLInitializationOutput, place: Place, reading: Reading) -> None:
        ours, watched = handshake_gen1.announced_brains(told, place)
        self._teachers = reading.teachers_of(ours)
        require_imitated(self._teachers, ours, watched, place)
        self.watched = watched
        """Brains that the player controls by itself."""
        self._known = codec_gen1.known_gen1(ours, watched, ends_all=told.version != "API-10")
        self._reading = reading
        self._defaults = dict(told.environment_parameters.float_parameters)
        self._resets = 0

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """All brains that we control: they were announced at first."""
        return self._known.brains

    def parse(self, body: bytes, place: Place) -> Heard:
        """The message in `body`."""
        message = codec_gen1.parse_message(body, place)
        return Heard(body, message.header.status, b"", message)

    def decode(self, heard: Heard, place: Place, *, is_first: bool) -> PlayerReply:
        """The rows of a reply."""
        assert isinstance(heard.message, pb1.UnityMessage)
        guard = Guard(place, self._reading.nonfinite)
        watches = self._reading.watches or bool(self._teachers)
        reply, self._known = codec_gen1.decode_reply(
            heard.message, self._known, guard, is_first=is_first, watches=watches
        )
        if self._teachers:
            return replace(reply, watched={name: reply.watched[name] for name in self._teachers})
        return reply

    def recognise(self, body: bytes) -> PlayerReply | None:
        """None: every reply of this generation is read in full."""
        del body
        return None

    def reset_order(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool, side_channel: bytes) -> bytes:
        """The order to reset: with all parameters, the player's own where none was given; samplers are drawn from."""
        del side_channel  # this generation has none
        drawn = {name: drawn_value(value, reset=self._resets) for name, value in parameters.items()}
        self._resets += 1
        return replies_gen1.encode_reset({**self._defaults, **drawn}, train_mode=train_mode)

    def step_order(self, actions: Mapping[str, Actions], *, side_channel: bytes) -> bytes:
        """The order to step."""
        del side_channel  # this generation has none
        return replies_gen1.encode_step(actions)


class SecondDialect:
    """Communicator 1.x."""

    has_side_channels = True

    def __init__(self, told: pb2.UnityRLInitializationOutputProto, reading: Reading) -> None:
        self._known = codec.Known(package_version=told.package_version)
        self._version = told.communication_version
        self._reading = reading
        self._look_alikes = LookAlikes()

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """The brains that have shown an agent so far."""
        return self._known.brains

    def parse(self, body: bytes, place: Place) -> Heard:
        """The message in `body`."""
        message = codec.parse_message(body, place)
        return Heard(body, message.header.status, message.unity_output.rl_output.side_channel, message)

    def decode(self, heard: Heard, place: Place, *, is_first: bool) -> PlayerReply:
        """The rows of a reply."""
        del is_first  # ends of episodes are told apart by the player
        assert isinstance(heard.message, pb2.UnityMessageProto)
        guard = Guard(place, self._reading.nonfinite)
        before = self._known
        reply, known = codec.decode_reply(heard.message, before, guard, plays_all=self._reading.watches)
        if known is not before:
            refuse_teachers(self._reading.teachers_of(known.brains.values()), self._version, place)
            self._known = known
            self._look_alikes.forget()
        elif not (guard.replaced or self._known.announced or heard.side_channel):
            self._look_alikes.learn(heard.body, reply.infos, self._known.brains)
        return reply

    def recognise(self, body: bytes) -> PlayerReply | None:
        """A reply like an earlier one."""
        infos = self._look_alikes.read(body)
        return None if infos is None else PlayerReply(infos=infos)

    def reset_order(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool, side_channel: bytes) -> bytes:
        """The order to reset; how fast the game runs is among the records of the side channel."""
        del train_mode
        return replies.encode_reset(side_channel + environment_parameters(parameters))

    def step_order(self, actions: Mapping[str, Actions], *, side_channel: bytes) -> bytes:
        """The order to step."""
        return replies.encode_step(actions, side_channel)


def require_imitated(
    imitated: Iterable[str], ours: Iterable[BrainParameters], watched: Iterable[BrainParameters], place: Place
) -> None:
    """Nothing where the player plays all of these brains; else raises PlayerContentError with those that there are."""
    shown, played = {each.brain_name for each in watched}, {each.brain_name for each in ours}
    for name in imitated:
        if name not in shown:
            why = "is played by the trainer (is_training is true)" if name in played else "is none of the player's"
            raise PlayerContentError(
                f"{place.environment}: brain_to_imitate {name!r} {why}; expected a brain that the player plays (not "
                f"among the Academy's brains to control): {', '.join(map(repr, sorted(shown))) or 'there is none'}. "
                "Correct the name, or the player.",
                env_id=place.env_id,
                incarnation=place.incarnation,
            )


def refuse_teachers(imitated: tuple[str, ...], version: str, place: Place) -> None:
    """Nothing where nobody is to be imitated; else raises VersionMismatchError: these players show nobody's doings."""
    if imitated:
        raise VersionMismatchError(
            f"{place.environment}: to imitate brain {imitated[0]!r}, what it does must be seen, and players that speak "
            f"{version} show it nowhere; expected one of {', '.join(GEN1_VERSIONS)}. Record demonstrations in Unity "
            "and learn from them (trainer_type offline_bc), or use a player of that time.",
            env_id=place.env_id,
            incarnation=place.incarnation,
        )


def generation_of(body: bytes, place: Place) -> Generation:
    """The generation of the player that introduces itself so, when nothing but its bytes tells.

    Both generations have the version at the same place of the first message.
    """
    told = codec.parse_message(body, place).unity_output.rl_initialization_output
    return 1 if told.communication_version in GEN1_VERSIONS else 2


def require_open(status: int, place: Place) -> None:
    """Nothing, for a player that goes on; else raises PlayerDiedError: it says that it is closing.

    Raises PlayerRefusalError where it says that a player started again would do so too.
    """
    if status == STATUS_REFUSING:
        raise PlayerRefusalError(
            f"{place.environment}, env step {place.step}: the player does not take what it was told (status {status}), "
            "and would not if it were started again; expected it to go on.",
            env_id=place.env_id,
            incarnation=place.incarnation,
        )
    if status != STATUS_OK:
        raise PlayerDiedError(
            f"{place.environment}, env step {place.step}: the player says that it is closing (status {status}); "
            "expected it to go on.",
            env_id=place.env_id,
            incarnation=place.incarnation,
        )


def meet(
    body: bytes, generation: Generation, place: Place, *, reading: Reading, answering: tuple[int, int], pid: int
) -> tuple[Dialect, PlayerHello, bytes]:
    """How to talk to the player that introduces itself so, who it is, and our answer.

    answering: the seed for the player, and its number of training areas. Raises VersionMismatchError,
    PlayerProtocolError, or PlayerDiedError when the player is closing.
    """
    seed, num_areas = answering
    if generation == 2:
        message = codec.parse_message(body, place)
        require_open(message.header.status, place)
        told = handshake.introduction(message, place)
        handshake.require_version(told, place)
        refuse_teachers(reading.imitated, told.communication_version, place)
        answer = handshake.encode_answer(told, seed=seed, num_areas=num_areas)
        return SecondDialect(told, reading), handshake.hello(told, pid=pid), answer
    message1 = codec_gen1.parse_message(body, place)
    require_open(message1.header.status, place)
    told1 = handshake_gen1.introduction(message1, place)
    handshake_gen1.require_version(told1, place)
    dialect = FirstDialect(told1, place, reading)
    hello = PlayerHello(
        pid=pid,
        protocol=told1.version,
        reset_parameters=dict(told1.environment_parameters.float_parameters),
        brains=tuple(dialect.brains.values()),
        watched=dialect.watched,
        academy=told1.name,
    )
    return dialect, hello, handshake_gen1.encode_answer(seed=seed)
