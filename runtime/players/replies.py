"""What we send to a player: actions, resets and the end, as the bytes of a UnityMessageProto.

A message with many agents is the same few bytes per agent with other numbers in them, so the bytes of all agents are
laid out as one table and filled by column. Branch indices above 127, which need longer varints, take the library's
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from runtime.errors import ShapeError
from runtime.experience.actions import Actions
from runtime.experience.brains import ActionSpec, AllBrainInfo, BrainParameters, Ints
from runtime.experience.finite import all_finite
from runtime.players.wire import communicator_pb2 as pb
from runtime.protobuf_bytes import varint

Bytes = npt.NDArray[np.uint8]
CLOSING = pb.UnityMessageProto(header=pb.HeaderProto(status=400)).SerializeToString()
_HEADER = pb.UnityMessageProto(header=pb.HeaderProto(status=200)).SerializeToString()
_VARINT_1_MAX = 127


def encode_reset(side_channel: bytes = b"") -> bytes:
    """The order to reset. side_channel: what is to be applied before it."""
    reset = pb.UnityRLInputProto(command=pb.CommandProto.RESET, side_channel=side_channel)
    return _HEADER + pb.UnityMessageProto(unity_input=pb.UnityInputProto(rl_input=reset)).SerializeToString()


def encode_step(actions: Mapping[str, Actions], side_channel: bytes = b"") -> bytes:
    """The order to step, with an action per waiting agent in the player's order; brains without rows are left out."""
    acting = [(name, rows) for name, rows in actions.items() if len(rows.continuous)]
    if len(acting) == 1 and not side_channel:
        name, rows = acting[0]
        told = _agent_actions(rows)
        return _head(name, len(told)) + told
    parts = []
    for name, rows in acting:
        parts.append(field_bytes(0x0A, field_bytes(0x0A, name.encode()) + field_bytes(0x12, _agent_actions(rows))))
    if side_channel:
        parts.append(field_bytes(0x2A, side_channel))
    return _HEADER + field_bytes(0x1A, field_bytes(0x0A, b"".join(parts)))


@lru_cache(maxsize=64)
def _head(name: str, size: int) -> bytes:
    """What stands before `size` bytes of the actions of the one brain that acts."""
    head = field_bytes(0x0A, name.encode()) + b"\x12" + varint(size)
    for tag in (0x0A, 0x0A, 0x1A):
        head = bytes([tag]) + varint(len(head) + size) + head
    return _HEADER + head


def require_actions(
    actions: Mapping[str, Actions], waiting: AllBrainInfo, brains: Mapping[str, BrainParameters]
) -> None:
    """Nothing, when there is one legal action for every waiting agent; else raises ShapeError naming the brain."""
    for name in actions:
        if name not in brains:
            raise ShapeError(f"actions for brain {name!r}, which this player does not have; it has {sorted(brains)}.")
    for name, info in waiting.items():
        agents, spec = len(info.decisions.agents), brains[name].action_spec
        rows = actions.get(name)
        if rows is None:
            if agents:
                raise ShapeError(f"no actions for brain {name!r}, where {agents} agents wait for one each.")
            continue
        expected = (agents, spec.continuous_size), (agents, len(spec.discrete_branches))
        if (rows.continuous.shape, rows.discrete.shape) != expected:
            raise ShapeError(
                f"actions of shapes {rows.continuous.shape} and {rows.discrete.shape} for brain {name!r}; "
                f"expected continuous {expected[0]} and discrete {expected[1]}."
            )
        if agents:
            _require_values(name, rows, spec)
        _require_keepsakes(name, rows, agents)


def _require_values(name: str, rows: Actions, spec: ActionSpec) -> None:
    if rows.continuous.size and not all_finite(rows.continuous):
        raise ShapeError(
            f"an action for brain {name!r} is not finite: {rows.continuous[~np.isfinite(rows.continuous)][0]}."
        )
    # As numbers without a sign those below 0 are above every size.
    if b"\x01" in (rows.discrete.view(np.uint32) >= _sizes(spec.discrete_branches)).tobytes():
        raise ShapeError(
            f"an action index for brain {name!r} is outside its branches of {spec.discrete_branches} choices."
        )


