"""Arrays that enter a compiled function in three vectors come out as they were."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from trainers.ppo.packing import Packing

ARRAYS: dict[str, npt.NDArray[np.generic]] = {
    "table": np.arange(6, dtype=np.float32).reshape(2, 3),
    "rows": np.array([3, 1], np.int32),
    "masks": np.array([[True], [False]]),
    "rate": np.asarray(0.5, np.float32),
    "nothing": np.zeros((0, 4), np.float32),
}


def test_what_was_packed_comes_out_in_its_shape_and_type() -> None:
    packing = Packing.of(ARRAYS)
    vectors = packing.pack(ARRAYS)
    assert [(each.shape, each.dtype) for each in packing.specs()] == [(each.shape, each.dtype) for each in vectors]
    assert len(vectors) == 3
    found = packing.unpack(vectors)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, tf.as_dtype(array.dtype))
        assert found[name].numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("changed", [{"rows": np.zeros(3, np.int32)}, {"more": np.zeros(1, np.float32)}])
def test_arrays_of_another_layout_are_refused(changed: dict[str, npt.NDArray[np.generic]]) -> None:
    with pytest.raises(ValueError, match="other names, types or shapes"):
        Packing.of(ARRAYS).pack({**ARRAYS, **changed})


def test_a_type_without_a_vector_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="clock is float64, expected one of float32, int32, bool"):
        Packing.of({"clock": np.zeros(1)})
