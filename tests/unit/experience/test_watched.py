"""What a brain did that the player plays: actions meet the observations they were taken on, and texts decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    EnvId,
    Incarnation,
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.experience.splits import split_block
from runtime.experience.watched import WatchedLog, wishes_of

TEACHER = BrainParameters(BrainName("Teacher"), (ObservationSpec((1,)),), ActionSpec(1, (50,)))


def rows(
    *shown: tuple[int, float, int], ended: tuple[int, ...] = (), text: str = "", masked: bool = False
) -> BrainInfo:
    """(agent, what it sees, the index it chose before) of each agent; `ended` ones are named."""
    agents = np.array([each[0] for each in shown], np.int64)
    count = len(agents)
    mask = np.tile(np.arange(50) != 7, (count, 1)) if masked else None
    nothing, none = np.zeros(count, np.float32), empty_rows(TEACHER)[1]
    seen = np.array([[each[1]] for each in shown], np.float32).reshape(count, 1)
    decisions = DecisionRows(agents, (seen,), nothing, mask, np.zeros(count, np.int32), nothing)
    ends = np.array(ended, np.int64)
    over = np.zeros(len(ends), np.float32)
    terminals = none
    if ended:
        last = (np.zeros((len(ends), 1), np.float32),)
        terminals = TerminalRows(ends, last, over, np.zeros(len(ends), np.bool_), np.zeros(len(ends), np.int32), over)
    before = np.array([[each[2] / 10, each[2]] for each in shown], np.float32).reshape(count, 2)
    return BrainInfo(decisions, terminals, previous_vector_actions=before, text_observations=(text,) * count)


def test_an_action_belongs_to_the_row_before_and_agents_stand_together() -> None:
    log = WatchedLog(TEACHER)
    log.record_reset(rows((5, 0.1, 9), (2, 0.2, 9), masked=True))
    log.record_step(rows((5, 0.3, 1), (2, 0.4, 2)))
    log.record_step(rows((5, 0.5, 3), (2, 0.6, 4), ended=(2,)))
    log.record_step(rows((5, 0.7, 5), (2, 0.8, 6)))
    found = log.take()
    assert found is not None
    assert found.agents.tolist() == [2, 2, 2, 5, 5, 5]
    assert np.allclose(found.observations[0][:, 0], [0.2, 0.4, 0.6, 0.1, 0.3, 0.5])
    assert found.actions[:, 1].tolist() == [2, 4, 6, 1, 3, 5]
    assert np.allclose(found.actions[:, 0], [0.2, 0.4, 0.6, 0.1, 0.3, 0.5])
    assert found.begins.tolist() == [True, False, True, True, False, False]
    assert found.masks is not None
    assert (~found.masks[:, 7]).tolist() == [True, False, False, True, False, False]
    assert not found.forgets
    assert log.take() is None
    log.record_step(rows((5, 0.9, 7)))
    again = log.take()
    assert again is not None
    assert (again.agents.tolist(), again.actions[:, 1].tolist(), again.begins.tolist()) == ([5], [7], [True])


def test_agents_that_are_gone_and_resets_leave_no_pair_over_the_gap() -> None:
    log = WatchedLog(TEACHER)
    log.record_reset(rows((1, 0.1, 0), (2, 0.2, 0)))
    log.record_step(rows((2, 0.3, 4), ended=(1,)))
    log.record_step(rows((1, 0.4, 5), (2, 0.5, 6)))
    log.record_reset(rows((1, 0.6, 7), (2, 0.7, 8)))
    found = log.take()
    assert found is not None
    assert found.actions[:, 1].tolist() == [4, 6]


def test_texts_say_what_is_kept_and_when_all_is_forgotten() -> None:
    log = WatchedLog(TEACHER)
    log.record_reset(rows((1, 0.1, 0), text="False,False"))
    log.record_step(rows((1, 0.2, 1), text="True,False"))
    log.record_step(rows((1, 0.3, 2), text="false,False"))
    log.record_step(rows((1, 0.4, 3), text="true, FALSE"))
    log.record_step(rows((1, 0.5, 4)))
    found = log.take()
    assert found is not None
    assert found.actions[:, 1].tolist() == [2, 4]
    assert found.begins.tolist() == [True, True]
    log.record_step(rows((1, 0.6, 5), text="True,False"))
    log.record_step(rows((1, 0.7, 6), text="True,True"))
    forgotten = log.take()
    assert forgotten is not None
    assert (forgotten.forgets, len(forgotten.agents), forgotten.observations[0].shape) == (True, 0, (0, 1))
    log.record_step(rows((1, 0.8, 7)))
    after = log.take()
    assert after is not None
    assert (after.forgets, after.actions[:, 1].tolist()) == (False, [7])


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("", (True, False)),
        ("  ", (True, False)),
        ("True,False", (True, False)),
        ("true,true", (True, True)),
        ("FALSE , True", (False, True)),
        ("true", (True, False)),
        ("hello", (False, False)),
        (",true", (False, True)),
    ],
)
def test_two_words_are_the_wishes(text: str, wishes: tuple[bool, bool]) -> None:
    assert wishes_of(text) == wishes


@given(st.text(max_size=30))
def test_any_text_has_a_meaning(text: str) -> None:
    assert all(isinstance(each, bool) for each in wishes_of(text))


def test_a_player_that_tells_no_actions_gives_no_samples() -> None:
    log = WatchedLog(TEACHER)
    silent = rows((1, 0.1, 0))
    silent = BrainInfo(silent.decisions, silent.terminals)
    log.record_reset(silent)
    log.record_step(silent)
    assert log.take() is None


@given(cuts=st.sets(st.integers(1, 11)), agents=st.integers(1, 3), ends=st.sets(st.integers(1, 11)))
def test_where_blocks_are_cut_changes_no_sample(cuts: set[int], agents: int, ends: set[int]) -> None:
    builder = BlockBuilder(EnvId(0), Incarnation(0))
    builder.watch([TEACHER])
    moments = [
        rows(
            *((agent, step + agent / 10, step) for agent in range(agents)), ended=tuple(range(agents)) * (step in ends)
        )
        for step in range(12)
    ]
    builder.record_reset({}, reset_id=1, watched={"Teacher": moments[0]})
    blocks = [builder.take()]
    for step, each in enumerate(moments[1:], 1):
        builder.record_step({}, {}, {"Teacher": each})
        if step in cuts or step == 11:
            blocks.append(builder.take())
    found: dict[int, list[int]] = {}
    for block in blocks:
        assert block is not None
        assert (block.decisions, block.agent_steps, block.brains, block.pending) == (0, 0, {}, {})
        for columns in block.watched.values():
            for agent, action in zip(columns.agents.tolist(), columns.actions[:, 1].tolist(), strict=True):
                found.setdefault(agent, []).append(int(action))
    assert found == {agent: list(range(1, 12)) for agent in range(agents)}


def test_a_block_that_is_split_keeps_what_was_watched_once() -> None:
    builder = BlockBuilder(EnvId(0), Incarnation(0))
    builder.watch([TEACHER])
    builder.record_reset({}, reset_id=1, watched={"Teacher": rows((1, 0.1, 0))})
    builder.take()
    for step in range(2):
        builder.record_step({}, {}, {"Teacher": rows((1, 0.2, step))})
    block = builder.take()
    assert block is not None
    head, tail = split_block(block, 1)
    assert (dict(head.watched), len(tail.watched["Teacher"].agents)) == ({}, 2)
