"""Both generations of the protocol from the trainer's side, in one meaning, for the checks of players."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from fakeunity.protocols import CAPABILITIES, NEWEST, PROTOCOLS
from fakeunity.testing.contract import require
from fakeunity.wire import STATUS_CLOSING, STATUS_OK
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2

Shape = tuple[int, ...]
Numbers = Sequence[float]


@dataclass(frozen=True, slots=True)
class Sensor:
    """One observation: its shape, and either its numbers or a picture's file."""

    shape: Shape
    numbers: tuple[float, ...] = ()
    picture: bytes = b""


@dataclass(frozen=True, slots=True)
class Agent:
    """One row. rewards: its own, and its group's where there is one. mask: per action of all branches, may be empty."""

    number: int
    rewards: tuple[float, ...]
    done: bool
    interrupted: bool
    sensors: tuple[Sensor, ...]
    mask: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Behavior:
    """What was announced. sensors: shapes, where the announcement tells them. is_training: false is unset, too."""

    name: str
    continuous: int
    branches: tuple[int, ...]
    is_training: bool
    sensors: tuple[Shape, ...] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One call after the second: behaviors announced in it, and rows by behavior."""

    announced: tuple[Behavior, ...] = ()
    rows: Mapping[str, tuple[Agent, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hello:
    """The first call."""

    version: str
    capabilities: frozenset[str]
    announced: tuple[Behavior, ...]


class Tongue(Protocol):
    """One generation of the protocol."""

    ends_in_rows_of_their_own: bool
    """Whether an agent that is done gets no action."""
    tells_control: bool
    """Whether every player says which behaviors the trainer acts for; else false may be a field left unset."""

    def greeting(self, seed: int) -> bytes:
        """The reply to the first call."""

    def reset(self) -> bytes:
        """The reply that resets."""

    def step(self, actions: Mapping[str, Sequence[tuple[Numbers, Sequence[int]]]]) -> bytes:
        """The reply with the actions, continuous and discrete, of everybody who waits."""

    def told(self, call: bytes) -> Told:
        """What a call says. Raises ConformanceError where it is no message."""


def closing() -> bytes:
    """The reply that ends a player of either generation."""
    return pb2.UnityMessageProto(header=pb2.HeaderProto(status=STATUS_CLOSING)).SerializeToString()


def heard_hello(call: bytes | None) -> tuple[Hello, Tongue]:
    """Who the player is, and how it talks. Raises ConformanceError."""
    require(call is not None, "hello", "no call at all")
    message = pb2.UnityMessageProto()
    _parse(message, call or b"", "hello")
    require(message.header.status == STATUS_OK, "hello", f"status {message.header.status}")
    require(message.unity_output.HasField("rl_initialization_output"), "hello", "a message that does not introduce")
    told = message.unity_output.rl_initialization_output
    version = told.communication_version
    known = PROTOCOLS.get(version)
    require(known is not None or version.startswith("1."), "version", repr(version))
    if known is not None and known.is_gen1:
        old = pb1.UnityMessage()
        _parse(old, call or b"", "hello")
        brains = old.unity_output.rl_initialization_output.brain_parameters
        return Hello(version, frozenset(), tuple(_brain(each) for each in brains)), Gen1Tongue()
    capabilities = frozenset(name for name in CAPABILITIES if getattr(told.capabilities, name))
    if known is not None:
        late = sorted(capabilities - set(known.capabilities()))
        require(not late, "capabilities", f"{late[:1]} in version {version}")
    require("baseRLCapabilities" in capabilities, "capabilities", f"only {sorted(capabilities)}")
    return Hello(version, capabilities, ()), Gen2Tongue()


def check_second_call(call: bytes | None) -> None:
    """Raises ConformanceError unless the call is a header and nothing else."""
    require(call is not None, "second call", "the player ended")
    message = pb2.UnityMessageProto()
    _parse(message, call or b"", "second call")
    require(message.header.status == STATUS_OK, "second call", f"status {message.header.status}")
    require(not message.unity_output.HasField("rl_output"), "second call", "agents, before anybody asked for them")


def _parse(message: pb2.UnityMessageProto | pb1.UnityMessage, call: bytes, rule: str) -> None:
    try:
        message.ParseFromString(call)
    except DecodeError:
        require(False, rule, f"{len(call)} bytes that are no message: {call[:16].hex()}")


class Gen2Tongue:
    """1.0.0 and later."""

    ends_in_rows_of_their_own = True
    tells_control = False

    def greeting(self, seed: int) -> bytes:
        """Seed, version, every capability."""
        reply = _reply2()
        told = reply.unity_input.rl_initialization_input
        told.seed, told.communication_version, told.package_version, told.num_areas = seed, NEWEST, "1.1.0", 1
        for name in CAPABILITIES:
            setattr(told.capabilities, name, True)
        return reply.SerializeToString()

    def reset(self) -> bytes:
        """A RESET."""
        reply = _reply2()
        reply.unity_input.rl_input.command = pb2.RESET
        return reply.SerializeToString()

    def step(self, actions: Mapping[str, Sequence[tuple[Numbers, Sequence[int]]]]) -> bytes:
        """A STEP, with the list of older versions beside the two of newer ones."""
        reply = _reply2()
        reply.unity_input.rl_input.command = pb2.STEP
        for name, rows in actions.items():
            for continuous, discrete in rows:
                reply.unity_input.rl_input.agent_actions[name].value.add(
                    vector_actions_deprecated=[*continuous, *discrete],
                    continuous_actions=continuous,
                    discrete_actions=discrete,
                )
        return reply.SerializeToString()

    def told(self, call: bytes) -> Told:
        """Announcements and rows."""
        message = pb2.UnityMessageProto()
        _parse(message, call, "message")
        require(message.header.status == STATUS_OK, "message", f"status {message.header.status}")
        output = message.unity_output
        infos = output.rl_output.agentInfos
        return Told(
            tuple(_behavior(each) for each in output.rl_initialization_output.brain_parameters),
            {name: tuple(_agent2(info) for info in infos[name].value) for name in sorted(infos)},
        )


class Gen1Tongue:
    """API-8 to API-10."""

    ends_in_rows_of_their_own = False
    tells_control = True

    def greeting(self, seed: int) -> bytes:
        """The seed."""
        reply = _reply1()
        reply.unity_input.rl_initialization_input.seed = seed
        return reply.SerializeToString()

    def reset(self) -> bytes:
        """A RESET for training."""
        reply = _reply1()
        reply.unity_input.rl_input.command = pb1.RESET
        reply.unity_input.rl_input.is_training = True
        return reply.SerializeToString()

    def step(self, actions: Mapping[str, Sequence[tuple[Numbers, Sequence[int]]]]) -> bytes:
        """A STEP."""
        reply = _reply1()
        reply.unity_input.rl_input.command = pb1.STEP
        for name, rows in actions.items():
            for continuous, discrete in rows:
                reply.unity_input.rl_input.agent_actions[name].value.add(vector_actions=[*continuous, *discrete])
        return reply.SerializeToString()

    def told(self, call: bytes) -> Told:
        """Rows: everything was announced before."""
        message = pb1.UnityMessage()
        _parse(message, call, "message")
        require(message.header.status == STATUS_OK, "message", f"status {message.header.status}")
        infos = message.unity_output.rl_output.agentInfos
        return Told((), {name: tuple(_agent1(info) for info in infos[name].value) for name in sorted(infos)})


def _reply2() -> pb2.UnityMessageProto:
    return pb2.UnityMessageProto(header=pb2.HeaderProto(status=STATUS_OK))


def _reply1() -> pb1.UnityMessage:
    return pb1.UnityMessage(header=pb1.Header(status=STATUS_OK))


def _behavior(told: pb2.BrainParametersProto) -> Behavior:
    if told.HasField("action_spec"):
        spec = told.action_spec
        count, sizes = spec.num_discrete_actions, tuple(spec.discrete_branch_sizes)
        require(count == len(sizes), "actions", f"{told.brain_name!r} has {count} branches, of sizes {sizes}")
        return Behavior(told.brain_name, spec.num_continuous_actions, sizes, told.is_training)
    is_continuous = told.vector_action_space_type_deprecated == pb2.continuous
    return _with_old_actions(told.brain_name, told.vector_action_size_deprecated, is_continuous, told.is_training)


def _brain(told: pb1.BrainParametersProto) -> Behavior:
    is_continuous = told.vector_action_space_type == pb1.continuous
    plain = _with_old_actions(told.brain_name, told.vector_action_size, is_continuous, told.is_training)
    vector = (told.vector_observation_size * told.num_stacked_vector_observations,)
    cameras = [(camera.height, camera.width) for camera in told.camera_resolutions]
    return Behavior(plain.name, plain.continuous, plain.branches, plain.is_training, (vector, *cameras))


def _with_old_actions(name: str, sizes: Iterable[int], is_continuous: bool, is_training: bool) -> Behavior:  # noqa: FBT001 - two facts of one message
    listed = tuple(sizes)
    return Behavior(name, sum(listed) if is_continuous else 0, () if is_continuous else listed, is_training)


def _agent2(info: pb2.AgentInfoProto) -> Agent:
    sensors = [
        Sensor(tuple(seen.shape), tuple(seen.float_data.data), seen.compressed_data) for seen in info.observations
    ]
    rewards = (info.reward, info.group_reward)
    return Agent(info.id, rewards, info.done, info.max_step_reached, tuple(sensors), tuple(info.action_mask))


def _agent1(info: pb1.AgentInfoProto) -> Agent:
    vector = tuple(info.stacked_vector_observation)
    sensors = (Sensor((len(vector),), vector), *(Sensor((), (), file) for file in info.visual_observations))
    return Agent(info.id, (info.reward,), info.done, info.max_step_reached, sensors, tuple(info.action_mask))
