"""Drives a player from the trainer's side with protobuf objects and plain loops, counting for itself."""

import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runtime.players.wire import communicator_pb2 as pb

Agent = tuple[str, int]
Choice = Callable[[pb.BrainParametersProto, pb.AgentInfoProto], pb.AgentActionProto]


class Exchanges(Protocol):
    """A player, in memory or behind a socket."""

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The player's next call after this reply to its last."""


@dataclass
class Count:
    """The four counters of a journal line."""

    env_steps: int = 0
    decisions: int = 0
    agent_steps: int = 0
    episodes: int = 0


def message(status: int = 200) -> pb.UnityMessageProto:
    return pb.UnityMessageProto(header=pb.HeaderProto(status=status))


CAPABILITIES = tuple(field.name for field in pb.UnityRLCapabilitiesProto.DESCRIPTOR.fields)


def handshake(
    seed: int = 0, version: str = "1.5.0", *, capabilities: Sequence[str] = CAPABILITIES, package: str = "1.1.0"
) -> bytes:
    answer = message()
    trainer = answer.unity_input.rl_initialization_input
    trainer.seed = seed
    trainer.communication_version = version
    trainer.package_version = package
    for capability in capabilities:
        setattr(trainer.capabilities, capability, True)
    return answer.SerializeToString()


def reset(side_channel: bytes = b"") -> bytes:
    answer = message()
    answer.unity_input.rl_input.command = pb.RESET
    answer.unity_input.rl_input.side_channel = side_channel
    return answer.SerializeToString()


def closing() -> bytes:
    return message(400).SerializeToString()


@dataclass
class Driver:
    """One conversation with a player. `calls` holds every call's bytes, `returns` the finished episodes' returns.

    What a group was given counts for each of its members.
    """

    player: Exchanges
    choose: Choice
    seed: int = 0
    calls: list[bytes] = field(default_factory=list)
    specs: dict[str, pb.BrainParametersProto] = field(default_factory=dict)
    waiting: dict[str, list[pb.AgentInfoProto]] = field(default_factory=dict)
    count: Count = field(default_factory=Count)
    returns: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lengths: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    endings: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    _open: set[Agent] = field(default_factory=set)
    _return: dict[Agent, float] = field(default_factory=dict)
    _length: dict[Agent, int] = field(default_factory=dict)

    def start(self) -> None:
        """Handshake and first reset."""
        self._next(None)
        self._next(handshake(self.seed))
        self.reset()

    def reset(self, side_channel: bytes = b"") -> None:
        """One RESET, which carries these bytes."""
        self._open.clear()
        self._return.clear()
        self._length.clear()
        self._take(self._next(reset(side_channel)))

    def step(self) -> None:
        """One STEP with an action for every waiting agent."""
        answer = message()
        answer.unity_input.rl_input.command = pb.STEP
        for name, infos in self.waiting.items():
            if infos:
                rows = [self.choose(self.specs[name], info) for info in infos]
                answer.unity_input.rl_input.agent_actions[name].value.extend(rows)
                self.count.decisions += len(rows)
                self._open.update((name, info.id) for info in infos)
        output = self._next(answer.SerializeToString())
        self.count.env_steps += 1
        self._take(output)

    def steps(self, count: int) -> None:
        """That many STEPs."""
        for _ in range(count):
            self.step()

    def close(self) -> bytes | None:
        """Says goodbye; what the player answers."""
        return self.player.exchange(closing())

    def _next(self, reply: bytes | None) -> pb.UnityOutputProto:
        call = self.player.exchange(reply)
        assert call is not None, "the player ended"
        self.calls.append(call)
        return pb.UnityMessageProto.FromString(call).unity_output

    def _take(self, output: pb.UnityOutputProto) -> None:
        for parameters in output.rl_initialization_output.brain_parameters:
            assert parameters.brain_name not in self.specs, "announced twice"
            assert output.rl_output.agentInfos[parameters.brain_name].value, "announced without agents"
            self.specs[parameters.brain_name] = parameters
        assert set(output.rl_output.agentInfos) == set(self.specs), (
            "a known behavior is missing, or an unknown one there"
        )
        for name, infos in output.rl_output.agentInfos.items():
            for info in infos.value:
                self._row(name, info)
            self.waiting[name] = [info for info in infos.value if not info.done]
            ids = [info.id for info in self.waiting[name]]
            assert len(ids) == len(set(ids)), "one agent waits twice"

    def _row(self, name: str, info: pb.AgentInfoProto) -> None:
        agent = (name, info.id)
        if agent in self._open:
            self._open.remove(agent)
            self.count.agent_steps += 1
            self._length[agent] = self._length.get(agent, 0) + 1
        self._return[agent] = self._return.get(agent, 0.0) + info.reward + info.group_reward
        if info.done:
            self.count.episodes += 1
            self.returns[name].append(self._return.pop(agent))
            self.lengths[name].append(self._length.pop(agent, 0))
            self.endings[name].append(info.max_step_reached)


def legal_actions(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> list[list[int]]:
    """The actions of each branch that this agent's mask allows."""
    mask, at, legal = list(info.action_mask), 0, []
    for size in parameters.action_spec.discrete_branch_sizes:
        legal.append([action for action in range(size) if not (mask and mask[at + action])])
        at += size
    return legal


def random_choice(seed: int) -> Choice:
    """Uniformly random legal actions, the same for the same seed."""
    rng = random.Random(seed)

    def choose(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        return pb.AgentActionProto(
            continuous_actions=[rng.uniform(-1, 1) for _ in range(parameters.action_spec.num_continuous_actions)],
            discrete_actions=[rng.choice(legal) for legal in legal_actions(parameters, info)],
        )

    return choose


def fixed_choice(seed: int) -> Choice:
    """Legal actions that depend on what the agent is and sees only, not on the agents around it."""

    def choose(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        return random_choice(zlib.crc32(info.SerializeToString(deterministic=True), seed))(parameters, info)

    return choose


def observations(info: pb.AgentInfoProto) -> list[Sequence[float]]:
    """The numbers that each sensor gives."""
    return [observation.float_data.data for observation in info.observations]


def rows_of_agent(calls: Sequence[bytes], name: str, agent_id: int) -> list[bytes]:
    """Every row of one agent, in order, from a player's calls."""
    return [
        info.SerializeToString(deterministic=True)
        for call in calls
        for info in pb.UnityMessageProto.FromString(call).unity_output.rl_output.agentInfos[name].value
        if info.id == agent_id
    ]
