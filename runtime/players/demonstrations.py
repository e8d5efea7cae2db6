"""Reads `.demo` files of both generations into columns: `read_demonstration`, `read_demonstrations`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from google.protobuf.message import DecodeError

from runtime.errors import DemonstrationError, PlayerProtocolError
from runtime.experience.brains import ActionSpec, Bools, BrainParameters, Floats, Ids, Ints, Observation
from runtime.experience.demonstrations import Demonstration, spec_differences
from runtime.players.announcements import WireObservation, action_spec, brain_parameters, wire_observations
from runtime.players.demonstration_bytes import DemonstrationFile, FileHead
from runtime.players.guards import Guard
from runtime.players.handshake_gen1 import brain_of
from runtime.players.places import Place
from runtime.players.rows import RowReader, allowed_actions, content_error, finite_rewards
from runtime.players.rows_gen1 import ListReader
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2

SUFFIX = ".demo"
FILE_BYTES_MAX = 4 << 30
"""Of decoded observations, by default."""
_CHUNK_RECORDS = 256
_PLACE = Place(-1)
Record = TypeVar("Record", pb1.AgentInfoProto, pb2.AgentInfoActionPairProto)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Some records as columns; see `Demonstration`."""

    observations: tuple[Observation, ...]
    rewards: Floats
    group_rewards: Floats
    done: Bools
    interrupted: Bools
    agents: Ids
    continuous: Floats
    discrete: Ints
    masks: Bools | None


def read_demonstrations(
    path: Path, *, accepts_unfinished: bool = False, decoded_bytes_max: int = FILE_BYTES_MAX
) -> tuple[Demonstration, ...]:
    """The demonstration in a file, or those in all `.demo` files of a folder, by name.

    Raises DemonstrationError for a path that is not there, has another suffix or is a folder without any, for files
    that cannot be read, and for a file whose brain differs from the first one's.
    """
    if path.is_dir():
        files = sorted(path.glob(f"*{SUFFIX}"))
        if not files:
            raise DemonstrationError(f"{path} holds no {SUFFIX} file; expected at least one.")
    elif not path.exists():
        raise DemonstrationError(f"{path} does not exist; give a {SUFFIX} file, or a folder of them.")
    elif path.suffix != SUFFIX:
        raise DemonstrationError(f"{path} is no {SUFFIX} file; give one, or a folder of them.")
    else:
        files = [path]
    found: list[Demonstration] = []
    for file in files:
        found.append(
            read_demonstration(file, accepts_unfinished=accepts_unfinished, decoded_bytes_max=decoded_bytes_max)
        )
        differences = spec_differences(found[-1].brain, found[0].brain, other=files[0].name)
        if differences:
            raise DemonstrationError(f"{file} does not fit {files[0]}: {'; '.join(differences)}.")
    return tuple(found)


def read_demonstration(
    path: Path, *, accepts_unfinished: bool = False, decoded_bytes_max: int = FILE_BYTES_MAX
) -> Demonstration:
    """The demonstration in a file.

    accepts_unfinished: also a recording that was not ended properly. decoded_bytes_max: bound on the memory of its
    observations. Raises DemonstrationError, with the offset of the byte where the fault is.
    """
    try:
        with path.open("rb") as file:
            reader = DemonstrationFile(path, file)
            head = reader.read_head()
            records = reader.read_records(head, accepts_unfinished=accepts_unfinished)
            return _read(reader, head, records, decoded_bytes_max)
    except OSError as error:
        raise DemonstrationError(f"{path} cannot be read: {error.strerror or error}.") from error


def _read(
    file: DemonstrationFile, head: FileHead, records: Iterator[tuple[int, bytes]], bytes_max: int
) -> Demonstration:
    first = next(records, None)
    if first is None:
        raise file.error(head.offset, "no record; expected at least one.")
    brain, decode = _decoder(file, head, first)
    record_bytes = sum(math.prod(spec.shape) * (1 if spec.dtype == "uint8" else 4) for spec in brain.observation_specs)
    parts: list[_Columns] = []
    count = 0
    for chunk in _chunks(itertools.chain([first], records)):
        count += len(chunk)
        if count * record_bytes > bytes_max:
            raise file.error(
                chunk[0][0],
                f"{count} records take more than {bytes_max} bytes of memory, which is the limit; split it.",
            )
        parts.append(_decoded(file, chunk, count - len(chunk), decode))
    has_masks = any(part.masks is not None for part in parts)
    return Demonstration(
        meta=head.meta,
        generation=head.generation,
        brain=brain,
        observations=tuple(
            cast("Observation", np.concatenate([part.observations[index] for part in parts]))
            for index in range(len(brain.observation_specs))
        ),
        rewards=np.concatenate([part.rewards for part in parts]),
        group_rewards=np.concatenate([part.group_rewards for part in parts]),
        done=np.concatenate([part.done for part in parts]),
        interrupted=np.concatenate([part.interrupted for part in parts]),
        agents=np.concatenate([part.agents for part in parts]),
        continuous=np.concatenate([part.continuous for part in parts]),
        discrete=np.concatenate([part.discrete for part in parts]),
        masks=np.concatenate([_masks_of(part, brain) for part in parts]) if has_masks else None,
    )


def _masks_of(part: _Columns, brain: BrainParameters) -> Bools:
    if part.masks is not None:
        return part.masks
    return np.ones((len(part.rewards), brain.action_spec.mask_size), np.bool_)


