"""Choices follow the masked softmax, never a masked index, and log-probabilities are what their formula says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.acting.counter_random import stream_key, uniforms
from runtime.acting.sampling import choose_branches, log_probability, squash, unsquash
from runtime.experience.brains import Bools, Floats
from runtime.experience.masks import find_blocked
from tests.support.strategies_experience import random_masks

branch_sizes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 1 << 32)


def _draws(rows: int, branches: int) -> np.ndarray:
    key = stream_key(1, incarnation=0, brain="Bot")
    return uniforms(key, 0, np.arange(rows), steps=range(1), blocks=range((branches + 1) // 2))[0, :, :branches].copy()


def _random_logits(rng: np.random.Generator, rows: int, width: int) -> Floats:
    scale = rng.choice([0.0, 1.0, 100.0, 1e38], size=(rows, width))
    return (scale * rng.uniform(-3, 3, (rows, width))).astype(np.float32)


@pytest.mark.parametrize("saturation", [0.0, 1.0, 1e3, 3.4e38])
def test_a_masked_index_is_never_chosen_in_100000_samples_of_saturated_logits(saturation: float) -> None:
    rows, size = 100_000, 210
    logits = np.full((rows, size), saturation, np.float32)
    logits[:, [11, 100, 209]] = -saturation
    masks = np.zeros((rows, size), np.bool_)
    masks[:, [11, 100, 209]] = True
    chosen = choose_branches(logits, masks, (size,), uniforms=_draws(rows, 1))
    counts = np.bincount(chosen[:, 0], minlength=size)
    assert set(np.flatnonzero(counts)) == {11, 100, 209}
    # Equal logits: a third each; five standard deviations.
    assert abs(counts[[11, 100, 209]] - rows / 3).max() < 5 * math.sqrt(rows * 2 / 9)


@given(branches=branch_sizes, rows=st.integers(0, 40), seed=seeds, samples=st.booleans())
def test_choices_are_allowed_indices_of_their_branch(
    branches: tuple[int, ...], rows: int, seed: int, *, samples: bool
) -> None:
    rng = np.random.default_rng(seed)
    logits, masks = _random_logits(rng, rows, sum(branches)), random_masks(branches, rows, rng)
    draws = _draws(rows, len(branches)) if samples else None
    chosen = choose_branches(logits, masks, branches, uniforms=draws)
    assert chosen.shape == (rows, len(branches))
    assert chosen.dtype == np.int32
    start = 0
    for branch, size in enumerate(branches):
        assert ((chosen[:, branch] >= 0) & (chosen[:, branch] < size)).all()
        assert masks[np.arange(rows), start + chosen[:, branch]].all()
        start += size


@given(branches=branch_sizes, seed=seeds, extreme=st.sampled_from([2.0**-53, 1 - 2.0**-53, 0.5]))
def test_the_ends_of_the_unit_interval_still_choose_allowed_indices(
    branches: tuple[int, ...], seed: int, extreme: float
) -> None:
    rng = np.random.default_rng(seed)
    logits, masks = _random_logits(rng, 50, sum(branches)), random_masks(branches, 50, rng)
    chosen = choose_branches(logits, masks, branches, uniforms=np.full((50, len(branches)), extreme))
    starts = np.cumsum([0, *branches[:-1]])
    assert masks[np.arange(50)[:, None], starts + chosen].all()


@given(branches=branch_sizes, rows=st.integers(1, 30), seed=seeds, data=st.data())
def test_a_rows_choice_depends_on_that_row_alone(
    branches: tuple[int, ...], rows: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    logits, masks = _random_logits(rng, rows, sum(branches)), random_masks(branches, rows, rng)
    draws = _draws(rows, len(branches))
    some = data.draw(st.lists(st.integers(0, rows - 1), unique=True))
    whole = choose_branches(logits, masks, branches, uniforms=draws)
    part = choose_branches(logits[some], masks[some], branches, uniforms=draws[some])
    np.testing.assert_array_equal(part, whole[some])


def test_sampled_frequencies_are_the_softmax() -> None:
    rows, logits = 100_000, np.array([0.5, -1.0, 2.0, 0.0], np.float32)
    masks = np.array([True, True, False, True])
    weights = np.exp(logits) * masks
    expected = weights / weights.sum()
    chosen = choose_branches(np.tile(logits, (rows, 1)), np.tile(masks, (rows, 1)), (4,), uniforms=_draws(rows, 1))
    found = np.bincount(chosen[:, 0], minlength=4) / rows
    assert abs(found - expected).max() < 5 * math.sqrt(0.25 / rows)


def test_a_draw_on_a_border_belongs_to_the_next_index_with_weight() -> None:
    logits, masks = np.zeros((1, 3), np.float32), np.array([[True, False, True]])
    assert choose_branches(logits, masks, (3,), uniforms=np.array([[0.5]])).tolist() == [[2]]
    assert choose_branches(logits, masks, (3,), uniforms=np.array([[0.5 - 2.0**-53]])).tolist() == [[0]]


def test_without_draws_the_likeliest_allowed_index_is_chosen() -> None:
    logits = np.array([[1, 5, 3, 9, 2]], np.float32)
    masks = np.array([[True, False, True, True, True]])
    assert choose_branches(logits, masks, (3, 2), uniforms=None).tolist() == [[2, 0]]
    assert choose_branches(logits, None, (3, 2), uniforms=None).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ([[True, False, True], [False, True, True]], None),
        ([[True, False, True], [True, True, False]], (1, 1)),
        ([[True, False, True], [False, False, False]], (1, 0)),
        ([], None),
    ],
)
def test_the_first_branch_that_allows_nothing_is_found(
    masks: list[list[bool]], expected: tuple[int, int] | None
) -> None:
    assert find_blocked(np.array(masks, np.bool_).reshape(-1, 3), (2, 1)) == expected


def test_samples_are_clipped_to_three_and_divided_by_three() -> None:
    raw = np.array([[-7.0, -3.0, 0.0, 1.5, 3.0, 99.0]], np.float32)
    assert squash(raw).tolist() == [[-1.0, -1.0, 0.0, 0.5, 1.0, 1.0]]
    assert squash(raw).dtype == np.float32
    assert unsquash(np.array([[-1.0, 0.5]], np.float32)).tolist() == [[-3.0, 1.5]]


def _slow_log_probability(
    *,
    mean: Floats,
    log_std: Floats,
    logits: Floats,
    masks: Bools | None,
    branches: tuple[int, ...],
    row: int,
    raw: Floats,
    discrete: np.ndarray,
) -> float:
    total = 0.0
    for j, s in enumerate(log_std):
        variance = math.exp(float(s)) ** 2
        density = math.exp(-((float(raw[row, j]) - float(mean[row, j])) ** 2) / (2 * variance))
        total += math.log(density / math.sqrt(2 * math.pi * variance))
    start = 0
    for branch, size in enumerate(branches):
        allowed = [i for i in range(size) if masks is None or masks[row, start + i]]
        weights = {i: math.exp(float(logits[row, start + i])) for i in allowed}
        total += math.log(weights[int(discrete[row, branch])] / sum(weights.values()))
        start += size
    return total


@given(
    rows=st.integers(1, 5),
    continuous=st.integers(0, 3),
    branches=st.lists(st.integers(1, 4), max_size=2).map(tuple),
    seed=seeds,
    masked=st.booleans(),
)
def test_log_probability_equals_densities_and_probabilities_multiplied_out(
    rows: int, continuous: int, branches: tuple[int, ...], seed: int, *, masked: bool
) -> None:
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((rows, continuous)).astype(np.float32)
    log_std = rng.uniform(-1, 0.5, continuous).astype(np.float32)
    raw = (mean + np.exp(log_std) * rng.standard_normal(mean.shape)).astype(np.float32)
    logits = rng.standard_normal((rows, sum(branches))).astype(np.float32)
    masks = random_masks(branches, rows, rng) if masked and branches else None
    discrete = choose_branches(logits, masks, branches, uniforms=_draws(rows, len(branches)))
    found = log_probability(
        mean=mean if continuous else None,
        log_std=log_std if continuous else None,
        logits=logits if branches else None,
        masks=masks,
        branches=branches,
        raw=raw,
        discrete=discrete,
    )
    assert found.dtype == np.float32
    for row in range(rows):
        expected = _slow_log_probability(
            mean=mean,
            log_std=log_std,
            logits=logits,
            masks=masks,
            branches=branches,
            row=row,
            raw=raw,
            discrete=discrete,
        )
        assert math.isclose(found[row], expected, rel_tol=1e-5, abs_tol=1e-5)


def test_an_index_that_is_not_allowed_has_no_probability() -> None:
    found = log_probability(
        mean=None,
        log_std=None,
        logits=np.zeros((1, 2), np.float32),
        masks=np.array([[True, False]]),
        branches=(2,),
        raw=np.zeros((1, 0), np.float32),
        discrete=np.array([[1]], np.int32),
    )
    assert found.tolist() == [-math.inf]