@cache
def _sizes(branches: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    return np.array(branches, np.uint32)


def _require_keepsakes(name: str, rows: Actions, agents: int) -> None:
    """Memories, texts and values, where they are given, are one per agent and finite."""
    if rows.memories is None and rows.values is None and not rows.texts:
        return
    memories = np.zeros((agents, 0), np.float32) if rows.memories is None else rows.memories
    values = np.zeros(agents, np.float32) if rows.values is None else rows.values
    if memories.ndim != 2 or {len(memories), len(values), len(rows.texts or values)} != {agents} or values.ndim != 1:
        raise ShapeError(
            f"memories of shape {memories.shape}, {len(rows.texts)} texts and values of shape {values.shape} for brain "
            f"{name!r}; expected one of each for every one of {agents} agents, or none."
        )
    if not (np.isfinite(memories).all() and np.isfinite(values).all()):
        raise ShapeError(f"a memory or a value for brain {name!r} is not finite.")


def _agent_actions(rows: Actions) -> bytes:
    """The bytes of a ListAgentActionProto."""
    continuous, discrete = rows.continuous, rows.discrete
    floats, branches = continuous.shape[1], discrete.shape[1]
    is_long = branches and int(np.maximum.reduce(discrete.view(np.uint32), axis=None)) > _VARINT_1_MAX
    if is_long:
        return _agent_actions_one_by_one(rows)
    if not floats and branches == 1:
        return _choices().take(discrete[:, 0], axis=0).tobytes()
    return _table(continuous, discrete)


def _table(continuous: npt.NDArray[np.float32], discrete: Ints) -> bytes:
    """The bytes of each agent's action, one after the other, with indices up to 127."""
    count, floats = continuous.shape
    template, fields = _layout(floats, discrete.shape[1])
    block = bytearray(template * count)
    rows = np.frombuffer(block, fields)
    if floats:
        rows["continuous"] = continuous
        rows["deprecated"][:, :floats] = continuous
    if discrete.shape[1]:
        rows["discrete"] = discrete
        rows["deprecated"][:, floats:] = discrete
    return bytes(block)


@cache
def _choices() -> Bytes:
    """An agent's bytes for each index of a single branch, a row for each: most players have no other action."""
    discrete = np.arange(_VARINT_1_MAX + 1, dtype=np.int32)[:, None]
    table = _table(np.zeros((len(discrete), 0), "<f4"), discrete)
    return np.frombuffer(table, np.uint8).reshape(len(discrete), -1)


def bytes_of(numbers: npt.NDArray[np.float32]) -> Bytes:
    """uint8 (n, 4 * width): the bytes of each row of little-endian floats."""
    return np.frombuffer(numbers.tobytes(), np.uint8).reshape(len(numbers), 4 * numbers.shape[1])


@cache
def _layout(floats: int, branches: int) -> tuple[bytes, np.dtype[np.void]]:
    """One agent's bytes with all numbers 0, and the fields that lie in them."""
    body = b""
    fields: dict[str, tuple[str, int]] = {}
    for name, tag, count, kind, width in (
        ("deprecated", 0x0A, floats + branches, "<f4", 4),
        ("continuous", 0x32, floats, "<f4", 4),
        ("discrete", 0x3A, branches, "u1", 1),
    ):
        if count:
            body += bytes([tag]) + varint(count * width)
            fields[name] = f"({count},){kind}", len(body)
            body += bytes(count * width)
    head = b"\x0a" + varint(len(body))
    places = {
        "names": list(fields),
        "formats": [kind for kind, _ in fields.values()],
        "offsets": [len(head) + at for _, at in fields.values()],
        "itemsize": len(head) + len(body),
    }
    return head + body, np.dtype(places)  # type: ignore[call-overload] # the stubs know no such dictionary


def _agent_actions_one_by_one(rows: Actions) -> bytes:
    agents = pb.UnityRLInputProto.ListAgentActionProto()
    for continuous, discrete in zip(rows.continuous.tolist(), _rows_of(rows.discrete), strict=True):
        agents.value.add(
            vector_actions_deprecated=[*continuous, *discrete], continuous_actions=continuous, discrete_actions=discrete
        )
    return agents.SerializeToString()


def _rows_of(numbers: Ints) -> list[list[int]]:
    rows: list[list[int]] = numbers.tolist()
    return rows


def field_bytes(tag: int, body: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([tag]) + varint(len(body)) + body
