"""The bytes a player of 1.x sends, row writing apart: who it is, and what became of everybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fakeunity.errors import TrainerMistakeError
from fakeunity.formats import Format
from fakeunity.protocols import NEWEST, PROTOCOLS, Protocol
from fakeunity.rows import BehaviorSpec
from fakeunity.sensors import field, varint
from runtime.players.wire import communicator_pb2 as pb

ACADEMY = "AcademySingleton"
STATUS_OK = 200
STATUS_CLOSING = 400
STATUS_REFUSING = 422
EXCHANGE_PATH = "/communicator_objects.UnityToExternalProto/Exchange"

# Tags are field number * 8 + wire type; 2 is length-delimited.
_MESSAGE_OUTPUT = b"\x12"
_OUTPUT_RL, _OUTPUT_INITIALIZATION = b"\x0a", b"\x12"
_RL_AGENT_INFOS = b"\x12"
_ENTRY_KEY, _ENTRY_VALUE = b"\x0a", b"\x12"


def _message(status: int) -> pb.UnityMessageProto:
    return pb.UnityMessageProto(header=pb.HeaderProto(status=status))


_HEADER_OK = _message(STATUS_OK).SerializeToString()


def closing_bytes() -> bytes:
    """What a player of either generation sends when it quits by itself."""
    return _message(STATUS_CLOSING).SerializeToString()


def refusing_bytes() -> bytes:
    """The same of a player that does not take what the trainer said, and would not if it were started again."""
    return _message(STATUS_REFUSING).SerializeToString()


def header_bytes() -> bytes:
    """The second call of either generation: a header and nothing else."""
    return _HEADER_OK


def hello_bytes(protocol: Protocol = PROTOCOLS[NEWEST], package: str | None = None) -> bytes:
    """The first call: who we are. Behaviors are announced later."""
    message = _message(STATUS_OK)
    output = message.unity_output.rl_initialization_output
    output.name = ACADEMY
    output.communication_version = protocol.version
    output.package_version = package or protocol.package
    for capability in protocol.capabilities():
        setattr(output.capabilities, capability, True)
    return message.SerializeToString()


def brain_parameters(spec: BehaviorSpec, format_: Format) -> pb.BrainParametersProto:
    """The announcement of a behavior, with one of the two descriptions of its actions that there are.

    Raises TrainerMistakeError for a behavior that only newer trainers can learn, as Unity refuses it.
    """
    parameters = pb.BrainParametersProto(brain_name=spec.name, is_training=spec.is_training)
    if any(sensor.rows for sensor in spec.observations) and not format_.has_variable_length:
        raise TrainerMistakeError(
            f"behavior {spec.name!r} sees a changing number of things, and the trainer does not say that it can read "
            "variable-length observations; use one that speaks communicator 1.5.0, or another scene"
        )
    if format_.has_action_spec:
        parameters.action_spec.num_continuous_actions = spec.continuous
        parameters.action_spec.num_discrete_actions = len(spec.branches)
        parameters.action_spec.discrete_branch_sizes.extend(spec.branches)
        return parameters
    if spec.continuous and spec.branches:
        raise TrainerMistakeError(
            f"behavior {spec.name!r} has continuous and discrete actions, and the trainer does not say that it can "
            "send both; use one that speaks communicator 1.3.0 or later, or another scene"
        )
    parameters.vector_action_size_deprecated.extend([spec.continuous] if spec.continuous else spec.branches)
    parameters.vector_action_space_type_deprecated = pb.continuous if spec.continuous else pb.discrete
    return parameters


def output_bytes(rows: Mapping[str, bytes], announced: Sequence[BehaviorSpec], format_: Format | None = None) -> bytes:
    """A later call: for each known behavior its rows as RowWriter wrote them, and the behaviors new in this message."""
    if len(rows) == 1 and not announced:
        ((name, written),) = rows.items()
        return _head(name, len(written)) + written
    infos = [field(_RL_AGENT_INFOS, field(_ENTRY_KEY, k.encode()) + field(_ENTRY_VALUE, v)) for k, v in rows.items()]
    output = field(_OUTPUT_RL, b"".join(infos))
    if announced:
        parameters = [brain_parameters(spec, format_ or Format()) for spec in announced]
        initialization = pb.UnityRLInitializationOutputProto(brain_parameters=parameters)
        output += field(_OUTPUT_INITIALIZATION, initialization.SerializeToString())
    return _HEADER_OK + field(_MESSAGE_OUTPUT, output)


@lru_cache(maxsize=256)
def _head(name: str, size: int) -> bytes:
    """What stands before `size` bytes of the rows of the one behavior that a message is about."""
    head = field(_ENTRY_KEY, name.encode()) + _ENTRY_VALUE + varint(size)
    for tag in (_RL_AGENT_INFOS, _OUTPUT_RL, _MESSAGE_OUTPUT):
        head = tag + varint(len(head) + size) + head
    return _HEADER_OK + head
