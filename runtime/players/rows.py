"""Agents on the wire -> columns: one array per field over all agents of one brain in one reply.

Floats leave protobuf as the bytes of their packed field: letting the library box each number costs twice as much
for 8 of them and 25 times for 1000. A field in any other legal layout takes the slow path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runtime.errors import PlayerContentError
from runtime.experience.brains import (
    ActionSpec,
    Bools,
    BrainParameters,
    DecisionRows,
    Floats,
    Ids,
    Observation,
    TerminalRows,
    empty_rows,
)
from runtime.experience.masks import find_blocked
from runtime.players.announcements import WireObservation
from runtime.players.guards import Guard
from runtime.players.images import as_bytes, channels_first, decode_image
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb

Agents = Sequence[pb.AgentInfoProto]


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the agents of one brain. One reader serves all replies of a player. wire: its observations as sent."""

    brain: BrainParameters
    wire: tuple[WireObservation, ...]
    _layouts: tuple[tuple[list[int], int, int], ...]
    """Per observation: its shape on the wire, and where the numbers start and end in the bytes of a packed field."""
    _silent: tuple[DecisionRows, TerminalRows]

    @staticmethod
    def of(brain: BrainParameters, wire: tuple[WireObservation, ...]) -> RowReader:
        """A reader of this brain's agents."""
        layouts = []
        for each in wire:
            size = 4 * math.prod(each.shape)
            start = 1 + _varint_size(size)
            layouts.append((list(each.shape), start, start + size))
        return RowReader(brain, wire, tuple(layouts), empty_rows(brain))

    def read(self, agents: Agents, guard: Guard) -> tuple[DecisionRows, TerminalRows]:
        """The rows of one reply: agents that wait for a decision, and agents whose episode ended.

        Raises PlayerContentError for not finite numbers (unless the guard replaces them), wrong shapes and masks that
        leave no choice, and PlayerProtocolError for an agent that asks for two decisions at once.
        """
        waiting: list[pb.AgentInfoProto] = []
        ended: list[pb.AgentInfoProto] = []
        for agent in agents:
            (ended if agent.done else waiting).append(agent)
        both = waiting + ended
        if not both:
            return self._silent
        # One array per field for all, of which both kinds get their part: arrays cost more than the numbers in them.
        cut, ids = len(waiting), _ids(both)
        require_unique(self.brain, ids[:cut], guard.place)
        observations = self.observations(both, ids, guard)
        rewards = finite_rewards(self.brain, [agent.reward for agent in both], ids, guard)
        group_ids = np.array([agent.group_id for agent in both], np.int32)
        group_rewards = finite_rewards(
            self.brain, [agent.group_reward for agent in both], ids, guard, field="group_reward"
        )
        decisions, terminals = self._silent
        if waiting:
            decisions = DecisionRows(
                agents=ids[:cut],
                observations=tuple([each[:cut] for each in observations]),
                rewards=rewards[:cut],
                action_masks=allowed_actions(self.brain, [each.action_mask for each in waiting], ids, guard.place),
                group_ids=group_ids[:cut],
                group_rewards=group_rewards[:cut],
            )
        if ended:
            terminals = TerminalRows(
                agents=ids[cut:],
                observations=tuple([each[cut:] for each in observations]),
                rewards=rewards[cut:],
                interrupted=np.array([agent.max_step_reached for agent in ended], np.bool_),
                group_ids=group_ids[cut:],
                group_rewards=group_rewards[cut:],
            )
        return decisions, terminals

    def observations(self, agents: Agents, ids: Ids, guard: Guard) -> tuple[Observation, ...]:
        """The observations of these agents, a row each, whether they wait or not. Raises as `read` does."""
        lists = [agent.observations for agent in agents]
        for row, observations in enumerate(lists):
            if len(observations) != len(self.wire):
                text = f"{len(observations)} observations, expected {len(self.wire)}."
                raise content_error(self.brain, guard.place, ids[row], text)
        return tuple(
            self._observation(index, [observations[index] for observations in lists], ids, guard)
            for index in range(len(self.wire))
        )

    def _observation(self, index: int, protos: list[pb.ObservationProto], ids: Ids, guard: Guard) -> Observation:
        wire = self.wire[index]
        if wire.spec.dtype == "uint8":
            images = np.empty((len(protos), *wire.spec.shape), np.uint8)
            for row, proto in enumerate(protos):
                images[row] = self._image(index, proto, ids[row], guard)
            return images
        shape, start, end = self._layouts[index]
        parts: list[bytes] = []
        for row, proto in enumerate(protos):
            packed = proto.float_data.SerializeToString()
            if len(packed) != end or proto.shape != shape:
                packed = self._uncommon(index, proto, ids[row], guard.place)
            parts.append(packed[start:])
        values = np.frombuffer(b"".join(parts), "<f4").astype(np.float32, copy=False).reshape(len(protos), *wire.shape)
        values = guard.finite(values, lambda at, value: self._not_finite(index, (at, value), ids, guard.place))
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if wire.is_channels_last else values

    def _not_finite(
        self, index: int, found: tuple[tuple[int, ...], np.float32], ids: Ids, place: Place
    ) -> PlayerContentError:
        at, value = found
        text = f"observation {index} ({self.wire[index].spec.name!r}) at index {_indices(at[1:])} is {value}"
        return content_error(self.brain, place, ids[at[0]], f"{text}; expected a finite number.")

    def _image(self, index: int, proto: pb.ObservationProto, agent: np.int64, guard: Guard) -> Observation:
        """One image as bytes, also when the player sends it uncompressed this time."""
        wire = self.wire[index]
        try:
            if proto.WhichOneof("observation_data") == "compressed_data" and tuple(proto.shape) == wire.shape:
                return _decoded(proto, wire)
            packed = self._uncommon(index, proto, agent, guard.place)
            values = np.frombuffer(packed[self._layouts[index][1] :], "<f4").reshape(wire.shape)
            values = guard.finite(
                values, lambda at, value: self._not_finite(index, ((0, *at), value), np.array([agent]), guard.place)
            )
            return as_bytes(values.transpose(2, 0, 1) if wire.is_channels_last else values)
        except ValueError as error:
            text = f"observation {index} ({wire.spec.name!r}): {error}."
            raise content_error(self.brain, guard.place, agent, text) from error

    def _uncommon(self, index: int, proto: pb.ObservationProto, agent: np.int64, place: Place) -> bytes:
        """The same bytes as the packed field of a usual observation, for a compressed one or one in another layout."""
        wire = self.wire[index]
        field = f"observation {index} ({wire.spec.name!r})"
        if tuple(proto.shape) != wire.shape:
            text = f"{field} has shape {tuple(proto.shape)}, expected {wire.shape}."
            raise content_error(self.brain, place, agent, text)
        try:
            floats = _uncommon_floats(proto, wire)
        except ValueError as error:
            raise content_error(self.brain, place, agent, f"{field}: {error}.") from error
        if floats.size != math.prod(wire.shape):
            text = f"{field} has {floats.size} numbers, expected {math.prod(wire.shape)} for {wire.shape}."
            raise content_error(self.brain, place, agent, text)
        return bytes(1 + _varint_size(4 * floats.size)) + floats.astype("<f4").tobytes()


