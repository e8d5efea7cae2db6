"""Steps as columns: what an EnvWorker has taken, packed for the learner.

A block holds S consecutive env steps of one environment. Step s of it is: actions sent for the agents that were
waiting, then the rows of the player's reply. An action whose outcome is in a later block, and a row whose action is in
a later block, are normal: a block's end cuts nothing. The learner pairs them by agent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from runtime.experience.brains import Bools, BrainParameters, EnvId, Floats, Ids, Incarnation, Ints, Observation


class RowKind(IntEnum):
    """What an outcome row says about its agent."""

    DECISION = 0
    TERMINAL = 1
    INTERRUPTED = 2


@dataclass(frozen=True, slots=True, eq=False)
class ActionMemories:
    """What agents remembered before those of d actions where a training sequence starts, or may have to.

    actions: int32 (k,), numbers of actions, increasing. before: float32 (k, w), the memory that the policy was given
    for each. starts: bool (d,), True where a sequence starts: at an episode's first action, at the first one of another
    policy version, and when the sequence before is as long as they get. Beside those, the first two actions of each
    agent in a block and one without an outcome in it are among the k: an update may cut between two blocks, and of a
    block that is too old to be learned from not even the last observations are known.
    """

    actions: Ints
    before: Floats
    starts: Bools


@dataclass(frozen=True, slots=True, eq=False)
class BrainColumns:
    """The rows of one brain in a block of S env steps.

    Decisions, in sending order: action_steps int32 (d,) in 0..S-1, not decreasing; action_agents int64 (d,);
    continuous float32 (d, c), the raw sample before clipping; discrete int32 (d, branches).
    Outcomes, in order of arrival, terminal rows of a reply before its decision rows: row_steps int32 (r,) in 0..S-1, or
    -1 for the reply to a reset; row_agents int64 (r,); row_kinds uint8 (r,), `RowKind`; rewards float32 (r,);
    observations, one array (r, *shape) per spec; masks bool (r, mask_size), True = allowed, or None when nothing was
    masked in the whole block; group_ids int32 (r,), group_rewards float32 (r,).
    memories: None for a policy without. shows_ends: `BrainParameters.shows_ends` of the player.
    """

    action_steps: Ints
    action_agents: Ids
    continuous: Floats
    discrete: Ints
    row_steps: Ints
    row_agents: Ids
    row_kinds: npt.NDArray[np.uint8]
    rewards: Floats
    observations: tuple[Observation, ...]
    masks: Bools | None
    group_ids: Ints
    group_rewards: Floats
    memories: ActionMemories | None = None
    shows_ends: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class WatchedColumns:
    """What a brain that the player plays has done in a block, k samples, each agent's together and in order.

    observations: one array (k, *shape) per spec. masks: bool (k, mask_size), True = allowed, or None. actions: float32
    (k, width), in the player's units, continuous ones first, then indices. begins: bool (k,), False where a sample goes
    on from the one before. forgets: all samples of earlier blocks are to be forgotten first.
    """

    brain: BrainParameters
    agents: Ids
    observations: tuple[Observation, ...]
    masks: Bools | None
    actions: Floats
    begins: Bools
    forgets: bool


@dataclass(frozen=True, slots=True, eq=False)
class StepBlock:
    """S env steps of one environment under fixed policy versions.

    Known by (env_id, incarnation, first_step): first_step counts env steps of this incarnation from 0; `steps` is S, 0
    for the block that carries the reply to a reset. versions: the policy version of each brain that acted. decisions:
    action rows sent. agent_steps: decisions whose outcome is a row of this block. brains: columns by wire name.
    pending: agents per brain that wait for a decision after the block. watched: by wire name, what brains did that the
    player plays, where somebody is to learn from them; they are in no other number here.
    """

    env_id: EnvId
    incarnation: Incarnation
    reset_id: int
    first_step: int
    steps: int
    versions: Mapping[str, int]
    decisions: int
    agent_steps: int
    pending: Mapping[str, int]
    brains: Mapping[str, BrainColumns]
    watched: Mapping[str, WatchedColumns] = field(default_factory=dict)
