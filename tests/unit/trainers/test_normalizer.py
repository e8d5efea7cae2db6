"""The running mean and variance of observations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.normalizer import Normalizer


@given(seed=st.integers(0, 1000), cuts=st.sets(st.integers(1, 59)))
def test_merging_parts_gives_mean_and_variance_of_the_whole(seed: int, cuts: set[int]) -> None:
    rows = np.random.default_rng(seed).normal(100.0, 3.0, (60, 2)).astype(np.float32)
    normalizer = Normalizer.empty(2)
    for part in np.split(rows, sorted(cuts)):
        normalizer = normalizer.merged(part)
    shift, scale = normalizer.shift_and_scale()
    assert normalizer.count == 60
    np.testing.assert_allclose(shift, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scale, 1 / rows.std(axis=0), rtol=1e-4)


def test_with_nothing_seen_observations_pass_as_they_are() -> None:
    shift, scale = Normalizer.empty(2).merged(np.zeros((0, 2), np.float32)).shift_and_scale()
    assert shift.tolist() == [0.0, 0.0]
    assert scale.tolist() == [1.0, 1.0]


def test_an_observation_that_never_changes_becomes_zero_and_not_nan() -> None:
    shift, scale = Normalizer.empty(1).merged(np.full((10, 1), 7.0, np.float32)).shift_and_scale()
    assert (7.0 - shift[0]) * scale[0] == 0.0
    assert np.isfinite(scale).all()


def test_a_worked_example() -> None:
    # 1, 3: mean 2, sum of squared deviations 2. With 5: mean 3, sum (1-3)^2 + (3-3)^2 + (5-3)^2 = 8.
    normalizer = Normalizer.empty(1).merged(np.asarray([[1], [3]], np.float32)).merged(np.asarray([[5]], np.float32))
    assert normalizer.mean[0] == pytest.approx(3.0)
    assert normalizer.m2[0] == pytest.approx(8.0)