def content_error(brain: BrainParameters, place: Place, agent: np.int64, text: str) -> PlayerContentError:
    """An error that names brain and agent."""
    return place.content_error(f"brain {brain.brain_name!r}, agent {int(agent)}: {text}")


def require_unique(brain: BrainParameters, ids: Ids, place: Place) -> None:
    """Nothing, when no agent asks twice; else raises PlayerProtocolError naming one that does."""
    if len(set(ids.tolist())) != len(ids):
        values, counts = np.unique(ids, return_counts=True)
        raise place.protocol_error(
            f"brain {brain.brain_name!r}: agent {int(values[counts > 1][0])} asks for two decisions in one "
            "message; agent ids must be unique among the agents that wait."
        )


def finite_rewards(
    brain: BrainParameters, values: Sequence[float], ids: Ids, guard: Guard, *, field: str = "reward"
) -> Floats:
    """float32 (n,) of finite rewards. Raises PlayerContentError as the guard says."""
    if not any(values):  # as nearly all rewards of groups are; what is not a number counts as something
        return np.zeros(len(values), np.float32)
    return guard.finite(
        np.array(values, np.float32),
        lambda at, value: content_error(
            brain, guard.place, ids[at[0]], f"{field} is {value}; expected a finite number."
        ),
    )


def allowed_actions(brain: BrainParameters, masks: Sequence[Sequence[bool]], ids: Ids, place: Place) -> Bools | None:
    """bool (n, mask_size), True = allowed, from masks in which True forbids; None when nothing is masked.

    Raises PlayerContentError when all actions of a branch are forbidden.
    """
    size = brain.action_spec.mask_size
    if not size or not any(masks):
        return None
    allowed = np.ones((len(masks), size), np.bool_)
    for row, mask in enumerate(masks):
        # A mask of another length says nothing, as in the players' own library.
        if len(mask) == size:
            allowed[row] = [not forbidden for forbidden in mask]
    if allowed.all():
        return None
    blocked = find_blocked(allowed, brain.action_spec.discrete_branches)
    if blocked is not None:
        row, branch = blocked
        text = f"all actions of branch {branch} are masked; expected at least one allowed."
        raise content_error(brain, place, ids[row], text)
    return allowed


def branch_slices(spec: ActionSpec) -> list[slice]:
    """Where each branch lies in a flat mask."""
    ends = np.cumsum(spec.discrete_branches, dtype=np.int64).tolist()
    return [slice(end - size, end) for end, size in zip(ends, spec.discrete_branches, strict=True)]


def _uncommon_floats(proto: pb.ObservationProto, wire: WireObservation) -> Floats:
    if proto.WhichOneof("observation_data") == "compressed_data":
        image = _decoded(proto, wire).astype(np.float32) / np.float32(255)
        return image.transpose(1, 2, 0) if wire.is_channels_last else image
    return np.fromiter(proto.float_data.data, np.float32, len(proto.float_data.data))


def _decoded(proto: pb.ObservationProto, wire: WireObservation) -> Observation:
    if len(wire.shape) != 3 or proto.compression_type != pb.CompressionTypeProto.PNG:
        msg = f"compressed data of type {proto.compression_type} for shape {wire.shape}; only images may be PNG files"
        raise ValueError(msg)
    shape = channels_first(wire.shape) if wire.is_channels_last else wire.shape
    return decode_image(proto.compressed_data, shape, proto.compressed_channel_mapping)


def _ids(agents: Agents) -> Ids:
    return np.array([agent.id for agent in agents], np.int64)


def _indices(at: tuple[int, ...]) -> str:
    return str(at[0]) if len(at) == 1 else str(at)


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
