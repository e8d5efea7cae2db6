"""What a faulty player does to the bytes of a call before it sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fakeunity.faults.plan import Fault
from runtime.players.wire import communicator_gen1_pb2 as gen1
from runtime.players.wire import communicator_pb2 as pb

MIB = 1 << 20
# Field 1000 is nobody's, so every parser skips it. A field number of 1 and a length that never ends is no message.
_UNKNOWN_TAG = b"\xc2\x3e"
_GARBAGE = b"\x0a\xff"


def spoiled(call: bytes, fault: Fault) -> bytes:
    """The bytes sent instead of `call`. A fault that finds nothing to spoil leaves them as they are."""
    return SPOILERS[fault.verb](call, fault)


def _truncate(call: bytes, fault: Fault) -> bytes:
    count = fault.whole("bytes")
    return call[: len(call) // 2 if count < 0 else count]


def _garbage(_call: bytes, fault: Fault) -> bytes:
    count = fault.whole("bytes")
    return (_GARBAGE * (count // 2 + 1))[:count]


def _pad(call: bytes, fault: Fault) -> bytes:
    count = int(float(fault.value("mib")) * MIB)
    length, left = bytearray(), count
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return call + _UNKNOWN_TAG + bytes(length) + bytes(count)


def _version(call: bytes, fault: Fault) -> bytes:
    # The field has the same number and type in both generations of the protocol.
    message = pb.UnityMessageProto.FromString(call)
    message.unity_output.rl_initialization_output.communication_version = str(fault.value("text"))
    return message.SerializeToString()


def _reshape(call: bytes, fault: Fault) -> bytes:
    message = pb.UnityMessageProto.FromString(call)
    agent, sensor = fault.whole("agent"), fault.whole("sensor")
    for infos in message.unity_output.rl_output.agentInfos.values():
        for info in infos.value:
            if agent in (-1, info.id) and sensor < len(info.observations):
                observation = info.observations[sensor]
                observation.shape[-1] += 1
                observation.float_data.data.append(0.0)
                return message.SerializeToString()
    return _reshape_gen1(call, agent)


def _reshape_gen1(call: bytes, agent: int) -> bytes:
    message = gen1.UnityMessage.FromString(call)
    for infos in message.unity_output.rl_output.agentInfos.values():
        for info in infos.value:
            if agent in (-1, info.id) and len(info.stacked_vector_observation):
                info.stacked_vector_observation.append(0.0)
                return message.SerializeToString()
    return call


def _respec(call: bytes, _fault: Fault) -> bytes:
    message = pb.UnityMessageProto.FromString(call)
    output = message.unity_output
    for name in sorted(output.rl_output.agentInfos):
        del output.rl_initialization_output.brain_parameters[:]
        parameters = output.rl_initialization_output.brain_parameters.add(brain_name=name, is_training=True)
        parameters.action_spec.num_continuous_actions = 1000
        return message.SerializeToString()
    return call


def _stranger(call: bytes, fault: Fault) -> bytes:
    message = pb.UnityMessageProto.FromString(call)
    infos = message.unity_output.rl_output.agentInfos
    first = next((infos[name].value for name in sorted(infos) if infos[name].value), ())
    for agent in list(first)[:1]:
        infos[str(fault.value("name"))].value.append(agent)
        return message.SerializeToString()
    return call


SPOILERS: Mapping[str, Callable[[bytes, Fault], bytes]] = MappingProxyType(
    {
        "version": _version,
        "reshape": _reshape,
        "respec": _respec,
        "stranger": _stranger,
        "pad": _pad,
        "truncate": _truncate,
        "garbage": _garbage,
    }
)
