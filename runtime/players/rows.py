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
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.players.images import decode_image
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb

Agents = Sequence[pb.AgentInfoProto]


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the agents of one brain. One reader serves all replies of a player."""

    brain: BrainParameters
    _layouts: tuple[tuple[list[int], int, int], ...]
    """Per observation: its shape, and where the numbers start and end in the bytes of a packed field."""
    _mask_size: int
    _silent: tuple[DecisionRows, TerminalRows]

    @staticmethod
    def of(brain: BrainParameters) -> RowReader:
        """A reader of this brain's agents."""
        layouts = []
        for spec in brain.observation_specs:
            size = 4 * math.prod(spec.shape)
            start = 1 + _varint_size(size)
            layouts.append((list(spec.shape), start, start + size))
        return RowReader(brain, tuple(layouts), brain.action_spec.mask_size, empty_rows(brain))

    def read(self, agents: Agents, place: Place) -> tuple[DecisionRows, TerminalRows]:
        """The rows of one reply: agents that wait for a decision, and agents whose episode ended.

        Raises PlayerContentError for not finite numbers, wrong shapes and masks that leave no choice, and
        PlayerProtocolError for an agent that asks for two decisions at once.
        """
        waiting: list[pb.AgentInfoProto] = []
        ended: list[pb.AgentInfoProto] = []
        for agent in agents:
            (ended if agent.done else waiting).append(agent)
        decisions = self._decisions(waiting, place) if waiting else self._silent[0]
        return decisions, self._terminals(ended, place) if ended else self._silent[1]

    def _decisions(self, agents: Agents, place: Place) -> DecisionRows:
        ids = _ids(agents)
        if len({agent.id for agent in agents}) != len(agents):
            values, counts = np.unique(ids, return_counts=True)
            raise place.protocol_error(
                f"brain {self.brain.brain_name!r}: agent {int(values[counts > 1][0])} asks for two decisions in one "
                "message; agent ids must be unique among the agents that wait."
            )
        return DecisionRows(
            agents=ids,
            observations=self._observations(agents, ids, place),
            rewards=self._rewards([agent.reward for agent in agents], "reward", ids, place),
            action_masks=self._masks(agents, ids, place),
            group_ids=np.array([agent.group_id for agent in agents], np.int32),
            group_rewards=self._rewards([agent.group_reward for agent in agents], "group_reward", ids, place),
        )

    def _terminals(self, agents: Agents, place: Place) -> TerminalRows:
        ids = _ids(agents)
        return TerminalRows(
            agents=ids,
            observations=self._observations(agents, ids, place),
            rewards=self._rewards([agent.reward for agent in agents], "reward", ids, place),
            interrupted=np.array([agent.max_step_reached for agent in agents], np.bool_),
            group_ids=np.array([agent.group_id for agent in agents], np.int32),
            group_rewards=self._rewards([agent.group_reward for agent in agents], "group_reward", ids, place),
        )

    def _rewards(self, values: list[float], field: str, ids: Ids, place: Place) -> Floats:
        rewards = np.array(values, np.float32)
        if not np.isfinite(rewards).all():
            row = int(np.flatnonzero(~np.isfinite(rewards))[0])
            raise self._content(place, ids[row], f"{field} is {rewards[row]}; expected a finite number.")
        return rewards

    def _observations(self, agents: Agents, ids: Ids, place: Place) -> tuple[Observation, ...]:
        specs = self.brain.observation_specs
        lists = [agent.observations for agent in agents]
        for row, observations in enumerate(lists):
            if len(observations) != len(specs):
                raise self._content(place, ids[row], f"{len(observations)} observations, expected {len(specs)}.")
        return tuple(
            self._observation(index, [observations[index] for observations in lists], ids, place)
            for index in range(len(specs))
        )

    def _observation(self, index: int, protos: list[pb.ObservationProto], ids: Ids, place: Place) -> Floats:
        spec = self.brain.observation_specs[index]
        shape, start, end = self._layouts[index]
        parts: list[bytes] = []
        for row, proto in enumerate(protos):
            packed = proto.float_data.SerializeToString()
            if len(packed) != end or proto.shape != shape:
                packed = self._uncommon(index, proto, ids[row], place)
            parts.append(packed[start:])
        values = np.frombuffer(b"".join(parts), "<f4").astype(np.float32, copy=False).reshape(len(protos), *spec.shape)
        if not np.isfinite(values).all():
            at = tuple(int(each) for each in np.argwhere(~np.isfinite(values))[0])
            raise self._content(
                place,
                ids[at[0]],
                f"observation {index} ({spec.name!r}) at index {_indices(at[1:])} is {values[at]}; "
                "expected a finite number.",
            )
        return values

    def _uncommon(self, index: int, proto: pb.ObservationProto, agent: np.int64, place: Place) -> bytes:
        """The same bytes as the packed field of a usual observation, for a compressed one or one in another layout."""
        spec = self.brain.observation_specs[index]
        field = f"observation {index} ({spec.name!r})"
        if tuple(proto.shape) != spec.shape:
            raise self._content(place, agent, f"{field} has shape {tuple(proto.shape)}, expected {spec.shape}.")
        try:
            floats = _uncommon_floats(proto, spec)
        except ValueError as error:
            raise self._content(place, agent, f"{field}: {error}.") from error
        if floats.size != math.prod(spec.shape):
            raise self._content(
                place, agent, f"{field} has {floats.size} numbers, expected {math.prod(spec.shape)} for {spec.shape}."
            )
        return bytes(1 + _varint_size(4 * floats.size)) + floats.astype("<f4").tobytes()

    def _masks(self, agents: Agents, ids: Ids, place: Place) -> Bools | None:
        size = self._mask_size
        if not size or not any(agent.action_mask for agent in agents):
            return None
        allowed = np.ones((len(agents), size), np.bool_)
        for row, agent in enumerate(agents):
            # A mask of another length says nothing, as in the players' own library.
            if len(agent.action_mask) == size:
                allowed[row] = [not forbidden for forbidden in agent.action_mask]
        if allowed.all():
            return None
        self._require_choice(allowed, ids, place)
        return allowed

    def _require_choice(self, allowed: Bools, ids: Ids, place: Place) -> None:
        for branch, columns in enumerate(branch_slices(self.brain.action_spec)):
            stuck = np.flatnonzero(~allowed[:, columns].any(axis=1))
            if len(stuck):
                raise self._content(
                    place, ids[stuck[0]], f"all actions of branch {branch} are masked; expected at least one allowed."
                )

    def _content(self, place: Place, agent: np.int64, text: str) -> PlayerContentError:
        return place.content_error(f"brain {self.brain.brain_name!r}, agent {int(agent)}: {text}")


def branch_slices(spec: ActionSpec) -> list[slice]:
    """Where each branch lies in a flat mask."""
    ends = np.cumsum(spec.discrete_branches, dtype=np.int64).tolist()
    return [slice(end - size, end) for end, size in zip(ends, spec.discrete_branches, strict=True)]


def _uncommon_floats(proto: pb.ObservationProto, spec: ObservationSpec) -> Floats:
    if proto.WhichOneof("observation_data") == "compressed_data":
        if len(spec.shape) != 3 or proto.compression_type != pb.CompressionTypeProto.PNG:
            msg = (
                f"compressed data of type {proto.compression_type} for shape {spec.shape}; only images may be PNG files"
            )
            raise ValueError(msg)
        return decode_image(proto.compressed_data, spec.shape, proto.compressed_channel_mapping)
    return np.fromiter(proto.float_data.data, np.float32, len(proto.float_data.data))


def _ids(agents: Agents) -> Ids:
    return np.array([agent.id for agent in agents], np.int64)


def _indices(at: tuple[int, ...]) -> str:
    return str(at[0]) if len(at) == 1 else str(at)


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
