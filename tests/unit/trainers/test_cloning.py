"""What cloning computes, what it leaves alone, and what PPO with demonstrations keeps in a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import BehaviorSettings, CloningSettings, Learner, LearnerOptions, MemorySettings
from tests.support.demonstrations import demonstration_of, reads
from tests.support.experience_streams import (
    Feeder,
    random_life,
    seeing_brain,
    small_brain,
    small_learner,
    small_settings,
    updated,
    walkers,
)
from trainers.batches import Capacity
from trainers.bc.minibatches import minibatches_of, sequence_starts
from trainers.bc.samples import Samples, samples_of
from trainers.bc.update import CloningUpdate, cloning_loss, deviation_loss
from trainers.behavior import Behavior
from trainers.learner import PPOLearner, create_learner
from trainers.networks import NetworkShape, initial_weights, named_weights
from trainers.normalizer import Normalizer
from trainers.optimizer_state import Weights
from trainers.ppo.policy import ActorCritic, PolicyOutputs

BRAIN = small_brain()
Floats = npt.NDArray[np.float32]


def cloning(**fields: object) -> CloningSettings:
    return CloningSettings(demo_path="x.demo", **fields)  # type: ignore[arg-type]  # names and types are the caller's


def settings_of(*, memory: MemorySettings | None = None, **fields: object) -> BehaviorSettings:
    return replace(small_settings(memory=memory), behavioral_cloning=cloning(**fields))


def learner_of(settings: BehaviorSettings, brain: BrainParameters = BRAIN, *, seed: int = 0) -> Learner:
    options = LearnerOptions(
        run_seed=seed, settings_for=lambda _: settings, demonstrations=reads(demonstration_of(brain))
    )
    learner = create_learner(options)
    learner.add_brain(brain)
    return learner


def behavior_of(learner: Learner) -> Behavior:
    assert isinstance(learner, PPOLearner)
    return learner._behaviors["Walker"]


def test_the_loss_is_the_one_in_the_books() -> None:
    rng, shape = np.random.default_rng(3), NetworkShape.of(BRAIN, small_settings())
    mean, continuous = (rng.normal(size=(6, 2)).astype(np.float32) for _ in range(2))
    logits = rng.normal(size=(6, 5)).astype(np.float32)
    masks = rng.uniform(size=(6, 5)) < 0.7
    discrete = np.stack([rng.integers(0, 3, 6), rng.integers(0, 2, 6)], axis=1).astype(np.int32)
    masks[np.arange(6), discrete[:, 0]] = masks[np.arange(6), 3 + discrete[:, 1]] = True
    log_std, weight = np.array([0.3, -4.0], np.float32), np.array([1, 1, 0, 1, 0, 1], np.float32)
    outputs = PolicyOutputs(*map(tf.constant, (mean, log_std, logits, np.zeros((6, 1), np.float32))))
    columns = {"continuous": continuous, "discrete": discrete, "masks": masks, "weight": weight}
    rows = {name: tf.constant(each) for name, each in columns.items()}
    expected = []
    for row in np.flatnonzero(weight):
        apart = 0.5 * np.square(continuous[row] - mean[row]).sum()
        for branch in (slice(0, 3), slice(3, 5)):
            score = np.where(masks[row, branch], np.exp(logits[row, branch].astype(np.float64)), 0.0)
            chosen = discrete[row, 0 if branch.start == 0 else 1]
            apart -= np.log(score[chosen] / score.sum())
        expected.append(apart)
    assert float(cloning_loss(ActorCritic(shape), outputs, rows)) == pytest.approx(np.mean(expected), rel=1e-5)
    kept = np.maximum(log_std, -3.0)
    error = np.square(continuous - mean)[weight > 0]
    likelihood = (kept + 0.5 * error * np.exp(-2.0 * kept)).sum(axis=1).mean()
    assert float(deviation_loss(outputs, rows)) == pytest.approx(likelihood, rel=1e-5)


def cloned(
    brain: BrainParameters, *, passes: int, learns_deviation: bool = False, memory: MemorySettings | None = None
) -> tuple[NetworkShape, Floats, Floats, list[float]]:
    """Shape, weights before and after, and the loss of each pass over a demonstration."""
    settings = small_settings(memory=memory, hidden_units=16, num_layers=2)
    shape, samples = NetworkShape.of(brain, settings), samples_of([demonstration_of(brain)], brain, source="x.demo")
    first = initial_weights(shape, "key")
    weights = Weights(first, np.zeros_like(first), np.zeros_like(first), 0)
    capacity = Capacity(rows=0, batch_size=16, epochs=1, sequence_length=memory.sequence_length if memory else 0)
    update = CloningUpdate(shape, capacity, learns_deviation=learns_deviation)
    losses = []
    for number in range(passes):
        weights, loss = update.run(weights, samples, minibatches(samples, capacity, number), moment_of(shape))
        losses.append(loss)
    return shape, first, weights.flat, losses


def minibatches(samples: Samples, capacity: Capacity, seed: int) -> list[npt.NDArray[np.int32]]:
    starts = sequence_starts(samples.begins, capacity.sequence_length)
    return list(minibatches_of(starts, capacity, samples_max=0, rng=np.random.default_rng(seed)))


def moment_of(shape: NetworkShape, rate: float = 1e-2) -> dict[str, npt.NDArray[np.generic]]:
    shift, scale = Normalizer.empty(shape.vector_size).shift_and_scale()
    return {"learning_rate": np.asarray(rate, np.float32), "shift": shift, "scale": scale}


@pytest.mark.parametrize(
    ("brain", "memory"),
    [(BRAIN, None), (seeing_brain(), None), (BRAIN, MemorySettings(memory_size=8, sequence_length=4))],
    ids=["vectors", "images", "memory"],
)
def test_what_acts_learns_and_the_rest_stays_to_the_bit(brain: BrainParameters, memory: MemorySettings | None) -> None:
    shape, before, after, losses = cloned(brain, passes=20, memory=memory)
    assert losses[-1] < 0.7 * losses[0]
    old, new = named_weights(shape, before), named_weights(shape, after)
    for name in old:
        is_of_others = name.startswith(("critic", "value", "log_std"))
        assert np.array_equal(old[name], new[name]) == is_of_others, name


def test_the_deviation_becomes_what_the_means_leave_over() -> None:
    shape, _, after, _ = cloned(small_brain(continuous=2, branches=()), passes=200, learns_deviation=True)
    log_std = named_weights(shape, after)["log_std"]
    assert (log_std < -0.5).all()
    assert (log_std >= -3.1).all()


def test_an_update_is_followed_by_a_lesson_and_says_its_loss() -> None:
    with_lesson, without = learner_of(settings_of(strength=0.5)), small_learner(small_settings(), brains=[BRAIN])
    for each in (with_lesson, without):
        walkers(each, BRAIN)
    ours, theirs = updated(with_lesson), updated(without)
    assert not np.array_equal(ours.weights.flat, theirs.weights.flat)
    for name in ("first", "second"):
        assert np.array_equal(getattr(ours.weights, name), getattr(theirs.weights, name))
    assert ours.statistics["pretraining_loss"] > 0.0
    assert {**ours.statistics, **theirs.statistics} == ours.statistics
    assert behavior_of(with_lesson).summaries.updates[-1]["Losses/Pretraining Loss"] > 0.0
    assert "Losses/Pretraining Loss" not in behavior_of(without).summaries.updates[-1]
    shape = behavior_of(with_lesson).shape
    new, old = (named_weights(shape, each.weights.flat) for each in (ours, theirs))
    assert np.array_equal(new["value.kernel"], old["value.kernel"])


def test_without_strength_or_after_its_steps_an_update_is_that_of_ppo() -> None:
    faded = learner_of(settings_of(steps=1))
    without = small_learner(small_settings(), brains=[BRAIN])
    for each in (faded, without):
        walkers(each, BRAIN)
    ours, theirs = updated(faded), updated(without)
    assert np.array_equal(ours.weights.flat, theirs.weights.flat)
    assert "pretraining_loss" not in ours.statistics


def test_warming_up_changes_nothing() -> None:
    learner = learner_of(settings_of())
    before = behavior_of(learner).weights.flat
    learner.warm_up("Walker")
    behavior = behavior_of(learner)
    assert behavior.weights.flat is before
    assert behavior.cloning is not None
    assert behavior.cloning.moments.steps == 0


def test_cloning_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    settings = settings_of(samples_per_update=20, steps=500)
    learner = learner_of(settings)
    walkers(learner, BRAIN)
    updated(learner)
    learner.cut(None)
    learner.begin_save({})(tmp_path / "1")
    again = create_learner(
        LearnerOptions(run_seed=9, settings_for=lambda _: settings, demonstrations=reads(demonstration_of(BRAIN)))
    )
    again.load([tmp_path / "1"])
    again.add_brain(BRAIN)
    flats = []
    for each in (learner, again):
        feeder = Feeder(each, BRAIN, env_id=1, version=1)
        first, rest = random_life(BRAIN, seed=2, agents=3, steps=15)
        feeder.reset(*first.rows)
        feeder.steps(*rest)
        updated(each)
        behavior = behavior_of(each)
        assert behavior.cloning is not None
        assert behavior.cloning.moments.steps == 8
        flats.append((behavior.weights.flat, behavior.cloning.moments.first, behavior.cloning.moments.steps))
    for ours, theirs in zip(*flats, strict=True):
        assert np.array_equal(ours, theirs)


def test_demonstrations_of_another_brain_are_refused_when_the_brain_is_announced() -> None:
    options = LearnerOptions(
        run_seed=0,
        settings_for=lambda _: settings_of(),
        demonstrations=reads(demonstration_of(small_brain(observations=(4, 2), branches=(3, 5)))),
    )
    with pytest.raises(UsageError, match=r"'x\.demo' do not fit brain 'Walker': they have observation 0 .*branches"):
        create_learner(options).add_brain(BRAIN)


def test_inference_reads_no_demonstrations() -> None:
    options = LearnerOptions(run_seed=0, settings_for=lambda _: settings_of(), is_training=False)
    assert create_learner(options).add_brain(BRAIN) is not None


def test_a_learner_that_cannot_read_demonstrations_says_so() -> None:
    with pytest.raises(UsageError, match=r"'Walker' is to learn from 'x\.demo', and this learner cannot read"):
        small_learner(settings_of(), brains=[BRAIN])


def test_actions_left_out_are_a_warning_of_the_first_policy() -> None:
    brain = small_brain(branches=(2, 2))
    settings = settings_of()
    learner = create_learner(
        LearnerOptions(
            run_seed=0,
            settings_for=lambda _: settings,
            demonstrations=reads(demonstration_of(brain, masked=True)),
        )
    )
    release = learner.add_brain(brain)
    assert release is not None
    assert "demonstrated actions that their masks forbid are left out" in release.warning
