"""Brains and their rows as low-level code sees them: `BrainParameters` -> `BehaviorSpec`, `BrainInfo` -> steps."""

from __future__ import annotations

import numpy as np

from runtime.experience.brains import Bools, BrainInfo, BrainParameters, DecisionRows
from runtime.experience.infos import observation_floats
from runtime.players.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from runtime.players.rows import branch_slices


def behavior_spec(brain: BrainParameters) -> BehaviorSpec:
    """The spec of a brain; images are (channels, height, width)."""
    specs = [
        ObservationSpec(
            each.shape,
            tuple(DimensionProperty(flags) for flags in each.dimension_properties or (0,) * len(each.shape)),
            ObservationType(each.observation_type if each.observation_type in (0, 1) else 0),
            each.name,
        )
        for each in brain.observation_specs
    ]
    return BehaviorSpec(specs, ActionSpec(brain.action_spec.continuous_size, brain.action_spec.discrete_branches))


def steps_of(brain: BrainParameters, info: BrainInfo) -> tuple[DecisionSteps, TerminalSteps]:
    """The two tables of one reply. Images become numbers from 0 to 1, masks True where an action is forbidden."""
    waiting, ended = info.decisions, info.terminals
    decisions = DecisionSteps(
        obs=[observation_floats(each) for each in waiting.observations],
        reward=waiting.rewards,
        agent_id=waiting.agents.astype(np.int32),
        action_mask=_forbidden(brain, waiting),
        group_id=waiting.group_ids,
        group_reward=waiting.group_rewards,
    )
    terminals = TerminalSteps(
        obs=[observation_floats(each) for each in ended.observations],
        reward=ended.rewards,
        interrupted=ended.interrupted,
        agent_id=ended.agents.astype(np.int32),
        group_id=ended.group_ids,
        group_reward=ended.group_rewards,
    )
    return decisions, terminals


def _forbidden(brain: BrainParameters, rows: DecisionRows) -> list[Bools] | None:
    if not brain.action_spec.discrete_branches or not len(rows):
        return None
    if rows.action_masks is None:
        return [np.zeros((len(rows), size), np.bool_) for size in brain.action_spec.discrete_branches]
    return [~rows.action_masks[:, columns] for columns in branch_slices(brain.action_spec)]
