"""The protocol of 2019, API-8 to API-10: all brains announced at once, one vector per agent, ends mixed with starts.

What a world tells apart is one here: an agent whose episode ended and whose next one began is listed once, with the
end's reward and flags and the start's observation. An agent that ended and is gone is listed a last time. Everybody
listed gets an action; that of the gone ones has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from google.protobuf.message import DecodeError

from fakeunity import wire
from fakeunity.dialect import ActionLists, Command, Order
from fakeunity.errors import TrainerMistakeError
from fakeunity.gen2 import in_one_list
from fakeunity.png import png
from fakeunity.protocols import Protocol
from fakeunity.rows import Actions, BehaviorSpec, Floats, ObservationSpec, Rows, World
from fakeunity.sensors import PICTURES_KEPT_MAX
from fakeunity.stacking import Stacking
from runtime.players.wire import communicator_gen1_pb2 as pb

EXCHANGE_PATH = "/communicator_objects.UnityToExternal/Exchange"
ACADEMY = "Academy"
COMMANDS: Mapping[int, Command] = {pb.STEP: "STEP", pb.RESET: "RESET", pb.QUIT: "QUIT"}


def brain_name(behavior: str) -> str:
    """The name of a behavior in a time without teams in names: `Soccer?team=1` was a brain `SoccerTeam1`."""
    return behavior.replace("?team=", "Team")


def agent_id(number: int) -> int:
    """The wire's id of an agent. Unity took the instance ids of its objects, which are negative more often than not."""
    return ~number


@dataclass(slots=True)
class _Echo:
    """What an agent is told again in its next row: the action applied last, and what came with it."""

    actions: tuple[float, ...]
    memories: tuple[float, ...] = ()
    text: str = ""


class _Brain:
    """One brain: how its world's rows become a list of agents, and which of them an action row belongs to."""

    def __init__(self, spec: BehaviorSpec, frames: int) -> None:
        self.spec = spec
        self.name = brain_name(spec.name)
        self.frames = frames
        self.size = sum(sensor.size for sensor in spec.observations)
        # One vector for all sensors is stacked as one; cameras are not stacked.
        self._vector = BehaviorSpec(spec.name, (ObservationSpec("vector", self.size),))
        self._stacking = Stacking(self._vector, frames)
        self._echoes: dict[int, _Echo] = {}
        self._picture = lru_cache(PICTURES_KEPT_MAX)(self._painted)
        self.listed: tuple[int, ...] = ()

    def announcement(self) -> pb.BrainParametersProto:
        """What the handshake says of it."""
        spec = self.spec
        return pb.BrainParametersProto(
            brain_name=self.name,
            vector_observation_size=self.size,
            num_stacked_vector_observations=self.frames,
            vector_action_size=[spec.continuous] if spec.continuous else spec.branches,
            vector_action_space_type=pb.continuous if spec.continuous else pb.discrete,
            camera_resolutions=[pb.ResolutionProto(width=c.width, height=c.height) for c in spec.images],
            is_training=spec.is_training,
        )

    def reset(self) -> None:
        """Every episode is over, and nobody has done anything yet."""
        self._stacking.clear()
        self._echoes.clear()

    def hear(self, received: Sequence[pb.AgentActionProto]) -> None:
        """Remembers memories and texts for the first of the agents listed last, those who stay."""
        for agent, row in zip(self.listed, received, strict=False):
            self._echo(agent).memories = tuple(row.memories)
            self._echo(agent).text = row.text_actions

    def applied(self, ids: Sequence[int], actions: Actions) -> None:
        """Remembers what these agents are doing."""
        rows = np.concatenate((actions.continuous, actions.discrete.astype(np.float32)), axis=1)
        for agent, row in zip(ids, rows.tolist(), strict=True):
            self._echo(agent).actions = tuple(row)

    def agents(self, rows: Rows) -> list[pb.AgentInfoProto]:
        """Everybody listed: those who wait for an action, in the world's order, then those who are gone."""
        vectors = Rows(rows.ids, rows.rewards, rows.done, rows.interrupted, (self._joined(rows),))
        seen = self._stacking.stack(vectors).observations[0]
        ends = {agent: row for row, agent in enumerate(rows.ids.tolist()) if rows.done[row]}
        starts = [(agent, row) for row, agent in enumerate(rows.ids.tolist()) if not rows.done[row]]
        waiting = {agent for agent, _ in starts}
        gone = [(agent, row) for agent, row in ends.items() if agent not in waiting]
        self.listed = tuple(agent for agent, _ in (*starts, *gone))
        infos = []
        for agent, row in (*starts, *gone):
            info = self._info(agent, rows, row)
            info.stacked_vector_observation.extend(seen[row].tolist())
            end = ends.get(agent)
            if end is not None:
                info.reward = float(rows.rewards[end]) + (0.0 if end == row else float(rows.rewards[row]))
                info.done, info.max_step_reached = True, bool(rows.interrupted[end])
            infos.append(info)
        for agent, _ in gone:
            self._echoes.pop(agent, None)
        return infos

    def _info(self, agent: int, rows: Rows, row: int) -> pb.AgentInfoProto:
        echo = self._echo(agent)
        return pb.AgentInfoProto(
            id=agent_id(agent),
            reward=float(rows.rewards[row]),
            visual_observations=[self._picture(n, int(numbers[row])) for n, numbers in enumerate(rows.images)],
            text_observation="" if rows.texts is None else rows.texts[row],
            stored_vector_actions=echo.actions,
            stored_text_actions=echo.text,
            memories=echo.memories,
            action_mask=() if rows.mask is None else rows.mask[row].tolist(),
        )

    def _joined(self, rows: Rows) -> Floats:
        nothing = np.zeros((len(rows.ids), 0), np.float32)
        return np.concatenate((nothing, *rows.observations), axis=1)

    def _painted(self, camera: int, number: int) -> bytes:
        return png(self.spec.images[camera].paint(number))

    def _echo(self, agent: int) -> _Echo:
        width = self.spec.continuous + len(self.spec.branches)
        return self._echoes.setdefault(agent, _Echo((0.0,) * width))


