"""The player, without clock, socket or process: bytes of the trainer in, bytes for the trainer out.

Calls of a player, in order: 1 who it is, 2 a header only, 3 and on what the world did. Each is answered by the trainer
when it likes, and the answer to call n makes call n + 1.

| phase    | reply of the trainer            | next call                         | next phase |
|----------|---------------------------------|-----------------------------------|------------|
| GREETING | handshake: seed and versions    | header only                       | READY      |
| READY    | RESET, or STEP taken for RESET  | first rows                        | RUNNING    |
| RUNNING  | RESET                           | next episode's first rows         | RUNNING    |
| RUNNING  | STEP and actions                | next rows                         | RUNNING    |
| any      | status not 200, or QUIT         | none                              | ENDED      |

What the bytes look like is the business of a dialect, one for each generation of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from fakeunity import wire
from fakeunity.behaviors import Behaviors
from fakeunity.dialect import Dialect, Order
from fakeunity.errors import TrainerMistakeError
from fakeunity.gen2 import Gen2Dialect
from fakeunity.journal import Counters, Journal
from fakeunity.rows import World
from fakeunity.scenes.catalogue import open_world
from fakeunity.side_channels import Sampler


class Phase(Enum):
    """Which reply of the trainer comes next."""

    GREETING = "greeting"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


class Player:
    """One player of `scene` with `agents` agents and the URL's `seed`; `journal`, when given, gets a line per reply.

    `dialect` is how it talks, communicator 1.5.0 unless given. academy_steps: after so many steps from a reset the
    academy is over and everybody begins anew; 0 for never. `train_mode` is what the last RESET of the old generation
    asked for, None before and in the new one. wrap: what is played in place of the scene's world.
    """

    def __init__(
        self,
        scene: str,
        *,
        agents: int,
        seed: int = 0,
        journal: Journal | None = None,
        dialect: Dialect | None = None,
        academy_steps: int = 0,
        wrap: Callable[[World], World] = lambda world: world,
    ) -> None:
        self.phase = Phase.GREETING
        self.counters = Counters()
        self.train_mode: bool | None = None
        self._scene = scene
        self._agents = agents
        self._seed = seed
        self._journal = journal
        self._dialect: Dialect = Gen2Dialect() if dialect is None else dialect
        self._academy_steps = academy_steps
        self._wrap = wrap
        self._behaviors: Behaviors | None = None

    @property
    def exchange_path(self) -> str:
        """The remote method that this player calls."""
        return self._dialect.exchange_path

    @property
    def parameters(self) -> dict[str, float | Sampler]:
        """The environment parameters received so far, the latest value of each."""
        return {} if self._behaviors is None else self._behaviors.parameters.sent()

    def hello(self) -> bytes | None:
        """The first call; None when the player has ended. Raises ValueError when it was followed by a reply already."""
        if self.phase is Phase.ENDED:
            return None
        if self.counters.exchange:
            raise ValueError("the player has said hello already; hand it the trainer's reply to its last call")
        # The world that will be played needs the trainer's seed; who we are does not depend on it.
        return self._dialect.hello(open_world(self._scene, agents=self._agents, handshake_seed=0, url_seed=self._seed))

    def reply(self, message: bytes) -> bytes | None:
        """The call that follows on a reply of the trainer; None when the player ends, and for ever after.

        Raises TrainerMistakeError for what a player cannot act on; the player has ended then.
        """
        if self.phase is Phase.ENDED:
            return None
        self.counters.exchange += 1
        try:
            return self._answer(message)
        except TrainerMistakeError:
            self._end("ERROR")
            raise

    def close(self) -> None:
        """Ends the player, whatever it was doing; harmless twice."""
        self.phase = Phase.ENDED
        if self._journal is not None:
            self._journal.close()

    def _answer(self, message: bytes) -> bytes | None:
        order = self._dialect.read(message, is_greeting=self._behaviors is None)
        if order.command == "QUIT":
            self._end("QUIT" if order.is_asked else "CLOSE")
            return None
        if self._behaviors is None:
            return self._greeted(order)
        for key, value in order.parameters:
            self._behaviors.parameters.hear(key, value)
        if order.command == "RESET" or self.phase is Phase.READY:
            self.train_mode = order.train_mode
            answer = self._behaviors.reset()
            self.phase = Phase.RUNNING
        else:
            answer = self._behaviors.step(order.actions, self.counters)
        if self._journal is not None:
            told = {key: value for key, value in order.parameters if isinstance(value, float)}
            self._note(order.command, **({"parameters": told} if told else {}))
        return answer

    def _greeted(self, order: Order) -> bytes:
        seed = order.seed or 0
        world = open_world(self._scene, agents=self._agents, handshake_seed=seed, url_seed=self._seed)
        self._behaviors = Behaviors(self._wrap(world), self._dialect, academy_steps=self._academy_steps)
        self.phase = Phase.READY
        self._note("HANDSHAKE", scene=self._scene, seed=seed, url_seed=self._seed, agents=self._agents)
        return wire.header_bytes()

    def _note(self, command: str, **more: str | int | dict[str, float]) -> None:
        if self._journal is not None:
            self._journal.write(command, self.counters, **more)

    def _end(self, command: str) -> None:
        self._note(command)
        self.close()
