"""`link=memory`: the player inside the caller's process, the same bytes without a socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fakeunity.cassettes.places import found_cassette
from fakeunity.cassettes.replay import ReplayPlayer
from fakeunity.cassettes.tape import Cassette, CassetteError, open_cassette
from fakeunity.delay import Delays
from fakeunity.dialect import Dialect
from fakeunity.faults.clock import FaultClock
from fakeunity.faults.plan import Who
from fakeunity.faults.player import Body, FaultyPlayer, HostedBody, Talker
from fakeunity.faults.world import FaultyWorld
from fakeunity.gen1 import Gen1Dialect
from fakeunity.gen2 import Gen2Dialect
from fakeunity.journal import Journal
from fakeunity.player import Player
from fakeunity.side_channels import Sampler
from fakeunity.spec import REPLAY, PlayerSpec


class Played(Talker, Protocol):
    """A player that also tells what it knows of itself."""

    @property
    def parameters(self) -> dict[str, float | Sampler]:
        """The environment parameters that it was given."""

    @property
    def exchange_path(self) -> str:
        """The remote method that it calls."""

    @property
    def train_mode(self) -> bool | None:
        """What the last RESET of the old generation asked for."""


class MemoryPlayer:
    """A player whose calls the host asks for instead of receiving them; see `open_player`."""

    def __init__(self, player: Played, delays: Delays | None, faults: FaultyPlayer | None = None) -> None:
        self._player = player
        self._delays = delays
        self._faults = faults
        self._talker: Talker = player if faults is None else faults

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The player's next call: with None the first one, with the reply to its last call the one that follows.

        None when the player has ended, and for ever after. Raises TrainerMistakeError as `Player.reply` does.
        """
        return self._talker.hello() if request_reply is None else self._talker.reply(request_reply)

    def connect(self) -> None:
        """What the player does wrong before it is asked for its first call; see `faults`."""
        if self._faults is not None:
            self._faults.connect()

    def next_delay_s(self) -> float:
        """How long the host should wait, without blocking, before it looks at the next call.

        0 without delay_ms and faults, infinite for a player that hangs.
        """
        return (0.0 if self._delays is None else self._delays.next_s()) + self.fault_delay_s()

    def fault_delay_s(self) -> float:
        """The part of it that faults demand, beside delay_ms."""
        return 0.0 if self._faults is None else self._faults.take_delay_s()

    @property
    def parameters(self) -> dict[str, float | Sampler]:
        """The environment parameters that the player was given so far."""
        return dict(self._player.parameters)

    @property
    def exchange_path(self) -> str:
        """The remote method that a player process of this kind calls."""
        return self._player.exchange_path

    @property
    def train_mode(self) -> bool | None:
        """What the last RESET of the old generation asked for; None before it and in the new one."""
        return self._player.train_mode

    def close(self) -> None:
        """Ends the player and closes its journal; harmless twice."""
        self._player.close()


def open_player(
    spec: PlayerSpec,
    *,
    env_id: int = 0,
    incarnation: int = 0,
    body: Body | None = None,
    report: Callable[[str], None] | None = None,
) -> MemoryPlayer:
    """A new player of `spec`, whatever its link. `env_id` names the journal; raises OSError if that will not open.

    A recording that is none, or damaged, or not there raises CassetteError, an OSError.
    env_id and incarnation: whom the faults of `spec` are meant for. body: what they can be done to, by default nothing
    but this object; report: gets a line when one happens for the first time.
    """
    delays = None if spec.delay_ms is None else Delays(spec.delay_ms, seed=spec.seed, env_id=env_id)
    if spec.scene == REPLAY and spec.file is not None:
        cassette = _recorded(spec.file, env_id=env_id, life=incarnation)
        return MemoryPlayer(ReplayPlayer(cassette, is_tolerant=spec.tolerant), delays)
    journal = None if spec.journal is None else Journal(spec.journal, env_id)
    if not spec.faults.faults:
        return MemoryPlayer(_player(spec, journal, None), delays)
    clock = FaultClock(spec.faults, Who(env_id, incarnation), report=report)
    player = _player(spec, journal, clock)
    seed = f"{spec.seed}/{env_id}/{incarnation}"
    return MemoryPlayer(player, delays, FaultyPlayer(player, clock, body=body or HostedBody(), seed=seed))


def _recorded(file: Path, *, env_id: int, life: int) -> Cassette:
    found = found_cassette(file, env_id=env_id, life=life)
    if life and not found.exists():
        raise CassetteError(
            f"{found}: there is no such recording; the recorded player was started again fewer than {life} times. What "
            "matters is why the player before this one ended, which was said further up"
        )
    return open_cassette(found)


def _player(spec: PlayerSpec, journal: Journal | None, clock: FaultClock | None) -> Player:
    return Player(
        spec.scene,
        agents=spec.agents,
        seed=spec.seed,
        journal=journal,
        dialect=open_dialect(spec),
        academy_steps=spec.academy_steps,
        wrap=lambda world: world if clock is None else FaultyWorld(world, clock),
    )


def open_dialect(spec: PlayerSpec) -> Dialect:
    """How a player of `spec` talks."""
    if spec.version.is_gen1:
        return Gen1Dialect(spec.version, spec.stack)
    return Gen2Dialect(
        spec.version, package=spec.package_version, channels_first=spec.channels_first, frames=spec.stack
    )
