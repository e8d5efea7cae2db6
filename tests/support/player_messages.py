"""Builds what players say, message by message, with protobuf objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.wire import communicator_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent of one message. observations: flat numbers per observation; mask: as on the wire, True = forbidden."""

    id: int
    observations: tuple[tuple[float, ...], ...]
    reward: float = 0.0
    done: bool = False
    max_step_reached: bool = False
    mask: tuple[bool, ...] = ()
    group_id: int = 0
    group_reward: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What a player could say of one brain at one time."""

    brain: BrainParameters
    agents: tuple[Agent, ...] = field(default=())


def simple_brain(
    name: str = "Bot", *, sizes: Sequence[int] = (2,), actions: ActionSpec | None = None
) -> BrainParameters:
    """A brain with vectors of these sizes, and one continuous action unless told otherwise."""
    specs = tuple(ObservationSpec((size,), (1,), 0, f"VectorSensor_size{size}") for size in sizes)
    return BrainParameters(BrainName(name), specs, actions or ActionSpec(1))


def simple_agent(brain: BrainParameters, agent: int = 0, *, value: float = 0.5) -> Agent:
    """An agent that waits, with the same number in all its observations."""
    return Agent(id=agent, observations=tuple((value,) * int(np.prod(s.shape)) for s in brain.observation_specs))


def agent_proto(brain: BrainParameters, agent: Agent) -> pb.AgentInfoProto:
    """The agent on the wire."""
    proto = pb.AgentInfoProto(
        id=agent.id,
        reward=agent.reward,
        done=agent.done,
        max_step_reached=agent.max_step_reached,
        action_mask=agent.mask,
        group_id=agent.group_id,
        group_reward=agent.group_reward,
    )
    for spec, numbers in zip(brain.observation_specs, agent.observations, strict=True):
        observation = proto.observations.add(
            shape=spec.shape, dimension_properties=spec.dimension_properties, name=spec.name
        )
        observation.float_data.data.extend(numbers)
    return proto


def parameters_proto(brain: BrainParameters) -> pb.BrainParametersProto:
    """The brain's announcement on the wire."""
    spec = brain.action_spec
    return pb.BrainParametersProto(
        brain_name=brain.brain_name,
        is_training=True,
        action_spec=pb.ActionSpecProto(
            num_continuous_actions=spec.continuous_size,
            num_discrete_actions=spec.discrete_size,
            discrete_branch_sizes=spec.discrete_branches,
        ),
    )


def output_message(
    moments: Sequence[Moment] = (), *, announced: Sequence[BrainParameters] = (), side_channel: bytes = b""
) -> pb.UnityMessageProto:
    """A player's message: announcements and agents."""
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    output = message.unity_output
    output.rl_output.side_channel = side_channel
    for brain in announced:
        output.rl_initialization_output.brain_parameters.append(parameters_proto(brain))
    for moment in moments:
        values = output.rl_output.agentInfos[moment.brain.brain_name].value
        values.extend(agent_proto(moment.brain, agent) for agent in moment.agents)
    return message


def introduction_message(version: str = "1.5.0", package: str = "3.0.0") -> pb.UnityMessageProto:
    """A player's first message."""
    told = pb.UnityRLInitializationOutputProto(
        name="AcademySingleton", communication_version=version, package_version=package
    )
    output = pb.UnityOutputProto(rl_initialization_output=told)
    return pb.UnityMessageProto(header=pb.HeaderProto(status=200), unity_output=output)


def numbers_of(agents: Sequence[Agent], field_name: str) -> list[float]:
    """One field of all agents."""
    return [getattr(agent, field_name) for agent in agents]


def by_done(agents: Sequence[Agent]) -> Mapping[bool, list[Agent]]:
    """The agents that ended, and those that wait, in order."""
    return {done: [agent for agent in agents if agent.done is done] for done in (False, True)}
