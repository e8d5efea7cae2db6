"""Training sequences are packed into lanes: each row once, in order, none cut, and with little room wasted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InternalError
from trainers.batches import capacity_for
from trainers.lanes import acted_lanes, lane_minibatches, packed
from trainers.sequences import SequenceRows, sequence_rows


def rows_of(lengths: list[int], tails: list[bool]) -> SequenceRows:
    """Sequences of these lengths, one after the other; some are followed by an observation that bootstraps them."""
    n = sum(lengths)
    ends = np.cumsum(np.array(lengths, np.int64)) - 1
    tail = np.full(n, -1)
    chosen = ends[np.array(tails, np.bool_)]
    tail[chosen] = n + np.arange(len(chosen))
    runs = np.ones(n, np.bool_)
    runs[ends] = False
    starts = np.zeros(n, np.bool_)
    memory = np.full(n, -1, np.int32)
    memory[ends - np.array(lengths, np.int64) + 1] = np.arange(len(lengths))
    memories = np.arange(1, len(lengths) + 1, dtype=np.float32)[:, None]
    return sequence_rows(runs=runs, starts=starts, memory=memory, memories=memories, tails=tail)


sequences = st.integers(1, 7).flatmap(
    lambda steps: st.tuples(
        st.just(steps), st.lists(st.tuples(st.integers(1, steps), st.booleans()), min_size=1, max_size=30)
    )
)


@given(drawn=sequences, seed=st.integers(0, 100))
def test_lanes_hold_each_sequence_whole_and_once(drawn: tuple[int, list[tuple[int, bool]]], seed: int) -> None:
    steps, wanted = drawn
    lengths, tails = [each for each, _ in wanted], [each for _, each in wanted]
    rows = rows_of(lengths, tails)
    order = np.random.default_rng(seed).permutation(len(lengths))
    lanes = packed(rows, order, steps=steps, with_tails=False)
    assert sorted(lanes[lanes >= 0].tolist()) == list(range(sum(lengths)))
    for lane in lanes:
        for place, row in enumerate(lane.tolist()):
            if place == 0 or lane[place - 1] < 0:
                assert row < 0 or rows.starts[row]
            elif row >= 0 and not rows.starts[row]:
                assert row == lane[place - 1] + 1
    assert len(lanes) <= 2 * sum(lengths) // steps + 1


@given(drawn=sequences, epochs=st.integers(1, 3), batch_size=st.integers(1, 40))
def test_minibatches_hold_every_row_once_in_each_pass(
    drawn: tuple[int, list[tuple[int, bool]]], epochs: int, batch_size: int
) -> None:
    steps, wanted = drawn
    rows = rows_of([each for each, _ in wanted], [each for _, each in wanted])
    capacity = capacity_for(
        rows=len(rows.starts), buffer_size=8, batch_size=batch_size, epochs=epochs, sequence_length=steps
    )
    table, used = lane_minibatches(rows, capacity, np.random.default_rng(1))
    assert table.shape == (capacity.minibatches_max, capacity.minibatch_rows)
    found = np.sort(table[table >= 0])
    np.testing.assert_array_equal(found, np.repeat(np.arange(sum(each for each, _ in wanted)), epochs))
    assert (table[used:] == -1).all()
    assert (table[:used].max(axis=1) >= 0).all()


def test_short_sequences_make_smaller_minibatches_and_not_fewer() -> None:
    capacity = capacity_for(rows=600, buffer_size=600, batch_size=128, epochs=1, sequence_length=16)
    long, short = (rows_of([size] * count, [False] * count) for size, count in ((16, 37), (6, 100)))
    assert lane_minibatches(long, capacity, np.random.default_rng(1))[1] == 5  # 8 sequences each
    assert lane_minibatches(short, capacity, np.random.default_rng(1))[1] == 13


@given(drawn=sequences, batch_size=st.integers(1, 40))
def test_a_minibatch_holds_sequences_whole_and_its_longest_lane_is_short(
    drawn: tuple[int, list[tuple[int, bool]]], batch_size: int
) -> None:
    steps, wanted = drawn
    rows = rows_of([each for each, _ in wanted], [each for _, each in wanted])
    capacity = capacity_for(
        rows=len(rows.starts), buffer_size=8, batch_size=batch_size, epochs=1, sequence_length=steps
    )
    table, used = lane_minibatches(rows, capacity, np.random.default_rng(1))
    for minibatch in table[:used]:
        lanes = minibatch.reshape(capacity.lanes, steps)
        for lane in lanes:
            kept = lane[lane >= 0]
            assert (lane[: len(kept)] >= 0).all()
            is_new = np.diff(kept, prepend=-2) != 1
            assert rows.starts[kept[is_new]].all()
        lengths = (lanes >= 0).sum(axis=1)
        of_sequences = [length for first, length in zip(rows.first, rows.length, strict=True) if first in minibatch]
        if len(of_sequences) <= capacity.lanes:
            assert lengths.max() == max(of_sequences)


@given(drawn=sequences)
def test_every_row_and_every_tail_has_its_place_among_what_acted(drawn: tuple[int, list[tuple[int, bool]]]) -> None:
    steps, wanted = drawn
    rows = rows_of([each for each, _ in wanted], [each for _, each in wanted])
    capacity = capacity_for(rows=len(rows.starts), buffer_size=8, batch_size=8, epochs=1, sequence_length=steps)
    inputs = acted_lanes(rows, capacity)
    flat, places = inputs["acted_lanes"].reshape(-1), inputs["acted_places"].astype(np.int64)
    everything = np.arange(len(rows.starts))
    np.testing.assert_array_equal(flat[places[everything]], everything)
    for first, length, tail in zip(rows.first, rows.length, rows.tail, strict=True):
        if tail >= 0:
            assert places[tail] == places[first + length - 1] + 1


def test_a_sequence_is_told_by_runs_and_marks_and_starts_with_what_was_remembered() -> None:
    runs, starts = np.array([True, True, False, True, False]), np.array([True, False, True, False, True])
    memories = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)
    found = sequence_rows(
        runs=runs,
        starts=starts,
        memory=np.array([0, -1, 1, 3, 2]),
        memories=memories,
        tails=np.array([-1, -1, 5, -1, -1]),
    )
    # Row 3 starts without a mark: another agent's rows begin there, or an update has cut before it.
    assert found.first.tolist() == [0, 2, 3, 4]
    assert found.length.tolist() == [2, 1, 1, 1]
    assert found.tail.tolist() == [-1, 5, -1, -1]
    assert found.memories[:, 0].tolist() == [1.0, 0.0, 2.0, 4.0, 3.0, 0.0]
    assert found.starts.tolist() == [True, False, True, True, True, False]


def test_a_start_without_a_memory_is_a_bug() -> None:
    one = np.array([False])
    with pytest.raises(InternalError, match="1 of 1 training sequences start where no memory is known"):
        sequence_rows(
            runs=one, starts=one, memory=np.array([-1]), memories=np.zeros((0, 1), np.float32), tails=np.array([-1])
        )


def test_a_sequence_that_is_too_long_is_a_bug() -> None:
    with pytest.raises(InternalError, match="a training sequence of 4 rows does not fit into lanes of 3"):
        packed(rows_of([4], [False]), np.arange(1), steps=3, with_tails=False)


def test_nothing_needs_no_lanes() -> None:
    assert packed(rows_of([], []), np.arange(0), steps=4, with_tails=True).shape == (0, 4)