@dataclass(slots=True)
class Gen1Dialect:
    """Speaks one of the old versions; `frames` is how many vectors each brain stacks."""

    protocol: Protocol
    frames: int = 1
    exchange_path: str = EXCHANGE_PATH
    _brains: dict[str, _Brain] = field(default_factory=dict)

    def hello(self, world: World) -> bytes:
        """Who we are: every brain that there will ever be, and the reset parameters with their defaults."""
        message = pb.UnityMessage(header=pb.Header(status=wire.STATUS_OK))
        output = message.unity_output.rl_initialization_output
        output.name = ACADEMY
        output.version = self.protocol.version
        output.brain_parameters.extend(_Brain(spec, self.frames).announcement() for spec in world.specs)
        output.environment_parameters.float_parameters.update(world.parameters.defaults)
        output.environment_parameters.SetInParent()
        return message.SerializeToString(deterministic=True)

    def play(self, world: World) -> None:
        """See `Dialect.play`."""
        self._brains = {spec.name: _Brain(spec, self.frames) for spec in world.specs}

    def read(self, message: bytes, *, is_greeting: bool) -> Order:
        """See `Dialect.read`. The trainer's version is not told; a reply without rl_input closes, as in Unity."""
        try:
            parsed = pb.UnityMessage.FromString(message)
        except DecodeError as error:
            raise TrainerMistakeError(f"{len(message)} bytes arrived that are no UnityMessage: {error}") from error
        sent = parsed.unity_input
        if parsed.header.status != wire.STATUS_OK:
            return Order("QUIT")
        if is_greeting:
            if not sent.HasField("rl_initialization_input"):
                raise TrainerMistakeError("the first reply has no rl_initialization_input, with its seed")
            return Order("RESET", seed=sent.rl_initialization_input.seed)
        command = COMMANDS.get(sent.rl_input.command)
        if not sent.HasField("rl_input") or command == "QUIT":
            return Order("QUIT", is_asked=command == "QUIT")
        if command is None:
            raise TrainerMistakeError(f"command {sent.rl_input.command} arrived, expected STEP 0, RESET 1 or QUIT 2")
        if command == "STEP":
            return Order(command, actions=self._by_behavior(sent.rl_input))
        parameters = tuple(sorted(sent.rl_input.environment_parameters.float_parameters.items()))
        return Order(command, parameters=parameters, train_mode=sent.rl_input.is_training)

    def action_lists(self, spec: BehaviorSpec, rows: Rows, received: Sequence[pb.AgentActionProto]) -> ActionLists:
        """See `Dialect.action_lists`; the rows of those who are gone are counted and dropped."""
        brain = self._brains[spec.name]
        if len(received) != len(brain.listed):
            raise TrainerMistakeError(
                f"brain {brain.name!r}: {len(received)} action rows arrived for {len(brain.listed)} agents; "
                "send one row for every agent of the last message, done or not, in its order"
            )
        stay = received[: len(rows.waiting())]
        brain.hear(stay)
        return in_one_list(spec, [row.vector_actions for row in stay])

    def applied(self, spec: BehaviorSpec, rows: Rows, actions: Actions) -> None:
        """Keeps the actions for the agents' next rows, which hold what was done before."""
        self._brains[spec.name].applied(rows.waiting().tolist(), actions)

    def tell(self, rows: Mapping[str, Rows], *, is_reset: bool, is_over: bool) -> bytes:
        """See `Dialect.tell`; brains without agents are there with an empty list."""
        message = pb.UnityMessage(header=pb.Header(status=wire.STATUS_OK))
        output = message.unity_output.rl_output
        output.global_done = is_over
        for name, brain in self._brains.items():
            if is_reset:
                brain.reset()
            listed = output.agentInfos[brain.name].value
            if name in rows:
                listed.extend(brain.agents(rows[name]))
        return message.SerializeToString(deterministic=True)

    def _by_behavior(self, received: pb.UnityRLInput) -> dict[str, Sequence[pb.AgentActionProto]]:
        behaviors = {brain.name: brain for brain in self._brains.values()}
        actions: dict[str, Sequence[pb.AgentActionProto]] = {}
        for name, rows in received.agent_actions.items():
            brain = behaviors.get(name)
            if brain is None:
                raise TrainerMistakeError(f"actions for brain {name!r}; announced are {list(behaviors)}")
            if not brain.spec.is_training:
                raise TrainerMistakeError(f"actions for brain {name!r}, which the player itself controls")
            if rows.value:
                actions[brain.spec.name] = rows.value
        return actions
