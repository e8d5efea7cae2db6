"""Recipes for links: small, frozen, and pickled to the EnvWorkers, which open the links."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import UsageError
from runtime.messages import EnvAssignment
from runtime.players.guards import NonFinite
from runtime.players.links import LinkLimits, MessageTap, PlayerFactory, PlayerLink
from runtime.players.places import Place
from runtime.players.side_channels import EngineSettings

if TYPE_CHECKING:
    from fakeunity.spec import PlayerSpec
    from runtime.players.channels import SideChannel
    from runtime.players.conversation import Conversation

FAKE_SCHEME = "fake:"
PORT_WORDS = ("--mlagents-port", "--port")
"""What announces the port to builds of communicator 1.x, and to older ones; each ignores what it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkExtras:
    """What users may add to the links of a factory; functions travel to EnvWorkers by cloudpickle.

    nonfinite: what becomes of NaN and infinities: `refuse` (an error that names the place) or `zero` (0, and counted in
    `PlayerReply.replaced_numbers`). watches: also decode brains that the player controls by itself. imitated: names of
    such brains that are learned from, decoded too; a player that does not show them is refused. default_teacher: one
    more of those, for behaviors that are not among `named`. make_channels: the side channels of a new player, by
    environment number. open_tap: who hears the raw messages of a new player.
    """

    nonfinite: NonFinite = "refuse"
    watches: bool = False
    imitated: tuple[str, ...] = ()
    default_teacher: str = ""
    named: frozenset[str] = frozenset()
    make_channels: Callable[[int], Sequence[SideChannel]] | None = None
    open_tap: Callable[[EnvAssignment], MessageTap] | None = None

    def conversation(self, assignment: EnvAssignment, engine: EngineSettings, num_areas: int) -> Conversation:
        """A new conversation with these extras."""
        from runtime.players.conversation import Conversation  # noqa: PLC0415 - describing a player needs none
        from runtime.players.dialects import Reading  # noqa: PLC0415

        return Conversation(
            assignment,
            engine,
            num_areas=num_areas,
            reading=Reading(
                nonfinite=self.nonfinite,
                watches=self.watches or bool(self.imitated),
                imitated=self.imitated,
                default_teacher=self.default_teacher,
                named=self.named,
            ),
            make_channels=lambda: () if self.make_channels is None else self.make_channels(int(assignment.env_id)),
        )

    def tap(self, assignment: EnvAssignment) -> MessageTap | None:
        """A new listener, if one was asked for; what opening it raises is the user's."""
        return None if self.open_tap is None else self.open_tap(assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnityPlayerFactory:
    """Links over gRPC to processes that they launch, or to the Editor.

    target: the executable, `fake:SCENE[?key=value]`, or None for the Editor. run: marks the processes of one run.
    log_folder: where players write `Player-<env id>.log`; None: no logs. args: added to the player's command line.
    no_graphics_monitor: as no_graphics, but environment 0 has a window. bind: the address to serve, empty: loopback.
    message_bytes_max: of one message from a player; -1: no limit. note_after_s: a player that has not connected by
    then is reported, once. port_arguments: the words that announce the port to the player. extras: see `LinkExtras`.
    """

    target: str | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    run: str = ""
    log_folder: str | None = None
    args: tuple[str, ...] = ()
    no_graphics: bool = False
    no_graphics_monitor: bool = False
    num_areas: int = 1
    bind: str = ""
    message_bytes_max: int = -1
    note_after_s: float = 10.0
    port_arguments: tuple[str, ...] = PORT_WORDS
    extras: LinkExtras = field(default_factory=LinkExtras)

    @property
    def is_blocking(self) -> bool:
        """False: exchanges share the EnvWorker's loop."""
        return False

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> PlayerLink:
        """A link to a new player on the assignment's port; nothing is looked for or launched before `start`."""
        from runtime.players.grpc_link import GrpcPlayerLink  # noqa: PLC0415 - opening needs gRPC, describing does not
        from runtime.players.process import PlayerProcess, player_environment  # noqa: PLC0415
        from runtime.players.server import ExchangeServer  # noqa: PLC0415

        place = Place(assignment.env_id, assignment.incarnation)
        process = None
        if self.target is not None:
            env = player_environment(
                os.environ, run=self.run, env_id=assignment.env_id, incarnation=assignment.incarnation
            )
            process = PlayerProcess(lambda: self.command(assignment), env=env, log=self._log(assignment), place=place)
        server = ExchangeServer(place, port=assignment.port, bind=self.bind, message_bytes_max=self.message_bytes_max)
        talk = self.extras.conversation(assignment, self.engine, self.num_areas)
        return GrpcPlayerLink(
            assignment,
            limits,
            conversation=talk,
            process=process,
            server=server,
            note_after_s=self.note_after_s,
            open_tap=lambda: self.extras.tap(assignment),
        )

    def command(self, assignment: EnvAssignment) -> list[str]:
        """The player's command line, in the order that Unity builds get it. Raises UsageError."""
        command = self._program(assignment)
        if self.no_graphics or (self.no_graphics_monitor and assignment.env_id != 0):
            command += ["-nographics", "-batchmode"]
        for word in self._port_words():
            command += [word, str(assignment.port)]
        log = self._log(assignment)
        if log is not None and not any(word.lower() == "-logfile" for word in self.args):
            command += ["-logFile", str(log)]
        return [*command, *self.args]

    def _port_words(self) -> tuple[str, ...]:
        """The words for the port, but one that the user's own arguments have, which then means something else."""
        given = {word.partition("=")[0] for word in self.args}
        return tuple(word for word in self.port_arguments if word not in given)

    def _program(self, assignment: EnvAssignment) -> list[str]:
        target = self.target or ""
        if target.startswith(FAKE_SCHEME):
            return fake_spec(target).command_line(env_id=assignment.env_id)
        from runtime.players.executables import find_executable  # noqa: PLC0415 - not needed to describe a player

        return [str(find_executable(target))]

    def _log(self, assignment: EnvAssignment) -> Path | None:
        return None if self.log_folder is None else Path(self.log_folder).absolute() / f"Player-{assignment.env_id}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlayerFactory:
    """Links to bundled players inside the EnvWorker's process. target: `fake:SCENE[?key=value]`."""

    target: str
    engine: EngineSettings = field(default_factory=EngineSettings)
    num_areas: int = 1
    extras: LinkExtras = field(default_factory=LinkExtras)

    @property
    def is_blocking(self) -> bool:
        """False: the bundled worlds take microseconds, and delays are waited for without blocking."""
        return False

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> PlayerLink:
        """A link to a new player in this process, which `start` opens."""
        from fakeunity.memory import open_player  # noqa: PLC0415 - only those who play need the scenes
        from runtime.players.memory_link import MemoryPlayerLink  # noqa: PLC0415

        env_id, incarnation = int(assignment.env_id), int(assignment.incarnation)
        talk = self.extras.conversation(assignment, self.engine, self.num_areas)
        return MemoryPlayerLink(
            assignment,
            limits,
            conversation=talk,
            open_player=lambda: open_player(fake_spec(self.target), env_id=env_id, incarnation=incarnation),
            open_tap=lambda: self.extras.tap(assignment),
        )


@dataclass(frozen=True, slots=True)
class ObjectPlayerFactory:
    """Links to the objects of a user's `env_factory(worker_id)`, with the seed's `BaseUnityEnvironment` surface."""

    env_factory: Callable[[int], Any]  # `Any`: an object of the user's, known by its methods

    @property
    def is_blocking(self) -> bool:
        """True: it gets an EnvWorker of its own."""
        return True

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> PlayerLink:
        """A link to a new object; the factory is called by `start`."""
        from runtime.players.object_link import ObjectPlayerLink  # noqa: PLC0415 - not needed to describe one

        return ObjectPlayerLink(assignment, limits, self.env_factory)


def as_player_factory(factory: PlayerFactory | Callable[[int], Any]) -> PlayerFactory:
    """What was given, when it opens links; a user's `env_factory` wrapped. Raises UsageError for anything else."""
    if isinstance(factory, PlayerFactory):
        return factory
    if callable(factory):
        return ObjectPlayerFactory(factory)
    raise UsageError(
        f"an environment factory of type {type(factory).__name__}; "
        "expected a function of the worker id, or a PlayerFactory."
    )


def player_factory(
    target: str | None,
    *,
    engine: EngineSettings | None = None,
    run: str = "",
    log_folder: str | None = None,
    args: Sequence[str] = (),
    no_graphics: bool = False,
    no_graphics_monitor: bool = False,
    num_areas: int = 1,
    bind: str = "",
    extras: LinkExtras | None = None,
) -> UnityPlayerFactory | MemoryPlayerFactory:
    """The factory for what users write after `--env`; None is the Editor. Raises UsageError for what is not there."""
    settings, added = engine or EngineSettings(), extras or LinkExtras()
    if target is not None and target.startswith(FAKE_SCHEME) and fake_spec(target).link == "memory":
        return MemoryPlayerFactory(target=target, engine=settings, num_areas=num_areas, extras=added)
    if target is not None and not target.startswith(FAKE_SCHEME):
        from runtime.players.executables import find_executable  # noqa: PLC0415 - not needed to describe a player

        target = str(find_executable(target))
    return UnityPlayerFactory(
        target=target,
        engine=settings,
        run=run,
        log_folder=log_folder,
        args=tuple(args),
        no_graphics=no_graphics,
        no_graphics_monitor=no_graphics_monitor,
        num_areas=num_areas,
        bind=bind,
        extras=added,
    )


def fake_spec(target: str) -> PlayerSpec:
    """The bundled player that `target` names. Raises UsageError saying what is wrong and what is nearest."""
    from fakeunity.errors import SpecError  # noqa: PLC0415 - only those who play need the scenes
    from fakeunity.spec import parse_url  # noqa: PLC0415

    try:
        return parse_url(target)
    except SpecError as error:
        raise UsageError(str(error)) from error
