"""How an EnvWorker reaches one player, whatever it is: a Unity build over gRPC, a player in memory, a user's object.

All coroutines run on the EnvWorker's one asyncio loop. One exchange per link is in flight at a time. Every wait has a
deadline, given when the link is opened; failures are raised as `PlayerError`s that name environment and incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from runtime.errors import PlayerError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo, BrainParameters
from runtime.experience.parameters import ParameterValue
from runtime.experience.stats import Stat
from runtime.messages import EnvAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerHello:
    """A player that has connected and passed the version check.

    pid: of its process; 0 when it has none of its own. protocol: the version string it spoke. reset_parameters: what it
    announced (GEN1), else None. brains: announced in the handshake (GEN1; GEN2 announces none). watched: brains that
    the player controls by itself and only shows (GEN1). academy: the name it gives itself. takes_parameters: it can be
    told environment parameters without a reset (a `ToldLink` does).
    """

    pid: int
    protocol: str
    package_version: str = ""
    reset_parameters: Mapping[str, float] | None = None
    brains: tuple[BrainParameters, ...] = ()
    watched: tuple[BrainParameters, ...] = ()
    academy: str = ""
    takes_parameters: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerReply:
    """One reply of a player: new brains, then the rows of every brain known so far (empty rows for silent ones).

    stats: what the player reported for the run's curves since the last reply. replaced_numbers: numbers in these rows
    that were not finite and became 0, if the user chose that; replaced_first: where the first was. global_done: the
    player will be reset at the next step, which takes no actions (API-8 and API-9). watched: rows of brains that the
    player controls, if they are wanted; new_watched: names of such brains that were announced just now (1.x).
    """

    infos: AllBrainInfo
    brains: tuple[BrainParameters, ...] = ()
    new_watched: tuple[str, ...] = ()
    stats: tuple[Stat, ...] = ()
    replaced_numbers: int = 0
    replaced_first: str = ""
    global_done: bool = False
    watched: AllBrainInfo = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Deadlines of a link in seconds: until connected, per exchange, for a polite end."""

    start_timeout_s: float = 60.0
    step_timeout_s: float = 60.0
    close_timeout_s: float = 3.0


@runtime_checkable
class TellingLink(Protocol):
    """A link that also tells of what happens between exchanges; both may be set any time before `start`.

    on_note: a sentence for the operator, such as that a player has not connected yet. on_lost: the player is gone.
    """

    on_note: Callable[[str], None]
    on_lost: Callable[[PlayerError], None]


Speaker = Literal["player", "trainer"]


class MessageTap(Protocol):
    """Hears the raw messages between us and one player, in order, from the first call to the closing one."""

    def on_bytes(self, speaker: Speaker, body: bytes) -> None:
        """Somebody said this. What it raises ends the exchange."""

    def close(self) -> None:
        """Nothing more will be said; called once."""


class PlayerLink(Protocol):
    """One player of one incarnation."""

    @property
    def pid(self) -> int:
        """The player's process id as soon as there is one, else 0."""

    async def start(self) -> PlayerHello:
        """Launches the player if that is ours to do, and waits until it has connected and agreed on a version."""

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        """Resets the player with these environment parameters; its first observations."""

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        """One env step. actions: by wire name, a row per agent that asked for a decision in the last reply."""

    async def close(self) -> None:
        """Ends the player: politely within the limit, then by force. Never raises; a second call does nothing."""


@runtime_checkable
class ToldLink(Protocol):
    """A link whose player can be told environment parameters between resets."""

    def tell(self, parameters: Mapping[str, ParameterValue]) -> None:
        """The player gets these with its next order."""


# What became of a step: the reply, or the error that `PlayerLink.step` would raise.
Told = Callable[[PlayerReply | Exception], None]


@runtime_checkable
class PromptLink(PlayerLink, Protocol):
    """A link whose step needs no task: whoever asked is called in the very turn of the loop in which the reply came.

    Turns of an asyncio loop are what a step over a socket spends most of its time on.
    """

    def step_then(self, actions: Mapping[str, Actions], told: Told) -> None:
        """One env step; `told` is called once, on the loop, unless the link is closed or the step abandoned before.

        Raises ShapeError for wrong actions, before anything is sent; then nobody is told.
        """

    def abandon(self) -> None:
        """Nobody waits for the step under way: the link is of no use any more but to be closed."""


@runtime_checkable
class PlayerFactory(Protocol):
    """Opens links; travels to EnvWorkers by cloudpickle. A user's `env_factory` is a plain callable instead."""

    @property
    def is_blocking(self) -> bool:
        """True when exchanges block the thread (a user's environment object): it then gets an EnvWorker of its own."""

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> PlayerLink:
        """A link to a new player of this assignment; nothing is launched before `start`."""
