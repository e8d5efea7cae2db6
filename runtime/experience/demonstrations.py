"""Demonstrations: what somebody did in a world, record by record, and how records become training samples."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from runtime.experience.brains import Bools, BrainParameters, Floats, Ids, Ints, Observation


class ActionAlignment(Enum):
    """Which record holds the action that was taken on a record's observation.

    SAME_RECORD: the record itself, as ML-Agents' loaders since 0.13 take it. NEXT_RECORD: the one that follows, as it
    is in files of ML-Agents 0.8 to 0.10, whose records hold the action before; files recorded by newer Unity packages
    look as if they were written so, too.
    """

    SAME_RECORD = "same_record"
    NEXT_RECORD = "next_record"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationMeta:
    """What a file says of itself. steps and episodes are 0 when the recording was not ended properly."""

    name: str
    api_version: int
    steps: int
    episodes: int
    mean_reward: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Demonstration:
    """A demonstration of n records, as columns.

    generation: of the protocol that the records are written in. observations: an array (n, *shape) per spec. rewards,
    group_rewards: float32 (n,). done, interrupted: bool (n,). agents: int64 (n,). continuous float32 (n, c) and
    discrete int32 (n, branches): the action that each record holds. masks: bool (n, mask_size), True = allowed, or
    None.
    """

    meta: DemonstrationMeta
    generation: Literal[1, 2]
    brain: BrainParameters
    observations: tuple[Observation, ...]
    rewards: Floats
    group_rewards: Floats
    done: Bools
    interrupted: Bools
    agents: Ids
    continuous: Floats
    discrete: Ints
    masks: Bools | None

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DemonstrationSteps:
    """Training samples: k observations, what was done, and what came of it.

    records: int64 (k,), where in the file each observation is. rewards, done and interrupted belong to the outcome of
    the action. The other fields are as in `Demonstration`, k rows each.
    """

    records: Ids
    observations: tuple[Observation, ...]
    continuous: Floats
    discrete: Ints
    masks: Bools | None
    rewards: Floats
    done: Bools
    interrupted: Bools


def demonstrated_steps(demonstration: Demonstration, alignment: ActionAlignment | None = None) -> DemonstrationSteps:
    """The samples in a demonstration: observation t, its action, and reward and end from record t + 1.

    The last record is never a sample. Neither is the end of an episode in files of the newer generation: its
    observation is final, nothing was done on it. alignment: by default NEXT_RECORD for the older generation, whose
    files know nothing else, and SAME_RECORD for the newer one.
    """
    is_old = demonstration.generation == 1
    chosen = alignment or (ActionAlignment.NEXT_RECORD if is_old else ActionAlignment.SAME_RECORD)
    begins = np.ones(max(0, len(demonstration) - 1), np.bool_) if is_old else ~demonstration.done[:-1]
    at = np.flatnonzero(begins)
    acted = at + 1 if chosen is ActionAlignment.NEXT_RECORD else at
    return DemonstrationSteps(
        records=at,
        observations=tuple(each[at] for each in demonstration.observations),
        continuous=demonstration.continuous[acted],
        discrete=demonstration.discrete[acted],
        masks=None if demonstration.masks is None else demonstration.masks[at],
        rewards=demonstration.rewards[at + 1],
        done=demonstration.done[at + 1],
        interrupted=demonstration.interrupted[at + 1],
    )


def spec_differences(recorded: BrainParameters, brain: BrainParameters, *, other: str = "the brain") -> tuple[str, ...]:
    """How a file's brain differs from the brain that is to learn from it, a sentence per field; empty if it fits.

    other: what has `brain`, as it is called there. Names do not count, nor whether images come as bytes.
    """
    ours, theirs = brain.observation_specs, recorded.observation_specs
    found = []
    if len(theirs) != len(ours):
        found.append(
            f"{len(theirs)} observations of {[e.shape for e in theirs]}, {other} has {[e.shape for e in ours]}"
        )
    for index, (there, here) in enumerate(zip(theirs, ours, strict=False)):
        if there.shape != here.shape:
            found.append(f"observation {index} ({there.name!r}) of shape {there.shape}, {other} has {here.shape}")
        elif there.observation_type != here.observation_type:
            found.append(
                f"observation {index} ({there.name!r}) of type {there.observation_type}, "
                f"{other} has type {here.observation_type}"
            )
    there_acts, here_acts = recorded.action_spec, brain.action_spec
    if there_acts.continuous_size != here_acts.continuous_size:
        found.append(f"{there_acts.continuous_size} continuous actions, {other} has {here_acts.continuous_size}")
    if there_acts.discrete_branches != here_acts.discrete_branches:
        found.append(f"branches of {there_acts.discrete_branches}, {other} has {here_acts.discrete_branches}")
    return tuple(found)
