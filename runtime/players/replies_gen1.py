"""What we send to players of API-8 to API-10: actions and resets, as the bytes of a UnityMessage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from runtime.experience.actions import Actions
from runtime.players.replies import bytes_of, field_bytes
from runtime.players.wire import communicator_gen1_pb2 as pb
from runtime.protobuf_bytes import varint

_HEADER = pb.UnityMessage(header=pb.Header(status=200)).SerializeToString()


def encode_reset(parameters: Mapping[str, float], *, train_mode: bool) -> bytes:
    """The order to reset. parameters: all that are to hold; train_mode: which of the player's two speeds."""
    environment = pb.EnvironmentParametersProto(float_parameters=parameters)
    reset = pb.UnityRLInput(environment_parameters=environment, is_training=train_mode, command=pb.CommandProto.RESET)
    return _HEADER + pb.UnityMessage(unity_input=pb.UnityInput(rl_input=reset)).SerializeToString()


def encode_step(actions: Mapping[str, Actions]) -> bytes:
    """The order to step, with an action per listed agent in the player's order; brains without rows are left out."""
    parts = []
    for name, rows in actions.items():
        if len(rows.continuous):
            parts.append(field_bytes(0x0A, field_bytes(0x0A, name.encode()) + field_bytes(0x12, _agent_actions(rows))))
    return _HEADER + field_bytes(0x1A, field_bytes(0x0A, b"".join(parts)))


def _agent_actions(rows: Actions) -> bytes:
    """The bytes of a ListAgentActionProto."""
    numbers = rows.to_array().astype("<f4")
    if rows.memories is not None or rows.texts or rows.values is not None:
        return _with_all_fields(rows, numbers)
    template, start = _layout(numbers.shape[1])
    table = np.empty((len(numbers), len(template)), np.uint8)
    table[:] = template
    table[:, start:] = bytes_of(numbers)
    return table.tobytes()


@cache
def _layout(numbers: int) -> tuple[npt.NDArray[np.uint8], int]:
    """One agent's bytes with all numbers 0, and where they start."""
    body = b"\x0a" + varint(4 * numbers) if numbers else b""
    head = b"\x0a" + varint(len(body) + 4 * numbers) + body
    return np.frombuffer(head + bytes(4 * numbers), np.uint8), len(head)


def _with_all_fields(rows: Actions, numbers: npt.NDArray[np.float32]) -> bytes:
    agents = pb.UnityRLInput.ListAgentActionProto()
    for row, vector in enumerate(numbers.tolist()):
        agents.value.add(
            vector_actions=vector,
            text_actions=rows.texts[row] if rows.texts else "",
            memories=[] if rows.memories is None else rows.memories[row].tolist(),
            value=0.0 if rows.values is None else float(rows.values[row]),
        )
    return agents.SerializeToString()
