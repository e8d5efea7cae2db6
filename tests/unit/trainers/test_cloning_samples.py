"""Demonstrations become samples that fit a brain, or every difference is told; minibatches deal them fairly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.experience.brains import ActionSpec, BrainParameters, ObservationSpec
from runtime.learner import CloningSettings
from tests.support.demonstrations import demonstration_of
from tests.support.experience_streams import EYE, seeing_brain, small_brain
from trainers.batches import Capacity
from trainers.bc.minibatches import minibatches_of, sequence_starts
from trainers.bc.pretraining import cloning_rate
from trainers.bc.samples import observations_of, samples_of

BRAIN = small_brain()


def test_samples_are_all_records_but_the_ends_in_the_units_of_the_policy() -> None:
    samples = samples_of([demonstration_of(BRAIN), demonstration_of(BRAIN, seed=1)], BRAIN, source="x.demo")
    assert len(samples) == 2 * (40 - 4)
    assert samples.observations[0].shape == (72, 5)
    assert np.flatnonzero(samples.begins).tolist() == [0, 9, 18, 27, 36, 45, 54, 63]
    seen = samples.observations[0][:, 0].astype(np.float32)
    assert np.allclose(samples.continuous[:, 0], 3.0 * seen / 2)
    assert samples.masks.all()


def test_actions_that_their_masks_forbid_are_left_out_and_counted() -> None:
    demonstration = demonstration_of(small_brain(branches=(2, 2)), masked=True)
    samples = samples_of([demonstration], small_brain(branches=(2, 2)), source="x.demo")
    chosen = demonstration.discrete[~demonstration.done]
    rows = np.arange(40)[~demonstration.done]
    forbidden = (rows % 3 == 0) & (chosen[:, 0] == 1)
    assert forbidden.any()
    assert samples.left_out == forbidden.sum()
    assert len(samples) == 36 - samples.left_out
    after = np.flatnonzero(forbidden[:-1] & ~forbidden[1:]) + 1
    places = np.cumsum(~forbidden) - 1
    assert samples.begins[places[after]].all()


def test_a_file_without_a_single_sample_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'x\.demo' hold no action to learn from\. Expected at least two records"):
        samples_of([demonstration_of(BRAIN, records=1)], BRAIN, source="x.demo")


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    theirs=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    actions=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    branches=st.tuples(st.lists(st.integers(1, 3), max_size=2), st.lists(st.integers(1, 3), max_size=2)),
)
def test_every_difference_is_named_at_once(
    sizes: list[int], theirs: list[int], actions: tuple[int, int], branches: tuple[list[int], list[int]]
) -> None:
    ours = small_brain(observations=sizes, continuous=actions[0], branches=tuple(branches[0]))
    other = small_brain(observations=theirs, continuous=actions[1], branches=tuple(branches[1]))
    expected = [f"{len(theirs)} observations of"] if len(sizes) != len(theirs) else []
    expected += [
        rf"observation {index} ('sensor {index}') of shape ({there},), the brain has ({here},)"
        for index, (there, here) in enumerate(zip(theirs, sizes, strict=False))
        if there != here
    ]
    expected += [f"{actions[1]} continuous actions, the brain has {actions[0]}"] if actions[0] != actions[1] else []
    expected += [f"branches of {tuple(branches[1])}"] if branches[0] != branches[1] else []
    try:
        samples_of([demonstration_of(other)], ours, source="x.demo")
    except UsageError as error:
        told = str(error)
        assert expected
        assert all(each in told for each in expected)
        assert told.count(";") == len(expected)  # one between differences, one before the advice
    else:
        assert not expected


def test_a_goal_is_not_taken_for_another_observation() -> None:
    goal = replace(
        BRAIN, observation_specs=(replace(BRAIN.observation_specs[0], observation_type=1), *BRAIN.observation_specs[1:])
    )
    with pytest.raises(UsageError, match=r"observation 0 .* of type 0, the brain has type 1"):
        samples_of([demonstration_of(BRAIN)], goal, source="x.demo")


def test_pictures_take_the_type_that_the_brain_announces() -> None:
    brain = seeing_brain()
    flipped = BrainParameters(
        brain.brain_name,
        tuple(
            replace(each, dtype="float32" if each.dtype == "uint8" else "uint8") if len(each.shape) == 3 else each
            for each in brain.observation_specs
        ),
        brain.action_spec,
    )
    own = samples_of([demonstration_of(brain)], brain, source="x.demo")
    other = samples_of([demonstration_of(flipped)], brain, source="x.demo")
    for ours, theirs in zip(own.observations, other.observations, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.allclose(ours.astype(np.float64), theirs.astype(np.float64))


def test_a_brain_that_sees_only_pictures_has_empty_vectors() -> None:
    brain = BrainParameters(BRAIN.brain_name, (ObservationSpec(EYE.shape, dtype="uint8"),), ActionSpec(1))
    vectors, sight = observations_of(brain, [np.zeros((4, *EYE.shape), np.uint8)])
    assert (vectors.shape, sight.shape) == ((4, 0), (4, *EYE.shape))


begins_of = st.lists(st.booleans(), min_size=1, max_size=60).map(lambda flags: np.array([True, *flags[1:]]))


@given(
    begins=begins_of,
    batch_size=st.integers(1, 20),
    epochs=st.integers(1, 3),
    samples_max=st.integers(0, 70),
    sequence_length=st.integers(0, 6),
    seed=st.integers(0, 5),
)
def test_each_pass_deals_every_drawn_sample_once(
    *,
    begins: np.ndarray[tuple[int], np.dtype[np.bool_]],
    batch_size: int,
    epochs: int,
    samples_max: int,
    sequence_length: int,
    seed: int,
) -> None:
    capacity = Capacity(rows=0, batch_size=batch_size, epochs=epochs, sequence_length=sequence_length)
    starts = sequence_starts(begins, sequence_length)
    dealt = list(minibatches_of(starts, capacity, samples_max=samples_max, rng=np.random.default_rng(seed)))
    assert {each.shape for each in dealt} == {(capacity.minibatch_rows,)}
    counts = np.bincount(np.concatenate([each[each >= 0] for each in dealt]), minlength=len(begins))
    assert set(counts.tolist()) <= {0, epochs}
    drawn = int((counts > 0).sum())
    if not samples_max or samples_max >= len(begins):
        assert drawn == len(begins)
    else:
        assert samples_max <= drawn < samples_max + max(sequence_length, 1)
    if sequence_length:
        for each in dealt:
            for lane in each.reshape(-1, sequence_length):
                rows = lane[lane >= 0]
                # A row that starts nothing follows the one before it.
                assert all(starts[row] or rows[place - 1] == row - 1 for place, row in enumerate(rows))
                assert starts[rows[:1]].all()


@given(begins=begins_of, sequence_length=st.integers(1, 8))
def test_a_sequence_is_of_one_episode_and_never_too_long(
    begins: np.ndarray[tuple[int], np.dtype[np.bool_]], sequence_length: int
) -> None:
    starts = sequence_starts(begins, sequence_length)
    assert (starts | ~begins).all()
    lengths = np.diff(np.append(np.flatnonzero(starts), len(starts)))
    assert lengths.max() <= sequence_length


@given(strength=st.floats(0, 2), steps=st.integers(0, 1000), now=st.integers(0, 2000), rate=st.floats(1e-6, 1e-1))
def test_the_rate_falls_to_0_in_a_line_or_stays(strength: float, steps: int, now: int, rate: float) -> None:
    settings = CloningSettings(demo_path="x.demo", strength=strength, steps=steps)
    found = cloning_rate(settings, learning_rate=rate, steps=now)
    whole = strength * rate
    if steps == 0:
        assert found == whole
    elif now >= steps:
        assert found == 0.0
    else:
        assert found == pytest.approx(whole * (steps - now) / steps)
