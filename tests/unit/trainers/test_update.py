"""The compiled update: against an eager loop, under padding, between versions, and when numbers go wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from runtime.errors import LearnerError
from runtime.learner import BehaviorSettings, Learner
from tests.support.experience_streams import (
    Act,
    Feeder,
    Row,
    Step,
    random_life,
    small_brain,
    small_learner,
    small_settings,
    walkers,
)
from trainers.batches import SightRows, batch_of, capacity_for
from trainers.behavior import Behavior, Outcome
from trainers.learner import PPOLearner
from trainers.networks import NetworkShape, named_weights
from trainers.ppo.engine import update_for
from trainers.ppo.inputs import update_inputs
from trainers.ppo.policy import ActorCritic
from trainers.ppo.update import PPOUpdate
from trainers.randomness import generator
from trainers.schedules import scheduled_values

BRAIN = small_brain()
Array = npt.NDArray[np.generic]


def behavior_of(learner: Learner, name: str = "Walker") -> Behavior:
    assert isinstance(learner, PPOLearner)
    return learner._behaviors[name]


def updated(learner: Learner, name: str = "Walker") -> Outcome:
    outcome = learner.begin_update(name)()
    assert isinstance(outcome, Outcome)
    learner.finish_update(outcome)
    return outcome


def filled(settings: BehaviorSettings | None = None, *, seed: int = 0) -> Learner:
    learner = small_learner(settings, seed=seed, brains=[BRAIN])
    walkers(learner, BRAIN)
    return learner


def inputs_of(learner: Learner, *, extra_rows: int = 0) -> tuple[Any, Mapping[str, Array], SightRows]:
    """The compiled update and its inputs as the learner would make them, at a capacity of the caller's."""
    behavior = behavior_of(learner)
    hyper = behavior.settings.hyperparameters
    batch = batch_of(behavior.complete_buffer(), behavior.wires, behavior.settings.time_horizon)
    capacity = capacity_for(
        rows=len(batch) + extra_rows,
        buffer_size=hyper.buffer_size,
        batch_size=hyper.batch_size,
        epochs=hyper.num_epoch,
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
    return update_for(behavior.shape, capacity), inputs, batch.sights


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_first_ratio_is_one_and_the_update_changes_the_policy(*, is_shared: bool) -> None:
    learner = filled(small_settings(normalize=is_shared, shared_critic=is_shared))
    for number in range(2):
        before = behavior_of(learner).weights.flat
        outcome = updated(learner)
        assert outcome.statistics["first_ratio_error"] < 1e-5
        assert np.abs(outcome.weights.flat - before).max() > 1e-6
        # Whatever the batch, also after weights and normaliser have moved.
        feeder = Feeder(learner, BRAIN, env_id=1 + number, version=behavior_of(learner).version)
        first, rest = random_life(BRAIN, seed=9, agents=5, steps=8)
        feeder.reset(*first.rows)
        feeder.steps(*rest)


def test_it_equals_an_eager_loop_over_minibatches_of_exact_size() -> None:
    learner = filled()
    update, inputs, images = inputs_of(learner)
    behavior = behavior_of(learner)
    after, _ = update.run(behavior.weights, inputs, images)
    expected = _eager(behavior, inputs)
    np.testing.assert_allclose(after.flat, expected, rtol=0, atol=2e-6)
    assert np.abs(expected - behavior.weights.flat).max() > 1e-4


def _eager(behavior: Behavior, inputs: Mapping[str, Array]) -> npt.NDArray[np.float64]:
    """The same update with Python loops, no padding, numpy's Adam and formulas written out anew."""
    policy, hyper = ActorCritic(behavior.shape), behavior.settings.hyperparameters
    count = int(inputs["valid"].astype(np.float64).sum())
    column = {name: tf.constant(values) for name, values in inputs.items()}

    def distribution(flat: Any, rows: Any) -> tuple[Any, Any, Any]:
        outputs = policy.outputs(policy.tensors(flat), tf.gather(column["observations"], rows))
        chosen = [tf.gather(column[name], rows) for name in ("continuous", "discrete", "masks")]
        return (*policy.log_probability_and_entropy(outputs, *chosen), outputs.value[:, 0])

    everything = np.arange(len(inputs["valid"]))
    flat = tf.constant(behavior.weights.flat)
    old_log, _, old_value = distribution(flat, everything)
    values = old_value.numpy().astype(np.float64)
    continues, linked = inputs["continues"][:, 0].astype(np.float64), inputs["is_linked"].astype(np.float64)
    rewards, following = inputs["rewards"].astype(np.float64), inputs["next_rows"].astype(np.int64)
    advantage = np.zeros(len(values) + 1)
    for t in reversed(range(count)):
        delta = rewards[t] + 0.9 * values[following[t]] * continues[t] - values[t]
        advantage[t] = delta + 0.9 * hyper.lambd * linked[t] * advantage[t + 1]
    target = tf.constant((advantage[:-1] + values).astype(np.float32))
    normal = (advantage[:-1] - advantage[:count].mean()) / (advantage[:count].std() + 1e-8)
    first, second = np.zeros(len(flat)), np.zeros(len(flat))
    table = inputs["minibatches"].astype(np.int64)[: int(inputs["minibatches_used"])]
    for steps, numbers in enumerate(table, start=1):
        rows = numbers[numbers >= 0]
        with tf.GradientTape() as tape:
            tape.watch(flat)
            log, entropy, value = distribution(flat, rows)
            ratio = tf.exp(log - tf.gather(old_log, rows))
            weight = tf.constant(normal[rows].astype(np.float32))
            gain = tf.minimum(ratio * weight, tf.clip_by_value(ratio, 0.8, 1.2) * weight)
            old, goal = tf.gather(old_value, rows), tf.gather(target, rows)
            near = old + tf.clip_by_value(value - old, -0.2, 0.2)
            error = tf.maximum((value - goal) ** 2, (near - goal) ** 2)
            total = -tf.reduce_mean(gain) + 0.5 * tf.reduce_mean(error) - hyper.beta * tf.reduce_mean(entropy)
        gradient = np.asarray(tf.convert_to_tensor(tape.gradient(total, flat)), np.float64)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = hyper.learning_rate * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps)
        flat = flat - tf.constant((rate * first / (np.sqrt(second) + 1e-7)).astype(np.float32))
    return np.asarray(flat, np.float64)


