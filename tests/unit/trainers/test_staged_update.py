"""The update of networks with convolutions: the same as the whole one, stage by stage."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from runtime.learner import BehaviorSettings, Learner
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
from trainers.batches import Batch, batch_of, capacity_for
from trainers.behavior import Behavior
from trainers.learner import PPOLearner
from trainers.networks import named_weights
from trainers.ppo.engine import update_for
from trainers.ppo.inputs import update_inputs
from trainers.ppo.policy import ActorCritic
from trainers.ppo.staged import StagedUpdate
from trainers.ppo.update import PPOUpdate
from trainers.randomness import generator
from trainers.schedules import scheduled_values

SEEING = seeing_brain()


def behavior_of(learner: Learner) -> Behavior:
    assert isinstance(learner, PPOLearner)
    return learner._behaviors["Walker"]


def filled(settings: BehaviorSettings | None = None, *, seed: int = 0) -> Learner:
    learner = small_learner(settings, seed=seed, brains=[SEEING])
    walkers(learner, SEEING)
    return learner


def inputs_of(learner: Learner) -> tuple[Batch, Any, Any]:
    """The batch, its capacity and the inputs that an update would have now."""
    behavior = behavior_of(learner)
    hyper = behavior.settings.hyperparameters
    batch = batch_of(behavior.complete_buffer(), behavior.wires, behavior.settings.time_horizon)
    capacity = capacity_for(
        rows=len(batch), buffer_size=hyper.buffer_size, batch_size=hyper.batch_size, epochs=hyper.num_epoch
    )
    inputs = update_inputs(
        batch,
        capacity,
        behavior.settings,
        snapshots=behavior.snapshots,
        snapshots_max=2,
        scheduled=scheduled_values(hyper, steps=0, max_steps=1000),
        rng=generator("key", "minibatches"),
    )
    return batch, capacity, inputs


def two_versions(learner: Learner) -> None:
    """Experience under two policies."""
    updated(learner)
    feeder = Feeder(learner, behavior_of(learner).brain, env_id=1)
    first, rest = random_life(feeder.brain, seed=3, agents=3, steps=16)
    feeder.reset(*first.rows)
    feeder.steps(*rest[:8])
    feeder.version = 1
    feeder.steps(*rest[8:])


def test_it_equals_the_whole_update_where_both_apply() -> None:
    brain = small_brain()
    learner = small_learner(small_settings(normalize=True), brains=[brain])
    walkers(learner, brain)
    two_versions(learner)
    behavior = behavior_of(learner)
    batch, capacity, inputs = inputs_of(learner)
    (whole, statistics), (staged, others) = (
        kind(behavior.shape, capacity).run(behavior.weights, inputs, batch.sights) for kind in (PPOUpdate, StagedUpdate)
    )
    assert np.abs(whole.flat - behavior.weights.flat).max() > 1e-4
    np.testing.assert_allclose(staged.flat, whole.flat, rtol=0, atol=2e-6)
    np.testing.assert_allclose(staged.first, whole.first, rtol=0, atol=2e-6)
    assert staged.steps == whole.steps
    assert others == pytest.approx(statistics, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_first_ratio_is_one_and_every_layer_learns(*, is_shared: bool) -> None:
    learner = filled(small_settings(normalize=is_shared, shared_critic=is_shared))
    behavior = behavior_of(learner)
    before = named_weights(behavior.shape, behavior.weights.flat)
    outcome = updated(learner)
    assert outcome.statistics["first_ratio_error"] < 1e-5
    after = named_weights(behavior.shape, outcome.weights.flat)
    still = [name for name in before if np.abs(after[name] - before[name]).max() < 1e-6]
    assert not still
    assert ("critic.sight.1.0.kernel" in after) != is_shared


def test_rows_of_an_earlier_version_are_judged_by_the_policy_that_acted() -> None:
    learner = filled()
    two_versions(learner)
    behavior = behavior_of(learner)
    batch, capacity, inputs = inputs_of(learner)
    assert int(inputs["acted_used"]) == 2
    found = StagedUpdate(behavior.shape, capacity)._as_acted(inputs, batch.sights)[1].numpy()
    policy = ActorCritic(behavior.shape)
    images = [tf.constant(each) for each in batch.sights.fetch(np.arange(len(batch)))]
    for number, snapshot in enumerate(behavior.snapshots):
        outputs = policy.outputs(policy.tensors(tf.constant(snapshot.flat)), tf.constant(batch.observations), images)
        rows = np.flatnonzero(inputs["acted"][: len(batch)] == number)
        assert len(rows) > 5
        np.testing.assert_allclose(found[rows], outputs.value.numpy()[rows], rtol=1e-5, atol=1e-6)
    assert not found[len(batch) :].any()


def test_the_same_calls_give_the_same_bytes() -> None:
    results = [updated(filled()).weights.flat.tobytes() for _ in range(2)]
    assert results[0] == results[1]
    assert updated(filled(seed=1)).weights.flat.tobytes() != results[0]


def test_warming_up_compiles_every_stage_and_leaves_the_policy() -> None:
    learner = small_learner(small_settings(hidden_units=11), brains=[SEEING])
    behavior = behavior_of(learner)
    before = behavior.weights
    learner.warm_up("Walker")
    assert behavior.weights is before
    (capacity,) = behavior.capacities
    update = update_for(behavior.shape, capacity)
    assert isinstance(update, StagedUpdate)
    stages = (update._judge, update._targets, update._step)
    assert [each.experimental_get_tracing_count() for each in stages] == [1, 1, 1]
    walkers(learner, SEEING)
    updated(learner)
    two_versions(learner)
    updated(learner)
    assert [each.experimental_get_tracing_count() for each in stages] == [1, 1, 1]


def test_a_run_on_nothing_changes_no_weight() -> None:
    learner = filled()
    updated(learner)
    behavior = behavior_of(learner)
    assert np.abs(behavior.weights.first).max() > 0
    outcome = behavior._job(behavior.empty_buffer())()
    assert outcome.weights is behavior.weights
