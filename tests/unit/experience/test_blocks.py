"""Blocks hold exactly what happened, count it, and may be cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.errors import InternalError
from runtime.experience.blocks import BlockBuilder, UnansweredActions
from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    EnvId,
    Ids,
    Incarnation,
    ObservationSpec,
    empty_rows,
)
from runtime.experience.columns import BrainColumns, RowKind, StepBlock
from runtime.experience.splits import split_block
from tests.support.blocks import arrays_of, assert_same_columns, join_columns, replay
from tests.support.strategies_experience import (
    ResetEvent,
    SentActions,
    StepEvent,
    StepHistory,
    brain_parameters,
    build_info,
    step_histories,
)

BOT = BrainParameters(BrainName("Bot?team=1"), (ObservationSpec((3,)),), ActionSpec(2, (3,)))
OTHER = BrainParameters(BrainName("Other"), (ObservationSpec((1,)), ObservationSpec((2, 2))), ActionSpec(0, (2, 2)))
RNG_SEED = 3


def _builder(*brains: BrainParameters) -> BlockBuilder:
    builder = BlockBuilder(EnvId(4), Incarnation(2), reset_id=1)
    builder.add_brains(brains)
    return builder


def _sent(agents: list[int], *, brain: BrainParameters = BOT, version: int = 7) -> SentActions:
    spec, n = brain.action_spec, len(agents)
    raw = np.arange(n * spec.continuous_size, dtype=np.float32).reshape(n, spec.continuous_size)
    return SentActions(np.array(agents, np.int64), version, raw, np.zeros((n, spec.discrete_size), np.int32))


def _reply(deciding: list[int], ended: list[int] | None = None, *, masked: bool = False) -> BrainInfo:
    rng = np.random.default_rng(RNG_SEED)
    agents, gone = np.array(deciding, np.int64), np.array(ended or [], np.int64)
    return build_info(BOT, agents, gone, rng=rng, has_masks=masked)


@given(history=step_histories(BOT, OTHER), cuts=st.sets(st.integers(0, 11)))
def test_cutting_a_run_into_blocks_anywhere_changes_nothing(history: StepHistory, cuts: set[int]) -> None:
    whole = replay(_builder(BOT, OTHER), history, set())
    parts = replay(_builder(BOT, OTHER), history, cuts)
    by_reset: dict[int, list[StepBlock]] = {}
    for part in parts:
        by_reset.setdefault(part.reset_id, []).append(part)
    assert list(by_reset) == [block.reset_id for block in whole]
    for block in whole:
        pieces = by_reset[block.reset_id]
        assert pieces[0].first_step == block.first_step
        assert sum(each.steps for each in pieces) == block.steps
        assert sum(each.decisions for each in pieces) == block.decisions
        assert sum(each.agent_steps for each in pieces) == block.agent_steps
        assert pieces[-1].pending == block.pending
        joined: dict[str, BrainColumns] = {}
        for piece in pieces:
            for name, columns in piece.brains.items():
                shift = piece.first_step - block.first_step
                if name not in joined:
                    moved_acts, moved_rows = columns.action_steps + np.int32(shift), columns.row_steps + np.int32(shift)
                    joined[name] = replace(columns, action_steps=moved_acts, row_steps=moved_rows)
                else:
                    joined[name] = join_columns(joined[name], columns, shift)
        assert joined.keys() == block.brains.keys()
        for name, columns in joined.items():
            assert_same_columns(columns, block.brains[name])


@given(history=brain_parameters().flatmap(step_histories), cuts=st.sets(st.integers(0, 11)))
def test_columns_say_what_was_sent_and_what_arrived(history: StepHistory, cuts: set[int]) -> None:
    (brain,) = history.brains
    blocks = replay(_builder(brain), history, cuts)
    acts, rows = [], []
    for block in blocks:
        for columns in block.brains.values():
            acts += [
                (block.first_step + int(step), int(agent), raw.tobytes(), discrete.tobytes())
                for step, agent, raw, discrete in zip(
                    columns.action_steps, columns.action_agents, columns.continuous, columns.discrete, strict=True
                )
            ]
            rows += list(_rows_of(block, columns))
    expected_acts, expected_rows, step = [], [], 0
    for event in history.events:
        if isinstance(event, StepEvent):
            act = event.acted[brain.brain_name]
            expected_acts += [
                (step, int(agent), act.continuous_raw[index].tobytes(), act.discrete[index].tobytes())
                for index, agent in enumerate(act.agents)
            ]
        at = -1 if isinstance(event, ResetEvent) else step
        expected_rows += list(_rows_in(event.infos[brain.brain_name], at))
        step += isinstance(event, StepEvent)
    assert acts == expected_acts
    assert rows == expected_rows


Row = tuple[int, int, int, float, bytes, bytes | None, int, float]


def _rows_of(block: StepBlock, columns: BrainColumns) -> list[Row]:
    return [
        (
            -1 if columns.row_steps[index] == -1 else block.first_step + int(columns.row_steps[index]),
            int(columns.row_agents[index]),
            int(columns.row_kinds[index]),
            float(columns.rewards[index]),
            b"".join(each[index].tobytes() for each in columns.observations),
            None if columns.masks is None or columns.masks[index].all() else columns.masks[index].tobytes(),
            int(columns.group_ids[index]),
            float(columns.group_rewards[index]),
        )
        for index in range(len(columns.row_steps))
    ]


def _rows_in(info: BrainInfo, step: int) -> list[Row]:
    found: list[Row] = []
    for part, is_ended in ((info.terminals, True), (info.decisions, False)):
        for index in range(len(part)):
            kind = RowKind.DECISION
            if is_ended:
                kind = RowKind.INTERRUPTED if info.terminals.interrupted[index] else RowKind.TERMINAL
            mask = None if is_ended or info.decisions.action_masks is None else info.decisions.action_masks[index]
            observations = b"".join(each[index].tobytes() for each in part.observations)
            masked = None if mask is None or mask.all() else mask.tobytes()
            group = (int(part.group_ids[index]), float(part.group_rewards[index]))
            found.append(
                (step, int(part.agents[index]), int(kind), float(part.rewards[index]), observations, masked, *group)
            )
    return found


@given(history=step_histories(BOT, OTHER), cuts=st.sets(st.integers(0, 11)))
def test_counters_agree_with_a_count_agent_by_agent(history: StepHistory, cuts: set[int]) -> None:
    builder = _builder(BOT, OTHER)
    blocks = replay(builder, history, cuts)
    decisions = agent_steps = env_steps = 0
    open_actions: set[tuple[str, int]] = set()
    for event in history.events:
        if isinstance(event, ResetEvent):
            open_actions.clear()
            continue
        env_steps += 1
        for name, act in event.acted.items():
            decisions += len(act.agents)
            open_actions |= {(name, int(agent)) for agent in act.agents}
        for name, info in event.infos.items():
            for agent in [*info.terminals.agents.tolist(), *info.decisions.agents.tolist()]:
                if (name, agent) in open_actions:
                    open_actions.remove((name, agent))
                    agent_steps += 1
    assert sum(block.steps for block in blocks) == env_steps
    assert sum(block.decisions for block in blocks) == decisions
    assert sum(block.agent_steps for block in blocks) == agent_steps
    assert builder.unanswered == len(open_actions)


@given(history=step_histories(BOT, OTHER), cuts=st.sets(st.integers(0, 11)))
def test_all_arrays_of_a_block_are_read_only_and_share_nothing_with_what_was_recorded(
    history: StepHistory, cuts: set[int]
) -> None:
    recorded = [
        array
        for event in history.events
        for info in event.infos.values()
        for array in (info.decisions.rewards, info.decisions.agents, *info.decisions.observations)
    ]
    for block in replay(_builder(BOT, OTHER), history, cuts):
        for part in (block, *split_block(block, block.steps // 2)):
            for columns in part.brains.values():
                for array in arrays_of(columns).values():
                    assert array is None or not array.flags.writeable
                    assert array is None or not any(np.shares_memory(array, each) for each in recorded)


def test_nothing_recorded_is_no_block() -> None:
    assert _builder(BOT).take() is None


def test_a_resets_reply_is_a_block_of_no_steps() -> None:
    builder = _builder(BOT, OTHER)
    builder.record_reset({BOT.brain_name: _reply([3, 5])}, reset_id=6)
    block = builder.take()
    assert block is not None
    assert (block.env_id, block.incarnation, block.reset_id, block.first_step, block.steps) == (4, 2, 6, 0, 0)
    assert block.pending == {"Bot?team=1": 2, "Other": 0}
    assert list(block.brains) == ["Bot?team=1"]
    columns = block.brains["Bot?team=1"]
    assert columns.row_steps.tolist() == [-1, -1]
    assert columns.continuous.shape == (0, 2)
    assert columns.discrete.shape == (0, 1)
    assert block.versions == {}
    assert builder.take() is None


def test_blocks_go_on_where_the_last_ended_and_after_a_reset_too() -> None:
    builder = _builder(BOT)
    for _ in range(3):
        builder.record_step({}, {})
    assert (builder.first_step, builder.steps) == (0, 3)
    first = builder.take()
    builder.record_reset({}, reset_id=2)
    second = builder.take()
    builder.record_step({}, {})
    third = builder.take()
    assert [each and (each.first_step, each.steps, each.reset_id) for each in (first, second, third)] == [
        (0, 3, 1),
        (3, 0, 2),
        (3, 1, 2),
    ]


def test_versions_go_by_behavior_and_name_only_those_that_acted() -> None:
    builder = _builder(BOT, OTHER)
    builder.record_step({"Bot?team=1": _sent([1]), "Other": _sent([], brain=OTHER, version=3)}, {})
    block = builder.take()
    assert block is not None
    assert block.versions == {"Bot": 7}
    assert list(block.brains) == ["Bot?team=1"]
    assert block.brains["Bot?team=1"].observations[0].shape == (0, 3)


def test_a_silent_agents_action_is_counted_when_its_row_arrives_in_a_later_block() -> None:
    builder = _builder(BOT)
    builder.record_step({"Bot?team=1": _sent([1, 2])}, {"Bot?team=1": _reply([1])})
    first = builder.take()
    builder.record_step({"Bot?team=1": _sent([1])}, {"Bot?team=1": _reply([1], ended=[2])})
    second = builder.take()
    assert first is not None
    assert second is not None
    assert (first.decisions, first.agent_steps, second.decisions, second.agent_steps) == (2, 1, 1, 2)


def test_an_agent_that_ends_and_starts_again_in_one_reply_answers_one_action() -> None:
    builder = _builder(BOT)
    builder.record_step({"Bot?team=1": _sent([1])}, {"Bot?team=1": _reply([1], ended=[1])})
    block = builder.take()
    assert block is not None
    assert (block.decisions, block.agent_steps, block.pending) == (1, 1, {"Bot?team=1": 1})
    assert block.brains["Bot?team=1"].row_kinds[1] == RowKind.DECISION


def test_a_reset_leaves_what_was_unanswered_uncounted() -> None:
    builder = _builder(BOT)
    builder.record_step({"Bot?team=1": _sent([1, 2])}, {"Bot?team=1": _reply([])})
    assert builder.unanswered == 2
    builder.take()
    builder.record_reset({"Bot?team=1": _reply([1, 2])}, reset_id=2)
    block = builder.take()
    assert block is not None
    assert (block.agent_steps, builder.unanswered) == (0, 0)


def test_a_brain_missing_from_a_reply_has_nobody_waiting() -> None:
    builder = _builder(BOT)
    builder.record_reset({"Bot?team=1": _reply([1, 2])}, reset_id=2)
    assert builder.pending == {"Bot?team=1": 2}
    builder.record_step({"Bot?team=1": _sent([1, 2])}, {})
    assert builder.pending == {"Bot?team=1": 0}


def test_masks_are_kept_only_when_something_is_masked_and_filled_with_true() -> None:
    builder = _builder(BOT)
    allowed = _reply([1, 2])
    open_masks = replace(allowed.decisions, action_masks=np.ones((2, 3), np.bool_))
    builder.record_step({}, {"Bot?team=1": replace(allowed, decisions=open_masks)})
    block = builder.take()
    assert block is not None
    assert block.brains["Bot?team=1"].masks is None
    some = np.array([[True, False, True], [False, True, True]])
    builder.record_step({}, {"Bot?team=1": replace(allowed, decisions=replace(allowed.decisions, action_masks=some))})
    builder.record_step({}, {"Bot?team=1": _reply([1], ended=[2])})
    block = builder.take()
    assert block is not None
    masks = block.brains["Bot?team=1"].masks
    assert masks is not None
    assert masks.tolist() == [*some.tolist(), [True] * 3, [True] * 3]


@pytest.mark.parametrize(
    "record",
    [
        lambda builder: builder.record_reset({"Ghost": _reply([1])}, reset_id=2),
        lambda builder: builder.record_step({}, {"Ghost": _reply([1])}),
        lambda builder: builder.record_step({"Ghost": _sent([1])}, {}),
    ],
)
def test_rows_of_an_unknown_brain_are_refused_and_nothing_is_recorded(record: Callable[[BlockBuilder], None]) -> None:
    builder = _builder(BOT)
    with pytest.raises(InternalError, match=r"environment 4 \(incarnation 2\): rows of brain 'Ghost' .*Bot\?team=1"):
        record(builder)
    assert builder.take() is None


def test_a_block_has_one_version_of_a_behavior() -> None:
    builder = _builder(BOT)
    builder.record_step({"Bot?team=1": _sent([1])}, {})
    with pytest.raises(InternalError, match="acted with version 8 in a block of version 7"):
        builder.record_step({"Bot?team=1": _sent([1], version=8)}, {})
    assert builder.steps == 1
    builder.take()
    builder.record_step({"Bot?team=1": _sent([1], version=8)}, {})
    block = builder.take()
    assert block is not None
    assert block.versions == {"Bot": 8}


def test_a_reset_is_refused_while_steps_or_another_reset_are_held() -> None:
    builder = _builder(BOT)
    builder.record_step({}, {})
    with pytest.raises(InternalError, match=r"reset 2 was recorded while 1 steps of reset 1 are held"):
        builder.record_reset({}, reset_id=2)
    builder.take()
    builder.record_reset({}, reset_id=2)
    with pytest.raises(InternalError, match="expected take"):
        builder.record_reset({}, reset_id=3)


def test_a_brain_announced_twice_keeps_its_unanswered_actions() -> None:
    builder = _builder(BOT)
    builder.record_step({"Bot?team=1": _sent([1])}, {})
    builder.add_brains([BOT, OTHER])
    assert builder.unanswered == 1
    assert set(builder.pending) == {"Bot?team=1", "Other"}


def _info_of(deciding: Ids, ended: Ids) -> BrainInfo:
    decisions, terminals = empty_rows(BOT)
    return BrainInfo(replace(decisions, agents=deciding), replace(terminals, agents=ended))


@given(
    moments=st.lists(
        st.tuples(*[st.lists(st.integers(0, 4), unique=True) for _ in range(3)]),
        max_size=10,
    )
)
@example(moments=[([1], [], []), ([1], [1], []), ([2], [1], [])])
def test_unanswered_actions_behave_like_a_set(moments: list[tuple[list[int], list[int], list[int]]]) -> None:
    actions, model = UnansweredActions(), set[int]()
    for sent, deciding, ended in moments:
        actions.send(np.array(sent, np.int64))
        model |= set(sent)
        answered = model & {*deciding, *ended}
        assert actions.answer(_info_of(np.array(deciding, np.int64), np.array(ended, np.int64))) == len(answered)
        model -= answered
        assert len(actions) == len(model)
    actions.clear()
    assert len(actions) == 0