def _chunks(records: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    rest = iter(records)
    while chunk := list(itertools.islice(rest, _CHUNK_RECORDS)):
        yield chunk


def _decoded(
    file: DemonstrationFile,
    chunk: Sequence[tuple[int, bytes]],
    first_record: int,
    decode: Callable[[Sequence[bytes]], _Columns],
) -> _Columns:
    """The records of a chunk. If there is a bad one, it is looked for alone, so that the error names it."""
    try:
        return decode([body for _, body in chunk])
    except (DecodeError, PlayerProtocolError):
        for record, (offset, body) in enumerate(chunk, first_record):
            try:
                decode([body])
            except DecodeError as error:
                raise file.error(offset, f"record {record} cannot be read ({error}).") from error
            except PlayerProtocolError as error:
                raise file.error(offset, f"record {record}: {str(error).partition(': ')[2]}") from error
        raise


def _decoder(
    file: DemonstrationFile, head: FileHead, first: tuple[int, bytes]
) -> tuple[BrainParameters, Callable[[Sequence[bytes]], _Columns]]:
    """The brain of a file, and how its records become columns."""
    try:
        if isinstance(head.brain, pb1.BrainParametersProto):
            brain = brain_of(head.brain, _PLACE)
            reader = ListReader(brain)
            return brain, lambda bodies: _columns_gen1(reader, [pb1.AgentInfoProto.FromString(b) for b in bodies])
        pair = pb2.AgentInfoActionPairProto.FromString(first[1])
        name = head.brain.brain_name
        wire: tuple[WireObservation, ...] = wire_observations(name, pair.agent_info.observations, _PLACE)
        brain = brain_parameters(name, action_spec(head.brain, _PLACE), wire)
    except DecodeError as error:
        raise file.error(first[0], f"record 0 cannot be read ({error}).") from error
    except PlayerProtocolError as error:
        raise file.error(head.offset, str(error).partition(": ")[2]) from error
    rows = RowReader.of(brain, wire)
    return brain, lambda bodies: _columns_gen2(rows, [pb2.AgentInfoActionPairProto.FromString(b) for b in bodies])


def _columns_gen1(reader: ListReader, agents: Sequence[pb1.AgentInfoProto]) -> _Columns:
    brain = reader.brain
    listed = reader.read(agents, Guard(_PLACE), may_repeat=True)
    split = brain.action_spec.continuous_size
    return _Columns(
        observations=listed.observations,
        rewards=listed.rewards,
        group_rewards=np.zeros(len(agents), np.float32),
        done=listed.done,
        interrupted=listed.interrupted,
        agents=listed.ids,
        continuous=listed.previous_actions[:, :split],
        discrete=_indices(brain, listed.previous_actions[:, split:], listed.ids),
        masks=listed.masks,
    )


def _columns_gen2(reader: RowReader, pairs: Sequence[pb2.AgentInfoActionPairProto]) -> _Columns:
    brain, guard = reader.brain, Guard(_PLACE)
    agents = [pair.agent_info for pair in pairs]
    ids = np.array([agent.id for agent in agents], np.int64)
    spec = brain.action_spec
    continuous = np.zeros((len(pairs), spec.continuous_size), np.float32)
    discrete = np.zeros((len(pairs), spec.discrete_size), np.float32)
    for row, pair in enumerate(pairs):
        chosen = _action(pair.action_info, spec)
        for half, values in ((continuous, chosen[0]), (discrete, chosen[1])):
            if len(values) not in (0, half.shape[1]):
                text = f"an action of {len(values)} numbers, expected {half.shape[1]}."
                raise content_error(brain, _PLACE, ids[row], text)
            if len(values):
                half[row] = values
    done = np.array([agent.done for agent in agents], np.bool_)
    return _Columns(
        observations=reader.observations(agents, ids, guard),
        rewards=finite_rewards(brain, [agent.reward for agent in agents], ids, guard),
        group_rewards=finite_rewards(brain, [agent.group_reward for agent in agents], ids, guard, field="group_reward"),
        done=done,
        interrupted=done & np.array([agent.max_step_reached for agent in agents], np.bool_),
        agents=ids,
        continuous=guard.finite(
            continuous,
            lambda at, value: content_error(brain, _PLACE, ids[at[0]], f"action {at[1]} is {value}."),
        ),
        discrete=_indices(brain, discrete, ids),
        masks=allowed_actions(brain, [agent.action_mask for agent in agents], ids, _PLACE),
    )


def _action(proto: pb2.AgentActionProto, spec: ActionSpec) -> tuple[Sequence[float], Sequence[float]]:
    """The halves of a record's action: the fields of today, else the deprecated one, which held one half only."""
    if proto.continuous_actions or proto.discrete_actions:
        return proto.continuous_actions, proto.discrete_actions
    if spec.continuous_size:
        return proto.vector_actions_deprecated[: spec.continuous_size], ()
    return (), proto.vector_actions_deprecated


def _indices(brain: BrainParameters, values: Floats, ids: Ids) -> Ints:
    """int32 indices inside their branches. Raises PlayerContentError for others."""
    sizes = np.asarray(brain.action_spec.discrete_branches, np.float32)
    wrong = np.argwhere(~((values >= 0) & (values < sizes)))
    if len(wrong):
        row, branch = (int(each) for each in wrong[0])
        text = f"action {values[row, branch]} in branch {branch}, which has {int(sizes[branch])} choices."
        raise content_error(brain, _PLACE, ids[row], text)
    return np.rint(values).astype(np.int32)
