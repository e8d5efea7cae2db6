"""Blocks cut in two: how the rule that a block's end changes nothing is put to the test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from runtime.experience.columns import ActionMemories, BrainColumns, StepBlock

if TYPE_CHECKING:
    from runtime.experience.brains import Bools, Observation

Scalar = TypeVar("Scalar", bound=np.generic)

_NOBODY: Mapping[str, Collection[int]] = {}


def split_block(
    block: StepBlock,
    at: int,
    *,
    unanswered: Mapping[str, Collection[int]] = _NOBODY,
) -> tuple[StepBlock, StepBlock]:
    """The blocks that a builder would have given if the first `at` steps of `block` had been taken before the rest.

    unanswered: by wire name, agents whose action from before the block has no outcome yet; nobody after a reset. Every
    agent that waits is taken to act in the next step. Memories are those that `block` has: a builder would have kept
    others at the cut; what was watched stands in the second part. Raises ValueError when `at` is not in 0..steps.
    """
    if not 0 <= at <= block.steps:
        msg = f"a block of {block.steps} steps cannot be cut after {at}; expected 0 to {block.steps}"
        raise ValueError(msg)
    heads, tails, pending = {}, {}, dict(block.pending)
    for name, columns in block.brains.items():
        heads[name] = _select(columns, columns.action_steps < at, columns.row_steps < at, shift=0)
        tails[name] = _select(columns, columns.action_steps >= at, columns.row_steps >= at, shift=at)
    if at < block.steps:
        for name in pending:
            steps = block.brains[name].action_steps if name in block.brains else np.zeros(0, np.int32)
            pending[name] = int((steps == at).sum())
    answered = sum(_count_answered(columns, at, unanswered.get(name, ())) for name, columns in block.brains.items())
    head = _part(block, heads, steps=at, pending=pending, agent_steps=answered)
    tail = _part(block, tails, steps=block.steps - at, pending=block.pending, agent_steps=block.agent_steps - answered)
    return replace(head, watched={}), replace(tail, first_step=block.first_step + at)


def _part(
    block: StepBlock,
    brains: Mapping[str, BrainColumns],
    *,
    steps: int,
    pending: Mapping[str, int],
    agent_steps: int,
) -> StepBlock:
    used = {name: each for name, each in brains.items() if len(each.action_steps) or len(each.row_steps)}
    acted = {name.partition("?")[0] for name, each in used.items() if len(each.action_steps)}
    return replace(
        block,
        steps=steps,
        versions={name: version for name, version in block.versions.items() if name in acted},
        decisions=sum(len(each.action_steps) for each in used.values()),
        agent_steps=agent_steps,
        pending=pending,
        brains=used,
    )


def _select(columns: BrainColumns, acts: Bools, rows: Bools, *, shift: int) -> BrainColumns:
    """The chosen actions and rows, with steps counted from `shift`."""
    masks = None if columns.masks is None else _keep(columns.masks, rows)
    return BrainColumns(
        action_steps=_keep(columns.action_steps - np.int32(shift), acts),
        action_agents=_keep(columns.action_agents, acts),
        continuous=_keep(columns.continuous, acts),
        discrete=_keep(columns.discrete, acts),
        row_steps=_keep(columns.row_steps - np.int32(shift), rows),
        row_agents=_keep(columns.row_agents, rows),
        row_kinds=_keep(columns.row_kinds, rows),
        rewards=_keep(columns.rewards, rows),
        observations=tuple(_keep_observation(each, rows) for each in columns.observations),
        masks=None if masks is None or masks.all() else masks,
        group_ids=_keep(columns.group_ids, rows),
        group_rewards=_keep(columns.group_rewards, rows),
        memories=None if columns.memories is None else _select_memories(columns.memories, acts),
        shows_ends=columns.shows_ends,
    )


def _select_memories(memories: ActionMemories, acts: Bools) -> ActionMemories:
    chosen = acts[memories.actions]
    numbers = (np.cumsum(acts) - 1).astype(np.int32)
    return ActionMemories(
        actions=_keep(numbers[memories.actions], chosen),
        before=_keep(memories.before, chosen),
        starts=_keep(memories.starts, acts),
    )


def _keep(column: npt.NDArray[Scalar], chosen: Bools) -> npt.NDArray[Scalar]:
    kept = column[chosen]
    kept.flags.writeable = False
    return kept


def _keep_observation(observation: Observation, chosen: Bools) -> Observation:
    kept = observation[chosen]
    kept.flags.writeable = False
    return kept


def _count_answered(columns: BrainColumns, steps: int, unanswered: Collection[int]) -> int:
    """Actions answered by rows of the first `steps` steps: the definition, agent by agent."""
    waiting, count = set(unanswered), 0
    for step in range(steps):
        waiting.update(columns.action_agents[columns.action_steps == step].tolist())
        answered = waiting.intersection(columns.row_agents[columns.row_steps == step].tolist())
        count += len(answered)
        waiting -= answered
    return count
