"""A block split afterwards equals blocks taken at that step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, EnvId, Incarnation, ObservationSpec
from runtime.experience.splits import split_block
from tests.support.blocks import assert_same_block, events_of, replay
from tests.support.strategies_experience import StepEvent, StepHistory, step_histories

BOT = BrainParameters(BrainName("Bot?team=1"), (ObservationSpec((3,)),), ActionSpec(2, (3,)))
OTHER = BrainParameters(BrainName("Other"), (ObservationSpec((1,)), ObservationSpec((2, 2))), ActionSpec(0, (2, 2)))


def _builder(*brains: BrainParameters) -> BlockBuilder:
    builder = BlockBuilder(EnvId(4), Incarnation(2), reset_id=1)
    builder.add_brains(brains)
    return builder


@given(history=step_histories(BOT, OTHER), data=st.data())
def test_a_block_split_afterwards_equals_blocks_taken_at_that_step(history: StepHistory, data: st.DataObject) -> None:
    for block in replay(_builder(BOT, OTHER), history, set()):
        at = data.draw(st.integers(0, block.steps))
        head, tail = split_block(block, at)
        events = events_of(history, block.reset_id)
        first, *second = replay(_builder(BOT, OTHER), replace(history, events=events), {at})
        assert_same_block(head, replace(first, first_step=block.first_step, reset_id=block.reset_id))
        if second:
            moved = replace(second[0], first_step=block.first_step + at, reset_id=block.reset_id)
            assert_same_block(tail, moved)
        else:
            assert (tail.steps, tail.decisions, tail.agent_steps, dict(tail.brains)) == (0, 0, 0, {})


@given(history=step_histories(BOT), cut=st.integers(1, 5), data=st.data())
def test_a_later_block_splits_well_when_told_who_was_unanswered(
    history: StepHistory, cut: int, data: st.DataObject
) -> None:
    builder = _builder(BOT)
    events = events_of(history, 1)
    replay(builder, replace(history, events=events[: cut + 1]), set())
    unanswered = set(builder._logs[BOT.brain_name].unanswered._collect())
    for event in events[cut + 1 :]:
        assert isinstance(event, StepEvent)
        builder.record_step(event.acted, event.infos)
    block = builder.take()
    if block is None:
        return
    at = data.draw(st.integers(0, block.steps))
    head, tail = split_block(block, at, unanswered={BOT.brain_name: unanswered})
    expected = replay(_builder(BOT), replace(history, events=events), {cut, cut + at})
    pieces = [each for each in expected if each.first_step >= block.first_step and each.steps]
    assert [each.agent_steps for each in (head, tail) if each.steps] == [each.agent_steps for each in pieces]


@pytest.mark.parametrize("at", [-1, 3])
def test_a_block_is_not_split_outside_its_steps(at: int) -> None:
    builder = _builder(BOT)
    for _ in range(2):
        builder.record_step({}, {})
    block = builder.take()
    assert block is not None
    with pytest.raises(ValueError, match=f"2 steps cannot be cut after {at}; expected 0 to 2"):
        split_block(block, at)