def test_padding_changes_nothing() -> None:
    learner = filled()
    results = []
    for extra_rows in (0, 60):
        update, inputs, images = inputs_of(learner, extra_rows=extra_rows)
        results.append((update.capacity.rows, *update.run(behavior_of(learner).weights, inputs, images)))
    assert results[0][0] < results[1][0]
    np.testing.assert_allclose(results[0][1].flat, results[1][1].flat, rtol=0, atol=1e-6)
    assert results[0][1].steps == results[1][1].steps
    assert results[0][2] == pytest.approx(results[1][2], rel=1e-4, abs=1e-6)


def test_what_stands_in_padded_rows_does_not_matter() -> None:
    learner = filled()
    update, inputs, images = inputs_of(learner)
    spoiled = {name: values.copy() for name, values in inputs.items()}
    buffer = behavior_of(learner).complete_buffer()
    unused = np.arange(update.capacity.rows) >= len(buffer) + len(buffer.tails()[0])
    assert unused.any()
    for name in ("rewards", "continuous", "observations"):
        spoiled[name][unused] = 1e3
    clean, dirty = (update.run(behavior_of(learner).weights, each, images)[0] for each in (inputs, spoiled))
    assert clean.flat.tobytes() == dirty.flat.tobytes()


def test_the_same_calls_give_the_same_bytes() -> None:
    results = [updated(filled()).weights.flat.tobytes() for _ in range(2)]
    assert results[0] == results[1]
    assert updated(filled(seed=1)).weights.flat.tobytes() != results[0]


