"""Opens links to players in tests: assignments, scripted players as executables, and one exchange after the other."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from runtime.experience.actions import Actions
from runtime.experience.brains import BrainParameters, EnvId, Incarnation
from runtime.messages import EnvAssignment
from runtime.players.factories import UnityPlayerFactory
from runtime.players.links import PlayerLink, PlayerReply
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


def assignment(env_id: int = 0, *, incarnation: int = 0, seed: int = 1, port: int | None = None) -> EnvAssignment:
    """An environment on a free port."""
    return EnvAssignment(
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        seed=seed,
        port=free_port() if port is None else port,
    )


def scripted_factory(folder: Path, *deeds: str, logs: Path | None = None) -> UnityPlayerFactory:
    """Players that do these deeds (see `scripted_player`), launched from an executable file as a Unity build is."""
    file = folder / "scripted.x86_64"
    if not file.exists():
        file.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from tests.support.scripted_player import main\nsys.exit(main(sys.argv[1:]))\n"
        )
        file.chmod(0o755)
    words = tuple(word for deed in deeds for word in ("--do", deed))
    return UnityPlayerFactory(target=str(file), args=words, run="test", log_folder=None if logs is None else str(logs))


def zeros(brains: Mapping[str, BrainParameters], reply: PlayerReply) -> dict[str, Actions]:
    """The action 0 for every agent that waits."""
    actions = {}
    for name, info in reply.infos.items():
        spec, count = brains[name].action_spec, len(info.decisions)
        actions[name] = Actions(
            np.zeros((count, spec.continuous_size), np.float32), np.zeros((count, spec.discrete_size), np.int32)
        )
    return actions


class Driver:
    """Starts, resets and steps one link with zeros, and keeps its brains."""

    def __init__(self, link: PlayerLink) -> None:
        self.link = link
        self.brains: dict[str, BrainParameters] = {}
        self.reply: PlayerReply | None = None

    async def begin(self, parameters: Mapping[str, float] | None = None) -> PlayerReply:
        """Starts and resets."""
        hello = await self.link.start()
        self.brains = {each.brain_name: each for each in hello.brains}
        return self._keep(await self.link.reset(parameters or {}, train_mode=True))

    async def steps(self, count: int) -> PlayerReply:
        """Takes env steps; the last reply."""
        for _ in range(count):
            assert self.reply is not None
            self._keep(await self.link.step(zeros(self.brains, self.reply)))
        assert self.reply is not None
        return self.reply

    def _keep(self, reply: PlayerReply) -> PlayerReply:
        self.brains |= {each.brain_name: each for each in reply.brains}
        self.reply = reply
        return reply
