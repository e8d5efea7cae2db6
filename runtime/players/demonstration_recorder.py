"""Writes `.demo` files that loaders of ML-Agents read: `DemonstrationRecorder`.

A record of the newer generation holds an observation and the action that was taken on it, and an episode's end is a
record of its own, without an action. One of the older generation holds an observation, the action *before* it, and
whether that ended the episode before; its observation is then the first of the next one.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Self

import numpy as np
from PIL import Image

from runtime.errors import UsageError
from runtime.experience.actions import Actions
from runtime.experience.brains import Bools, BrainInfo, BrainParameters, DecisionRows, Observation, TerminalRows
from runtime.players.demonstration_bytes import HEADER_BYTES
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2
from runtime.protobuf_bytes import varint

NAME_CHARACTERS_MAX = 16
API_VERSION = 1


@dataclass(slots=True)
class _End:
    """How an episode ended, until the older generation can tell it with the next observation."""

    reward: float
    interrupted: bool


class DemonstrationRecorder:
    """Records one agent of a brain into a file, which appears under its name when `close` is called.

    path: where; a name that is taken gets `_0`, `_1`, ... appended. brain: as the player announced it. generation: the
    format, 1 for trainers of ML-Agents 0.8 to 0.10. Raises UsageError when the brain cannot be written in it.
    """

    def __init__(self, path: Path, brain: BrainParameters, *, generation: Literal[1, 2] = 2) -> None:
        self._brain = brain
        self._generation = generation
        description = _brain_gen1(brain) if generation == 1 else _brain_gen2(brain)
        self._path = free_path(path)
        self._part = self._path.with_name(self._path.name + ".part")
        self._agent: int | None = None
        self._previous: list[float] = []
        self._end: _End | None = None
        self._steps = self._dones = 0
        self._total = 0.0
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO | None = self._part.open("wb")
        self._file.write(bytes(HEADER_BYTES))
        self._write(description.SerializeToString())

    @property
    def steps(self) -> int:
        """Records written so far."""
        return self._steps

    def follow(self, info: BrainInfo, actions: Actions | None) -> None:
        """Records what the agent shows in one reply, and the action that it is given now.

        The agent is the first one that asks for a decision. actions: one row per agent that waits; None at the end of
        a recording, when nothing is done any more. Raises UsageError after `close`, or for another number of rows.
        """
        waiting = info.decisions.agents.tolist()
        if actions is not None and len(actions.continuous) != len(waiting):
            raise UsageError(
                f"{len(actions.continuous)} actions for {len(waiting)} agents that wait; give one for each."
            )
        if self._agent is None and waiting:
            self._agent = waiting[0]
        ended = info.terminals.agents.tolist()
        if self._agent in ended:
            self._add_end(info.terminals, ended.index(self._agent))
        if self._agent in waiting:
            row = waiting.index(self._agent)
            action = [] if actions is None else [*actions.continuous[row].tolist(), *actions.discrete[row].tolist()]
            self._add_step(info.decisions, row, action)

    def close(self) -> Path:
        """Ends the recording; where it is. A second call does nothing more."""
        file, self._file = self._file, None
        if file is not None:
            episodes = self._dones + 1
            header = header_bytes(self._path.stem, self._steps, episodes, self._total / episodes)
            file.seek(0)
            file.write(header)
            file.close()
            self._part.replace(self._path)
        return self._path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_end(self, rows: TerminalRows, row: int) -> None:
        reward, interrupted = float(rows.rewards[row]), bool(rows.interrupted[row])
        if self._generation == 1:
            self._end = _End(reward, interrupted)
            return
        pair = pb2.AgentInfoActionPairProto(agent_info=self._info_gen2(rows, row, reward))
        pair.agent_info.done, pair.agent_info.max_step_reached = True, interrupted
        self._set_action(pair.action_info, ())
        self._count(reward, done=True)
        self._write(pair.SerializeToString())

    def _add_step(self, rows: DecisionRows, row: int, action: Sequence[float]) -> None:
        mask = None if rows.action_masks is None else rows.action_masks[row]
        end, self._end = self._end, None
        reward = float(rows.rewards[row]) if end is None else end.reward
        if self._generation == 1:
            record = _info_gen1(self._brain, [each[row] for each in rows.observations], mask)
            record.id, record.reward, record.done = int(rows.agents[row]), reward, end is not None
            record.max_step_reached = end is not None and end.interrupted
            record.stored_vector_actions.extend(self._previous or [0.0] * self._width)
            self._previous = list(action)
            self._write(record.SerializeToString())
        else:
            pair = pb2.AgentInfoActionPairProto(agent_info=self._info_gen2(rows, row, reward))
            pair.agent_info.action_mask.extend([] if mask is None else (~mask).tolist())
            self._set_action(pair.action_info, action)
            self._write(pair.SerializeToString())
        self._count(reward, done=end is not None)

    @property
    def _width(self) -> int:
        return self._brain.action_spec.continuous_size + self._brain.action_spec.discrete_size

    def _set_action(self, proto: pb2.AgentActionProto, action: Sequence[float]) -> None:
        """Zeros where nothing was done: loaders read an action of full width out of every record."""
        numbers = action or [0.0] * self._width
        split = self._brain.action_spec.continuous_size
        proto.vector_actions_deprecated.extend(numbers)
        proto.continuous_actions.extend(numbers[:split])
        proto.discrete_actions.extend(int(each) for each in numbers[split:])

    def _info_gen2(self, rows: DecisionRows | TerminalRows, row: int, reward: float) -> pb2.AgentInfoProto:
        info = pb2.AgentInfoProto(
            id=int(rows.agents[row]),
            reward=reward,
            group_id=int(rows.group_ids[row]),
            group_reward=float(rows.group_rewards[row]),
        )
        for spec, values in zip(self._brain.observation_specs, rows.observations, strict=True):
            proto = info.observations.add(
                shape=spec.shape,
                dimension_properties=spec.dimension_properties,
                observation_type=pb2.ObservationTypeProto.GOAL_SIGNAL if spec.observation_type else 0,
                name=spec.name,
            )
            if spec.dtype == "uint8":
                proto.compression_type = pb2.CompressionTypeProto.PNG
                proto.compressed_data = picture_bytes(values[row])
            else:
                proto.float_data.data.extend(values[row].ravel().tolist())
        return info

    def _count(self, reward: float, *, done: bool) -> None:
        self._steps += 1
        self._dones += done
        self._total += reward

    def _write(self, body: bytes) -> None:
        if self._file is None:
            raise UsageError(f"the recording {self._path} is closed; open a new one.")
        self._file.write(varint(len(body)) + body)


def header_bytes(name: str, steps: int, episodes: int, mean_reward: float) -> bytes:
    """The header of a file, with its length, of at most HEADER_BYTES; the name is shortened until it fits."""
    kept = re.sub(r"[^A-Za-z0-9 -]", "", name)[:NAME_CHARACTERS_MAX]
    while True:
        meta = pb2.DemonstrationMetaProto(
            api_version=API_VERSION,
            demonstration_name=kept,
            number_steps=steps,
            number_episodes=episodes,
            mean_reward=mean_reward,
        )
        header = varint(meta.ByteSize()) + meta.SerializeToString()
        if len(header) <= HEADER_BYTES:
            return header
        kept = kept[:-1]


def free_path(path: Path) -> Path:
    """The path with the suffix `.demo`, and `_0`, `_1`, ... before it while that name is taken."""
    stem = path.with_suffix("") if path.suffix == ".demo" else path
    names = itertools.chain([stem.name], (f"{stem.name}_{each}" for each in itertools.count()))
    return next(found for name in names if not (found := stem.with_name(name + ".demo")).exists())


def picture_bytes(image: Observation) -> bytes:
    """PNG files, three channels each, back to back, of an image uint8 (channels, height, width)."""
    channels = image.shape[0]
    if channels == 1:
        planes = np.repeat(image, 3, axis=0)
    else:
        surplus = -channels % 3
        planes = np.concatenate([image, np.zeros((surplus, *image.shape[1:]), np.uint8)])
    files = io.BytesIO()
    for first in range(0, len(planes), 3):
        one = np.ascontiguousarray(planes[first : first + 3].transpose(1, 2, 0)).astype(np.uint8)
        picture = io.BytesIO()
        Image.fromarray(one).save(picture, format="PNG")
        files.write(picture.getvalue())
    return files.getvalue()


def _brain_gen2(brain: BrainParameters) -> pb2.BrainParametersProto:
    spec = brain.action_spec
    return pb2.BrainParametersProto(
        brain_name=brain.brain_name,
        action_spec=pb2.ActionSpecProto(
            num_continuous_actions=spec.continuous_size,
            num_discrete_actions=spec.discrete_size,
            discrete_branch_sizes=spec.discrete_branches,
        ),
    )


def _brain_gen1(brain: BrainParameters) -> pb1.BrainParametersProto:
    spec = brain.action_spec
    images = [each for each in brain.observation_specs if len(each.shape) == 3]
    is_known = all(each.shape[0] in (1, 3) and each.dtype == "uint8" for each in images)
    if (
        (spec.continuous_size and spec.discrete_branches)
        or not is_known
        or len(images) + sum(len(each.shape) == 1 for each in brain.observation_specs) != len(brain.observation_specs)
    ):
        raise UsageError(
            f"brain {brain.brain_name!r} cannot be recorded in the older format, which has vectors, pictures of one or "
            "three channels, and either continuous or discrete actions; record it in the newer one."
        )
    proto = pb1.BrainParametersProto(
        brain_name=brain.brain_name,
        vector_observation_size=brain.vector_observation_space_size,
        num_stacked_vector_observations=1,
        vector_action_size=spec.discrete_branches or (spec.continuous_size,),
        vector_action_space_type=(
            pb1.SpaceTypeProto.discrete if spec.discrete_branches else pb1.SpaceTypeProto.continuous
        ),
    )
    for each in images:
        proto.camera_resolutions.add(width=each.shape[2], height=each.shape[1], gray_scale=each.shape[0] == 1)
    return proto


def _info_gen1(brain: BrainParameters, values: Sequence[Observation], mask: Bools | None) -> pb1.AgentInfoProto:
    info = pb1.AgentInfoProto(action_mask=[] if mask is None else (~mask).tolist())
    for spec, each in zip(brain.observation_specs, values, strict=True):
        if len(spec.shape) == 1:
            info.stacked_vector_observation.extend(each.tolist())
        else:
            info.visual_observations.append(picture_bytes(each))
    return info
