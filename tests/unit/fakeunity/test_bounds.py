"""The quick ways give what numpy's own give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fakeunity.bounds import how_many, some, within

KINDS = [(np.float32, hnp.from_dtype(np.dtype(np.float32), allow_nan=False)), (np.int64, st.integers(-99, 99))]


@given(data=st.data(), kind=st.sampled_from(KINDS), low=st.integers(-5, 5), width=st.integers(0, 5))
def test_values_are_kept_between_two_numbers(
    data: st.DataObject, kind: tuple[type, st.SearchStrategy[float]], low: int, width: int
) -> None:
    dtype, elements = kind
    values = data.draw(hnp.arrays(dtype, hnp.array_shapes(max_dims=2), elements=elements))
    kept, wanted = within(values, low, low + width), np.clip(values, low, low + width)
    assert kept.dtype == wanted.dtype
    assert np.array_equal(kept, wanted)


@given(hnp.arrays(np.bool_, hnp.array_shapes(max_dims=2, min_side=0)))
def test_flags_are_counted(flags: NDArray[np.bool_]) -> None:
    assert some(flags) == flags.any()
    assert how_many(flags) == flags.sum()
    assert how_many(flags[::2]) == flags[::2].sum()