def test_more_rows_than_fit_are_all_used_at_a_larger_capacity() -> None:
    learner = small_learner(brains=[BRAIN])
    walkers(learner, BRAIN, steps=55)
    behavior = behavior_of(learner)
    rows = len(behavior.buffer)
    assert rows > 104
    outcome = updated(learner)
    assert outcome.weights.steps == 2 * -(-rows // 16)
    assert {each.rows for each in behavior.capacities} != {104}


def test_a_tiny_learning_rate_changes_nothing_that_could_be_seen() -> None:
    learner = filled(small_settings(learning_rate=1e-10))
    before = behavior_of(learner).weights.flat
    assert np.abs(updated(learner).weights.flat - before).max() < 1e-8


def test_warming_up_compiles_what_the_first_update_runs_and_leaves_the_policy() -> None:
    learner = small_learner(small_settings(hidden_units=9), brains=[BRAIN])
    before = behavior_of(learner).weights
    learner.warm_up("Walker")
    behavior = behavior_of(learner)
    assert behavior.weights is before
    (capacity,) = behavior.capacities
    update = update_for(behavior.shape, capacity)
    assert isinstance(update, PPOUpdate)
    compiled = update._compiled
    assert compiled is not None
    walkers(learner, BRAIN)
    updated(learner)
    assert behavior.capacities == {capacity}
    assert update._compiled is compiled


def test_two_behaviors_learn_as_each_would_alone() -> None:
    other = small_brain("Other", observations=(4,), continuous=0, branches=(3,))
    together = small_learner(brains=[other, BRAIN])
    walkers(together, BRAIN)
    feeder = Feeder(together, other, env_id=1)
    first, rest = random_life(other, seed=5, agents=3, steps=20)
    feeder.reset(*first.rows)
    feeder.steps(*rest)
    outcome_other = updated(together, "Other")
    outcome = updated(together)
    assert outcome.weights.flat.tobytes() == updated(filled()).weights.flat.tobytes()
    assert outcome_other.weights.flat.shape != outcome.weights.flat.shape


def test_rows_of_an_earlier_version_are_judged_by_the_policy_that_acted() -> None:
    """Two versions in one buffer: each row's old log-probability and value are its own policy's."""
    learner = filled()
    behavior = behavior_of(learner)
    updated(learner)
    feeder = Feeder(learner, BRAIN, env_id=1)
    first, rest = random_life(BRAIN, seed=3, agents=3, steps=16)
    feeder.reset(*first.rows)
    feeder.steps(*rest[:8])
    feeder.version = 1
    feeder.steps(*rest[8:])
    update, inputs, _ = inputs_of(learner)
    assert int(inputs["acted_used"]) == 2
    flat, steps = tf.constant(behavior.weights.flat), tf.constant(behavior.weights.steps)
    found = update.prepared({name: tf.constant(values) for name, values in inputs.items()}, (flat, flat, flat, steps))
    policy = ActorCritic(behavior.shape)
    for number, snapshot in enumerate(behavior.snapshots):
        outputs = policy.outputs(policy.tensors(tf.constant(snapshot.flat)), tf.constant(inputs["observations"]))
        rows = (inputs["acted"] == number) & (inputs["valid"] == 1)
        assert rows.sum() > 5
        np.testing.assert_allclose(found["old_value"].numpy()[rows], outputs.value.numpy()[rows], rtol=1e-5, atol=1e-6)
    assert np.abs(behavior.snapshots[0].flat - behavior.snapshots[1].flat).max() > 1e-4


def test_a_row_older_than_all_snapshots_is_judged_by_the_oldest() -> None:
    learner = filled()
    for _ in range(3):
        updated(learner)
    feeder = Feeder(learner, BRAIN, env_id=2)
    feeder.reset(Row(agent=1))
    feeder.steps(Step((Act(agent=1),), (Row(agent=1),)))
    _, inputs, _ = inputs_of(learner)
    assert int(inputs["acted_used"]) == 1
    assert (inputs["acted_weights"][0] == behavior_of(learner).snapshots[0].flat).all()


def test_the_normaliser_moves_after_the_update_and_travels_with_the_policy() -> None:
    learner = filled(small_settings(normalize=True))
    behavior = behavior_of(learner)
    _, inputs, _ = inputs_of(learner)
    assert (inputs["shift"] == 0).all()
    rows = len(behavior.buffer)
    before = learner.unity_model("Walker")
    updated(learner)
    assert behavior.normalizer.count == rows
    assert behavior.snapshots[-1].normalizer is behavior.normalizer
    assert learner.unity_model("Walker") != before


def test_an_update_that_is_not_finite_is_refused_and_the_old_policy_stays() -> None:
    learner = small_learner(brains=[BRAIN])
    feeder = Feeder(learner, BRAIN)
    feeder.reset(Row(agent=1))
    feeder.steps(*(Step((Act(agent=1),), (Row(agent=1, reward=3e38 * (-1) ** x),)) for x in range(40)))
    behavior = behavior_of(learner)
    before, version = behavior.weights, behavior.version
    outcome = learner.begin_update("Walker")()
    with pytest.raises(LearnerError, match=r"not finite.*the policy before it was kept"):
        learner.finish_update(outcome)
    assert behavior.weights is before
    assert behavior.version == version


def test_experience_that_arrives_during_an_update_is_kept_for_the_next() -> None:
    learner = filled()
    job = learner.begin_update("Walker")
    feeder = Feeder(learner, BRAIN, env_id=1)
    feeder.reset(Row(agent=1))
    feeder.steps(Step((Act(agent=1),), (Row(agent=1, reward=1.0),)))
    learner.finish_update(job())
    assert learner.progress()["Walker"].buffered == 1


def test_first_weights_depend_on_seed_and_name_alone() -> None:
    other = small_brain("Other")
    orders = [[BRAIN, other], [other, BRAIN], [BRAIN]]
    weights = [behavior_of(small_learner(brains=order)).weights.flat.tobytes() for order in orders]
    assert len(set(weights)) == 1
    assert behavior_of(small_learner(brains=[other]), "Other").weights.flat.tobytes() != weights[0]
    assert behavior_of(small_learner(seed=1, brains=[BRAIN])).weights.flat.tobytes() != weights[0]


def test_first_weights_are_scaled_by_their_inputs() -> None:
    shape = NetworkShape.of(small_brain(observations=(50,)), small_settings(hidden_units=200, num_layers=2))
    learner = small_learner(small_settings(hidden_units=200, num_layers=2), brains=[small_brain(observations=(50,))])
    weights = named_weights(shape, behavior_of(learner).weights.flat)
    assert weights["actor.0.kernel"].std() == pytest.approx(50**-0.5, rel=0.05)
    assert weights["critic.1.kernel"].std() == pytest.approx(200**-0.5, rel=0.05)
    assert weights["mean.kernel"].std() < 0.01
    assert not weights["actor.0.bias"].any()
    assert sum(each.size for each in weights.values()) == shape.size
