"""Minibatches and capacities: every row once per pass, few sizes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainers.batches import Capacity, capacity_for, largest_buffer, minibatch_rows
from trainers.randomness import generator


@given(count=st.integers(0, 100), batch_size=st.integers(1, 40), epochs=st.integers(1, 4))
def test_every_pass_deals_each_row_once_into_minibatches_of_equal_size(
    count: int,
    batch_size: int,
    epochs: int,
) -> None:
    capacity = Capacity(rows=100, batch_size=batch_size, epochs=epochs)
    table, used = minibatch_rows(count, capacity, np.random.default_rng(0))
    assert table.shape == (capacity.minibatches_max, batch_size)
    per_pass = -(-count // batch_size)
    assert used == epochs * per_pass
    assert (table[used:] == -1).all()
    for epoch in range(epochs):
        dealt = table[epoch * per_pass : (epoch + 1) * per_pass]
        assert sorted(dealt[dealt >= 0].tolist()) == list(range(count))
        sizes = (dealt >= 0).sum(axis=1)
        assert not count or sizes.max() - sizes.min() <= 1


@given(rows=st.integers(0, 5000), buffer_size=st.integers(1, 2000), batch_size=st.integers(1, 3000))
def test_a_capacity_holds_the_rows_and_few_different_ones_are_needed(
    rows: int,
    buffer_size: int,
    batch_size: int,
) -> None:
    capacity = capacity_for(rows=rows, buffer_size=buffer_size, batch_size=batch_size, epochs=3)
    assert capacity.rows >= rows
    assert capacity.batch_size <= buffer_size
    smaller = capacity_for(
        rows=buffer_size + buffer_size // 4, buffer_size=buffer_size, batch_size=batch_size, epochs=3
    )
    assert capacity == smaller or rows > buffer_size * 1.25


@given(rows=st.integers(0, 5000), is_async=st.booleans())
def test_the_largest_buffer_fits_and_the_next_does_not(rows: int, *, is_async: bool) -> None:
    def needed(buffer_size: int) -> int:
        return capacity_for(rows=0, buffer_size=buffer_size, batch_size=1, epochs=1, is_async=is_async).rows

    found = largest_buffer(rows, is_async=is_async)
    assert found == 0 or needed(found) <= rows
    assert needed(found + 1) > rows


def test_generators_depend_on_key_purpose_and_number_alone() -> None:
    draws = [generator("key", "minibatches", number).integers(0, 2**62) for number in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]
    assert generator("key", "weights").integers(0, 2**62) not in draws
    assert generator("other", "minibatches").integers(0, 2**62) not in draws
