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
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from google.protobuf.message import DecodeError

from fakeunity import side_channels, wire
from fakeunity.actions import read_actions
from fakeunity.errors import TrainerMistakeError
from fakeunity.journal import Counters, Journal, OpenDecisions
from fakeunity.rows import Actions, BehaviorSpec, Rows, World
from fakeunity.scenes.catalogue import open_world
from runtime.players.wire import communicator_pb2 as pb


class Phase(Enum):
    """Which reply of the trainer comes next."""

    GREETING = "greeting"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


class Player:
    """One player of `scene` with `agents` agents and the URL's `seed`; `journal`, when given, gets a line per reply.

    `parameters` holds the environment parameters received so far, the latest value of each.
    """

    def __init__(self, scene: str, *, agents: int, seed: int = 0, journal: Journal | None = None) -> None:
        self.phase = Phase.GREETING
        self.counters = Counters()
        self.parameters: dict[str, float | side_channels.Sampler] = {}
        self._scene = scene
        self._agents = agents
        self._seed = seed
        self._journal = journal
        self._behaviors: _Behaviors | None = None

    def hello(self) -> bytes | None:
        """The first call; None when the player has ended. Raises ValueError when it was followed by a reply already."""
        if self.phase is Phase.ENDED:
            return None
        if self.counters.exchange:
            raise ValueError("the player has said hello already; hand it the trainer's reply to its last call")
        return wire.hello_bytes()

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
        try:
            parsed = pb.UnityMessageProto.FromString(message)
        except DecodeError as error:
            raise TrainerMistakeError(f"{len(message)} bytes arrived that are no UnityMessageProto: {error}") from error
        command = parsed.unity_input.rl_input.command
        if parsed.header.status != wire.STATUS_OK:
            self._end("CLOSE")
            return None
        if command == pb.QUIT:
            self._end("QUIT")
            return None
        if self._behaviors is None:
            return self._greeted(parsed)
        self._hear(parsed.unity_input.rl_input.side_channel)
        if command == pb.RESET or self.phase is Phase.READY:
            answer = self._behaviors.reset()
            self.phase = Phase.RUNNING
        else:
            answer = self._behaviors.step(parsed.unity_input.rl_input.agent_actions, self.counters)
        self._note(pb.CommandProto.Name(command))
        return answer

    def _greeted(self, parsed: pb.UnityMessageProto) -> bytes:
        if not parsed.unity_input.HasField("rl_initialization_input"):
            raise TrainerMistakeError("the first reply has no rl_initialization_input, with its seed and versions")
        handshake = parsed.unity_input.rl_initialization_input
        ours, theirs = wire.COMMUNICATION_VERSION, handshake.communication_version
        if theirs.partition(".")[0] != ours.partition(".")[0]:
            raise TrainerMistakeError(f"the trainer speaks communicator {theirs!r}, this player {ours!r}")
        world = open_world(self._scene, agents=self._agents, handshake_seed=handshake.seed, url_seed=self._seed)
        self._behaviors = _Behaviors(world)
        self.phase = Phase.READY
        self._note("HANDSHAKE", scene=self._scene, seed=handshake.seed, url_seed=self._seed, agents=self._agents)
        return wire.header_bytes()

    def _hear(self, container: bytes) -> None:
        for channel, payload in side_channels.messages(container):
            if channel == side_channels.ENVIRONMENT_PARAMETERS:
                key, value = side_channels.environment_parameter(payload)
                self.parameters[key] = value

    def _note(self, command: str, **more: str | int) -> None:
        if self._journal is not None:
            self._journal.write(command, self.counters, **more)

    def _end(self, command: str) -> None:
        self._note(command)
        self.close()


class _Behaviors:
    """The world, and what the trainer was told of it: known behaviors, rows last sent, decisions without outcome."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._specs: dict[str, BehaviorSpec] = {spec.name: spec for spec in world.specs}
        self._writers = {spec.name: wire.RowWriter(spec) for spec in world.specs}
        self._sent: dict[str, Rows] = {}
        self._open: dict[str, OpenDecisions] = {spec.name: OpenDecisions() for spec in world.specs}

    def reset(self) -> bytes:
        """The first rows of everybody's next episode. Decisions without an outcome never get one."""
        for behavior in self._open.values():
            behavior.ids.clear()
        return self._tell(self._world.reset())

    def step(self, received: Mapping[str, pb.UnityRLInputProto.ListAgentActionProto], counters: Counters) -> bytes:
        """The next rows, once the actions received are applied; counts what was done."""
        unknown = sorted(set(received) - set(self._sent))
        if unknown:
            raise TrainerMistakeError(f"actions for behavior {unknown[0]!r}; announced are {list(self._sent)}")
        actions = {name: self._actions(name, received, counters) for name in self._sent}
        rows = self._world.step(actions)
        counters.env_steps += 1
        for name, sent in rows.items():
            counters.agent_steps += self._open[name].settle(sent.ids.tolist())
            counters.episodes += int(sent.done.sum())
        return self._tell(rows)

    def _actions(
        self, name: str, received: Mapping[str, pb.UnityRLInputProto.ListAgentActionProto], counters: Counters
    ) -> Actions:
        spec, rows = self._specs[name], self._sent[name]
        # As in Unity, no list and an empty one mean that nobody decided for these agents.
        action_rows = received[name].value if name in received else ()
        if not len(action_rows):
            return self._world.default_actions(spec, rows)
        actions = read_actions(spec, rows, action_rows)
        counters.decisions += len(action_rows)
        self._open[name].ids.update(rows.waiting().tolist())
        return actions

    def _tell(self, rows: Mapping[str, Rows]) -> bytes:
        new = [self._specs[name] for name in rows if name not in self._sent]
        self._sent.update(rows)
        return wire.output_bytes({name: self._writers[name].write(sent) for name, sent in rows.items()}, new)
