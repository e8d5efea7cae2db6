"""Blocks carry memories, as they were before an action, wherever the learner may have to start a training sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.columns import ActionMemories, BrainColumns, StepBlock
from runtime.experience.splits import split_block
from tests.support.blocks import replay
from tests.support.remembering import remembering
from tests.support.strategies_experience import StepHistory, brain_parameters, step_histories

SIZE = 3
SEQUENCE_LENGTH = 4


def told(block: StepBlock) -> list[tuple[BrainColumns, ActionMemories]]:
    """Columns with actions, and their memories."""
    found = []
    for columns in block.brains.values():
        if len(columns.action_agents):
            assert columns.memories is not None
            found.append((columns, columns.memories))
    return found


histories = (
    brain_parameters()
    .flatmap(step_histories)
    .map(lambda life: remembering(life, size=SIZE, sequence_length=SEQUENCE_LENGTH))
)


@given(history=histories, cuts=st.sets(st.integers(0, 11)))
def test_each_start_and_the_ends_of_each_agent_are_carried(history: StepHistory, cuts: set[int]) -> None:
    builder = BlockBuilder(EnvId(0), Incarnation(0))
    builder.add_brains(history.brains)
    for block in replay(builder, history, cuts):
        for columns, memories in told(block):
            kept = set(memories.actions.tolist())
            assert sorted(kept) == memories.actions.tolist()
            assert memories.before.shape == (len(kept), SIZE)
            assert set(np.flatnonzero(memories.starts).tolist()) <= kept
            for agent in set(columns.action_agents.tolist()):
                own = np.flatnonzero(columns.action_agents == agent).tolist()
                assert set(own[:2]) <= kept
                step = columns.action_steps[own[-1]]
                later = columns.row_steps[columns.row_agents == agent] >= step
                assert later.any() or own[-1] in kept
            # A sequence of the policy that counts starts at the episode's begin or four acts after the last one.
            for action, before in zip(memories.actions.tolist(), memories.before, strict=True):
                assert not memories.starts[action] or before[0] % SEQUENCE_LENGTH == 0


@given(history=histories, at=st.integers(0, 11))
def test_a_split_keeps_the_memories_of_each_side(history: StepHistory, at: int) -> None:
    builder = BlockBuilder(EnvId(0), Incarnation(0))
    builder.add_brains(history.brains)
    for block in replay(builder, history, set()):
        parts = split_block(block, min(at, block.steps))
        for name, columns in block.brains.items():
            if columns.memories is None:
                continue
            halves = [part.brains[name] for part in parts if name in part.brains]
            found = [each.memories for each in halves if each.memories is not None]
            starts = np.concatenate([each.starts for each in found])
            np.testing.assert_array_equal(starts, columns.memories.starts)
            np.testing.assert_array_equal(np.concatenate([each.before for each in found]), columns.memories.before)
            sizes = np.cumsum([0, *(len(each.starts) for each in found)])
            actions = np.concatenate([each.actions + start for each, start in zip(found, sizes, strict=False)])
            np.testing.assert_array_equal(actions, columns.memories.actions)


@given(history=brain_parameters().flatmap(step_histories))
def test_blocks_of_a_policy_without_memory_carry_none(history: StepHistory) -> None:
    builder = BlockBuilder(EnvId(0), Incarnation(0))
    builder.add_brains(history.brains)
    for block in replay(builder, history, set()):
        assert all(columns.memories is None for columns in block.brains.values())
