"""A player of API-8 to API-10: a small world, called in memory or as `python -m tests.support.scripted_gen1 --port N`.

Two agents walk on a line, from cell 0 to cell 3: 1 moves, 0 stays. Arriving earns 1 and ends the episode; every other
step earns -0.1; after LIMIT steps the episode is cut off. As players of these versions do, the message in which an
agent is done already carries the first observation of its next episode. Brain `Watched` is controlled by the player.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import grpc

from runtime.players.versions import EXCHANGE_PATH_GEN1
from runtime.players.wire import communicator_gen1_pb2 as pb

IDS = (-1000, 7)
GOAL, LIMIT, WORLD_STEPS = 3, 5, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One agent of one message."""

    id: int
    vector: tuple[float, ...] = ()
    images: tuple[bytes, ...] = ()
    reward: float = 0.0
    done: bool = False
    max_step_reached: bool = False
    mask: tuple[bool, ...] = ()
    memories: tuple[float, ...] = ()
    previous: tuple[float, ...] = ()
    text: str = ""


def agent_proto(agent: Listed) -> pb.AgentInfoProto:
    """The agent on the wire."""
    return pb.AgentInfoProto(
        id=agent.id,
        stacked_vector_observation=agent.vector,
        visual_observations=agent.images,
        reward=agent.reward,
        done=agent.done,
        max_step_reached=agent.max_step_reached,
        action_mask=agent.mask,
        memories=agent.memories,
        stored_vector_actions=agent.previous,
        text_observation=agent.text,
    )


def brain_proto(name: str = "Walker", *, is_training: bool = True, vector: int = 2) -> pb.BrainParametersProto:
    """A brain with one vector and one branch of two."""
    return pb.BrainParametersProto(
        brain_name=name,
        vector_observation_size=vector,
        num_stacked_vector_observations=1,
        vector_action_size=[2],
        vector_action_space_type=pb.SpaceTypeProto.discrete,
        is_training=is_training,
    )


def introduction_message(
    brains: Sequence[pb.BrainParametersProto] = (),
    *,
    version: str = "API-9",
    parameters: Mapping[str, float] | None = None,
) -> pb.UnityMessage:
    """A player's first message."""
    told = pb.UnityRLInitializationOutput(name="Academy", version=version, brain_parameters=brains)
    told.environment_parameters.float_parameters.update(parameters or {})
    return pb.UnityMessage(header=pb.Header(status=200), unity_output=pb.UnityOutput(rl_initialization_output=told))


def output_message(agents: Mapping[str, Sequence[Listed]], *, global_done: bool = False) -> pb.UnityMessage:
    """A player's message with these agents by brain."""
    message = pb.UnityMessage(header=pb.Header(status=200))
    output = message.unity_output.rl_output
    output.global_done = global_done
    for name, listed in agents.items():
        output.agentInfos[name].value.extend(agent_proto(each) for each in listed)
    return message


@dataclass(slots=True)
class _Walker:
    cell: int = 0
    steps: int = 0
    previous: float = 0.0
    memories: tuple[float, ...] = ()


@dataclass(slots=True)
class Gen1Player:
    """The player; `exchange` gives its next call. ends_all: all agents end at once after WORLD_STEPS steps."""

    version: str = "API-9"
    ends_all: bool = False
    heard: list[pb.UnityMessage] = field(default_factory=list)
    closings: int = 0
    _walkers: dict[int, _Walker] = field(default_factory=dict)
    _size: float = 1.0
    _steps: int = 0

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The next call: with None the first one; None when the trainer has ended the session."""
        if request_reply is None:
            brains = brain_proto(), brain_proto("Watched", is_training=False)
            return introduction_message(brains, version=self.version, parameters={"size": 1.0}).SerializeToString()
        order = pb.UnityMessage.FromString(request_reply)
        self.heard.append(order)
        if order.header.status != 200:
            return None
        if not order.unity_input.HasField("rl_input"):
            return pb.UnityMessage(header=pb.Header(status=200)).SerializeToString()
        return self._play(order.unity_input.rl_input).SerializeToString()

    def next_delay_s(self) -> float:
        """It answers at once."""
        return 0.0

    def close(self) -> None:
        """Counts."""
        self.closings += 1

    def _play(self, order: pb.UnityRLInput) -> pb.UnityMessage:
        watched = [Listed(id=1, vector=(float(self._steps), 0.0))]
        if order.command == pb.CommandProto.RESET:
            self._size = order.environment_parameters.float_parameters.get("size", 1.0)
            self._walkers, self._steps = {each: _Walker() for each in IDS}, 0
            return output_message({"Walker": [self._listed(each) for each in IDS], "Watched": watched})
        self._steps += 1
        actions = order.agent_actions["Walker"].value
        assert len(actions) == len(IDS), "one action per listed agent, done or not"
        rows = [self._move(each, action) for each, action in zip(IDS, actions, strict=True)]
        is_over = self.ends_all and self._steps >= WORLD_STEPS
        if is_over:
            rows = [Listed(id=row.id, vector=(0.0, self._size), done=True, max_step_reached=True) for row in rows]
        return output_message({"Walker": rows, "Watched": watched}, global_done=is_over)

    def _move(self, agent: int, action: pb.AgentActionProto) -> Listed:
        walker = self._walkers[agent]
        walker.previous = action.vector_actions[0]
        walker.memories = tuple(action.memories)
        walker.cell += int(walker.previous)
        walker.steps += 1
        is_there = walker.cell >= GOAL
        is_late = not is_there and walker.steps >= LIMIT
        if is_there or is_late:
            walker.cell = walker.steps = 0
        return self._listed(agent, reward=1.0 if is_there else -0.1, done=is_there or is_late, late=is_late)

    def _listed(self, agent: int, *, reward: float = 0.0, done: bool = False, late: bool = False) -> Listed:
        walker = self._walkers[agent]
        return Listed(
            id=agent,
            vector=(float(walker.cell), self._size),
            reward=reward,
            done=done,
            max_step_reached=late,
            previous=(walker.previous,),
            memories=walker.memories,
            text=f"cell {walker.cell}",
        )


def main(arguments: Sequence[str]) -> int:
    """Plays over gRPC until the trainer ends the session."""
    port = next(arguments[at + 1] for at, word in enumerate(arguments) if word in ("--port", "--mlagents-port"))
    version = arguments[arguments.index("--version") + 1] if "--version" in arguments else "API-9"
    player = Gen1Player(version=version, ends_all="--ends-all" in arguments)
    channel = grpc.insecure_channel(f"localhost:{port}", options=(("grpc.enable_http_proxy", 0),))
    exchange = channel.unary_unary(EXCHANGE_PATH_GEN1)
    body = player.exchange(None)
    try:
        while body is not None:
            body = player.exchange(exchange(body, wait_for_ready=True))
    except grpc.RpcError as error:
        sys.stderr.write(f"the trainer is gone: {error.code().name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
