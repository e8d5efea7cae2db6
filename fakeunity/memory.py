"""`link=memory`: the player inside the caller's process, the same bytes without a socket."""

from __future__ import annotations

from fakeunity.delay import Delays
from fakeunity.dialect import Dialect
from fakeunity.gen1 import Gen1Dialect
from fakeunity.gen2 import Gen2Dialect
from fakeunity.journal import Journal
from fakeunity.player import Player
from fakeunity.side_channels import Sampler
from fakeunity.spec import PlayerSpec


class MemoryPlayer:
    """A player whose calls the host asks for instead of receiving them; see `open_player`."""

    def __init__(self, player: Player, delays: Delays | None) -> None:
        self._player = player
        self._delays = delays

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The player's next call: with None the first one, with the reply to its last call the one that follows.

        None when the player has ended, and for ever after. Raises TrainerMistakeError as `Player.reply` does.
        """
        return self._player.hello() if request_reply is None else self._player.reply(request_reply)

    def next_delay_s(self) -> float:
        """How long the host should wait, without blocking, before it looks at the next call; 0 without delay_ms."""
        return 0.0 if self._delays is None else self._delays.next_s()

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


def open_player(spec: PlayerSpec, *, env_id: int = 0) -> MemoryPlayer:
    """A new player of `spec`, whatever its link. `env_id` names the journal; raises OSError if that will not open."""
    journal = None if spec.journal is None else Journal(spec.journal, env_id)
    delays = None if spec.delay_ms is None else Delays(spec.delay_ms, seed=spec.seed, env_id=env_id)
    player = Player(
        spec.scene,
        agents=spec.agents,
        seed=spec.seed,
        journal=journal,
        dialect=open_dialect(spec),
        academy_steps=spec.academy_steps,
    )
    return MemoryPlayer(player, delays)


def open_dialect(spec: PlayerSpec) -> Dialect:
    """How a player of `spec` talks."""
    if spec.version.is_gen1:
        return Gen1Dialect(spec.version, spec.stack)
    return Gen2Dialect(
        spec.version, package=spec.package_version, channels_first=spec.channels_first, frames=spec.stack
    )
