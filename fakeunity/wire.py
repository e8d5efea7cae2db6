"""The bytes a player sends, and what it reads out of the bytes it gets.

Rows are written without a protobuf object per agent: all agents of one shape of message (with a reward or without,
done or not, ...) have equally long encodings, so one numpy record type fills a whole block of them at once. What comes
out is exactly what a protobuf library would have written from the same values, fields at their default left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakeunity.rows import PLAIN_DIMENSION, BehaviorSpec, Ints, Rows
from runtime.players.wire import communicator_pb2 as pb

COMMUNICATION_VERSION = "1.5.0"
PACKAGE_VERSION = "3.0.0"
ACADEMY = "AcademySingleton"
STATUS_OK = 200
STATUS_CLOSING = 400
EXCHANGE_PATH = "/communicator_objects.UnityToExternalProto/Exchange"

# Tags are field number * 8 + wire type; 2 is length-delimited, 5 four bytes, 0 a varint.
_MESSAGE_OUTPUT = b"\x12"
_OUTPUT_RL, _OUTPUT_INITIALIZATION = b"\x0a", b"\x12"
_RL_AGENT_INFOS = b"\x12"
_ENTRY_KEY, _ENTRY_VALUE = b"\x0a", b"\x12"
_LIST_VALUE = b"\x0a"
_INFO_REWARD, _INFO_DONE, _INFO_MAX_STEP, _INFO_ID = b"\x3d", b"\x40\x01", b"\x48\x01", b"\x50"
_INFO_MASK, _INFO_OBSERVATION = b"\x5a", b"\x6a"


def varint(number: int) -> bytes:
    """`number` (not negative) in base 128, lowest digits first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def field(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + varint(len(content)) + content


def _message(status: int) -> pb.UnityMessageProto:
    return pb.UnityMessageProto(header=pb.HeaderProto(status=status))


_HEADER_OK = _message(STATUS_OK).SerializeToString()


def closing_bytes() -> bytes:
    """What a player sends when it quits by itself."""
    return _message(STATUS_CLOSING).SerializeToString()


def header_bytes() -> bytes:
    """The second call: a header and nothing else."""
    return _HEADER_OK


def hello_bytes() -> bytes:
    """The first call: who we are. Behaviors are announced later."""
    message = _message(STATUS_OK)
    output = message.unity_output.rl_initialization_output
    output.name = ACADEMY
    output.communication_version = COMMUNICATION_VERSION
    output.package_version = PACKAGE_VERSION
    for capability in pb.UnityRLCapabilitiesProto.DESCRIPTOR.fields:
        setattr(output.capabilities, capability.name, True)
    return message.SerializeToString()


def brain_parameters(spec: BehaviorSpec) -> pb.BrainParametersProto:
    """The announcement of a behavior; the deprecated fields stay empty, as every trainer of 1.5 reads action_spec."""
    return pb.BrainParametersProto(
        brain_name=spec.name,
        is_training=True,
        action_spec=pb.ActionSpecProto(
            num_continuous_actions=spec.continuous,
            num_discrete_actions=len(spec.branches),
            discrete_branch_sizes=spec.branches,
        ),
    )


def output_bytes(rows: Mapping[str, bytes], announced: Sequence[BehaviorSpec]) -> bytes:
    """A later call: for each known behavior its rows as RowWriter wrote them, and the behaviors new in this message."""
    infos = (field(_RL_AGENT_INFOS, field(_ENTRY_KEY, k.encode()) + field(_ENTRY_VALUE, v)) for k, v in rows.items())
    output = field(_OUTPUT_RL, b"".join(infos))
    if announced:
        parameters = [brain_parameters(spec) for spec in announced]
        initialization = pb.UnityRLInitializationOutputProto(brain_parameters=parameters)
        output += field(_OUTPUT_INITIALIZATION, initialization.SerializeToString())
    return _HEADER_OK + field(_MESSAGE_OUTPUT, output)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What decides the length of an agent's encoding, apart from its behavior."""

    has_reward: bool
    done: bool
    interrupted: bool
    id_bytes: int
    has_mask: bool


class _Layout:
    """The encoding of one agent of a given shape: a template of bytes, and where in it the values go."""

    def __init__(self, spec: BehaviorSpec, shape: _Shape) -> None:
        self._body = bytearray()
        self._fields: dict[str, tuple[str, int]] = {}
        if shape.has_reward:
            self._body += _INFO_REWARD
            self._leave_room("reward", "<f4", 4)
        self._body += _INFO_DONE * shape.done + _INFO_MAX_STEP * shape.interrupted
        if shape.id_bytes:
            self._body += _INFO_ID
            self._leave_room("id", f"({shape.id_bytes},)u1", shape.id_bytes)
        if shape.has_mask:
            size = sum(spec.branches)
            self._body += _INFO_MASK + varint(size)
            self._leave_room("mask", f"({size},)?", size)
        for number, sensor in enumerate(spec.observations):
            before, after, floats = self._observation(sensor.name, sensor.size)
            self._body += before
            self._leave_room(f"observation_{number}", f"({sensor.size},)<f4", floats)
            self._body += after
        prefix = _LIST_VALUE + varint(len(self._body))
        self.template = prefix + bytes(self._body)
        names = list(self._fields)
        self.dtype = np.dtype(
            {
                "names": names,
                "formats": [self._fields[name][0] for name in names],
                "offsets": [self._fields[name][1] + len(prefix) for name in names],
                "itemsize": len(self.template),
            }
        )

    def _leave_room(self, name: str, format_: str, size: int) -> None:
        self._fields[name] = (format_, len(self._body))
        self._body += bytes(size)

    @staticmethod
    def _observation(name: str, size: int) -> tuple[bytes, bytes, int]:
        """What stands before and after the floats of one observation, and how many bytes they take."""
        floats = size * 4
        inner = field(b"\x0a", bytes(floats))
        shape = field(b"\x0a", varint(size))
        data = field(b"\x22", inner)
        properties = field(b"\x32", varint(PLAIN_DIMENSION))
        whole = field(_INFO_OBSERVATION, shape + data + properties + field(b"\x42", name.encode()))
        after = properties + field(b"\x42", name.encode())
        return whole[: len(whole) - len(after) - floats], after, floats


class RowWriter:
    """Writes the rows of one behavior as the bytes of a ListAgentInfoProto."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self._spec = spec
        self._layouts: dict[tuple[int, bool], _Layout] = {}

    def write(self, rows: Rows) -> bytes:
        """Bytes of all rows in their order; empty for no rows."""
        count = len(rows.ids)
        if not count:
            return b""
        digits = np.searchsorted(_DIGIT_LIMITS, rows.ids, side="right")
        # Bit 0: has a reward, 1: done, 2: interrupted; above: bytes of the id.
        kinds = (digits << 3) | (rows.interrupted.astype(np.int64) << 2) | (rows.done << 1) | (rows.rewards != 0)
        cuts = np.flatnonzero(kinds[1:] != kinds[:-1]) + 1
        edges = [0, *cuts.tolist(), count]
        return b"".join(self._block(rows, int(kinds[a]), a, b) for a, b in itertools.pairwise(edges))

    def _block(self, rows: Rows, kind: int, start: int, stop: int) -> bytes:
        key = (kind, rows.mask is not None)
        layout = self._layouts.get(key)
        if layout is None:
            shape = _Shape(bool(kind & 1), bool(kind & 2), bool(kind & 4), kind >> 3, rows.mask is not None)
            layout = self._layouts[key] = _Layout(self._spec, shape)
        block = bytearray(layout.template * (stop - start))
        fields = np.frombuffer(block, layout.dtype)
        if kind & 1:
            fields["reward"] = rows.rewards[start:stop]
        if kind >> 3:
            fields["id"] = _varints(rows.ids[start:stop], kind >> 3)
        if rows.mask is not None:
            fields["mask"] = rows.mask[start:stop]
        for number, observation in enumerate(rows.observations):
            fields[f"observation_{number}"] = observation[start:stop]
        return bytes(block)


# An id below the n-th limit (and not below the one before) takes n bytes as a varint; id 0 is not written at all.
_DIGIT_LIMITS = np.array([1] + [1 << 7 * digits for digits in range(1, 5)], np.int64)


def _varints(ids: Ints, digits: int) -> NDArray[np.uint8]:
    if digits == 1:
        return ids.astype(np.uint8)[:, None]
    shifts = np.arange(digits, dtype=np.int64) * 7
    groups = (ids[:, None] >> shifts) & 0x7F
    groups[:, :-1] |= 0x80
    return groups.astype(np.uint8)
