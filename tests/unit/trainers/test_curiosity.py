"""Curiosity against formulas in numpy, and in the three kinds of update."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.experience.brains import BrainParameters, ObservationSpec
from runtime.learner import BehaviorSettings, Learner, MemorySettings
from tests.support.experience_streams import (
    EYE,
    Feeder,
    random_life,
    small_brain,
    small_learner,
    small_settings,
    updated,
)
from tests.support.replicas import ReplicaLoop
from tests.unit.trainers.test_reward_signals import curious
from trainers.batches import batch_of
from trainers.behavior import Behavior
from trainers.learner import PPOLearner
from trainers.networks import NetworkShape, initial_weights, named_weights
from trainers.ppo.engine import update_for
from trainers.ppo.inputs import update_inputs
from trainers.ppo.staged import StagedUpdate
from trainers.ppo.update import PPOUpdate
from trainers.randomness import generator
from trainers.reward_signals.curiosity_model import CuriosityModel
from trainers.reward_signals.signal import Transitions
from trainers.schedules import scheduled_values

Doubles = npt.NDArray[np.float64]

HYBRID = small_brain()


def behavior_of(learner: Learner) -> Behavior:
    assert isinstance(learner, PPOLearner)
    return learner._behaviors["Walker"]


def lived(
    settings: BehaviorSettings, *, brain: BrainParameters = HYBRID, seed: int = 0, cuts: tuple[int, ...] = ()
) -> Learner:
    """A learner with 24 steps of three agents."""
    learner = small_learner(settings, seed=seed, brains=[brain])
    more(learner, brain=brain, cuts=cuts)
    return learner


def more(learner: Learner, *, brain: BrainParameters = HYBRID, number: int = 0, cuts: tuple[int, ...] = ()) -> None:
    feeder = Feeder(learner, brain, env_id=number, version=behavior_of(learner).version)
    first, rest = random_life(brain, seed=5 + number, agents=3, steps=24)
    feeder.reset(*first.rows)
    for start, end in zip((0, *cuts), (*cuts, len(rest)), strict=True):
        feeder.steps(*rest[start:end])


def as_double(weights: Mapping[str, npt.NDArray[np.float32]]) -> dict[str, Doubles]:
    return {name: each.astype(np.float64) for name, each in weights.items()}


def dense(weights: Mapping[str, Doubles], name: str, inputs: Doubles, *, is_last: bool = False) -> Doubles:
    linear: Doubles = inputs @ weights[f"curiosity.{name}.kernel"] + weights[f"curiosity.{name}.bias"]
    return linear if is_last else linear / (1.0 + np.exp(-linear))


def expected_errors(
    weights: Mapping[str, Doubles], seen: tuple[Doubles, Doubles], actions: tuple[Doubles, npt.NDArray[np.int64]]
) -> tuple[Doubles, Doubles]:
    """Forward and inverse error of each row: two hidden layers, two continuous actions, branches of 3 and 2."""
    code, after = (dense(weights, "1", dense(weights, "0", each)) for each in seen)
    taken, chosen = np.clip(actions[0], -3, 3) / 3, actions[1]
    encoded = np.concatenate([taken, np.eye(3)[chosen[:, 0]], np.eye(2)[chosen[:, 1]]], axis=1)
    hidden = dense(weights, "forward", np.concatenate([code, encoded], axis=1))
    forward = 0.5 * ((dense(weights, "forward.code", hidden, is_last=True) - after) ** 2).sum(axis=1)
    hidden = dense(weights, "inverse", np.concatenate([code, after], axis=1))
    found = dense(weights, "inverse.action", hidden, is_last=True)
    inverse = ((found[:, :2] - taken) ** 2).sum(axis=1)
    for part, right in ((found[:, 2:5], chosen[:, 0]), (found[:, 5:7], chosen[:, 1])):
        shares = np.exp(part) / np.exp(part).sum(axis=1, keepdims=True)
        inverse = inverse - np.log(shares[np.arange(len(right)), right])
    return forward, inverse


@settings(max_examples=20)
@given(seed=st.integers(0, 2**16), loudness=st.floats(0.1, 3.0))
def test_errors_and_rewards_are_those_of_the_formulas(seed: int, loudness: float) -> None:
    rng = np.random.default_rng(seed)
    layers = curious().reward_signals["curiosity"]
    chosen = curious(network_settings=replace(layers.network_settings, num_layers=2))  # type: ignore[attr-defined]
    shape = NetworkShape.of(HYBRID, chosen)
    flat = initial_weights(shape, str(seed)) + rng.normal(0, 0.1, shape.full_size).astype(np.float32)
    flat *= np.float32(loudness)
    before, after = rng.normal(0, 1, (2, 7, 5))
    continuous, discrete = rng.normal(0, 3, (7, 2)), np.stack([rng.integers(0, 3, 7), rng.integers(0, 2, 7)], axis=1)
    weight = np.array([1, 1, 0, 1, 0, 1, 1.0])
    forward, inverse = expected_errors(as_double(named_weights(shape, flat)), (before, after), (continuous, discrete))

    model = CuriosityModel(shape.signals[1], shape)  # type: ignore[arg-type]  # the second is curiosity
    weights = {name: tf.constant(each) for name, each in named_weights(shape, flat).items()}
    code, next_code = (model.encode(weights, tf.constant(each.astype(np.float32)), ()) for each in (before, after))
    transitions = Transitions(
        code,
        next_code,
        tf.constant(continuous.astype(np.float32)),
        tf.constant(discrete.astype(np.int32)),
        tf.constant(weight.astype(np.float32)),
    )
    rewards = np.asarray(model.rewards(weights, transitions))
    np.testing.assert_allclose(rewards, np.clip(forward, 0, 1) * weight, rtol=1e-3, atol=1e-5)
    total, parts = model.losses(weights, transitions)
    means = [float((each * weight).sum() / weight.sum()) for each in (forward, inverse)]
    np.testing.assert_allclose([float(each) for each in parts], means, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(float(total), 10 * (0.2 * means[0] + 0.8 * means[1]), rtol=1e-3, atol=1e-4)


def test_the_first_update_rewards_nothing_and_later_ones_at_most_the_strength() -> None:
    learner = lived(curious(strength=0.25, learning_rate=3e-3))
    first = updated(learner).statistics
    assert first["Policy/Curiosity Reward"] == 0.0
    losses = [first]
    for number in range(1, 4):
        more(learner, number=number)
        losses.append(updated(learner).statistics)
        assert 0.0 < losses[-1]["Policy/Curiosity Reward"] <= 0.25
    assert losses[-1]["Losses/Curiosity Inverse Loss"] < losses[0]["Losses/Curiosity Inverse Loss"]
    assert losses[-1]["Losses/Curiosity Forward Loss"] < losses[0]["Losses/Curiosity Forward Loss"]


def test_what_curiosity_learns_does_not_touch_the_policy_and_the_other_way_round() -> None:
    outcomes = []
    for shift in (0.0, 0.05):
        learner = lived(curious())
        behavior = behavior_of(learner)
        flat = behavior.weights.flat.copy()
        flat[behavior.shape.size :] += np.float32(shift)
        behavior.weights = replace(behavior.weights, flat=flat)
        before, after = flat, updated(learner).weights.flat
        size = behavior.shape.size
        assert np.abs(after[size:] - before[size:]).max() > 1e-5
        outcomes.append((after[:size], after[size:]))
    # Rewards were 0 in this first update: the policies are the same to the bit, curiosity is not.
    assert outcomes[0][0].tobytes() == outcomes[1][0].tobytes()
    assert outcomes[0][1].tobytes() != outcomes[1][1].tobytes()


def test_a_curious_policy_starts_as_a_plain_one_with_a_column_of_values_more() -> None:
    shapes = [NetworkShape.of(HYBRID, each) for each in (small_settings(), curious())]
    plain, both = (named_weights(shape, initial_weights(shape, "a key")) for shape in shapes)
    assert {name for name in plain if plain[name].tobytes() != both[name].tobytes()} == {"value.kernel", "value.bias"}
    assert shapes[1].size - shapes[0].size == 8 + 1


def test_each_part_learns_at_its_own_rate() -> None:
    plain = small_settings(
        learning_rate=1e-3, learning_rate_schedule="constant", batch_size=100, buffer_size=100, num_epoch=1
    )
    settings = curious(plain, learning_rate=0.1)
    learner = lived(settings)
    behavior = behavior_of(learner)
    moved = np.abs(updated(learner).weights.flat - behavior_of(lived(settings)).weights.flat)
    # Adam's first step is the rate, whatever the gradient.
    assert moved[: behavior.shape.size].max() == pytest.approx(1e-3, rel=0.01)
    assert moved[behavior.shape.size :].max() == pytest.approx(0.1, rel=0.01)


def prepared(learner: Learner) -> tuple[Behavior, Any, Any, Any]:
    """The behavior, and the batch, capacity and inputs that an update would have now."""
    behavior = behavior_of(learner)
    batch = batch_of(behavior.complete_buffer(), behavior.wires, behavior.settings.time_horizon)
    capacity = behavior._capacity(len(batch))
    inputs = update_inputs(
        batch,
        capacity,
        behavior.settings,
        snapshots=behavior.snapshots,
        snapshots_max=2,
        scheduled=scheduled_values(behavior.settings.hyperparameters, steps=0, max_steps=1000),
        rng=generator("key", "minibatches"),
    )
    return behavior, batch, capacity, inputs


@pytest.mark.slow
def test_the_staged_update_equals_the_whole_one() -> None:
    learner = lived(curious(small_settings(normalize=True)))
    updated(learner)
    more(learner, number=1)
    behavior, batch, capacity, inputs = prepared(learner)
    (whole, statistics), (staged, others) = (
        kind(behavior.shape, capacity).run(behavior.weights, inputs, batch.sights) for kind in (PPOUpdate, StagedUpdate)
    )
    assert statistics["Policy/Curiosity Reward"] > 0.0
    np.testing.assert_allclose(staged.flat, whole.flat, rtol=0, atol=2e-5)
    assert others == pytest.approx(statistics, rel=1e-4, abs=1e-5)


THINGS = ObservationSpec((4, 3), name="things")


@pytest.mark.slow
def test_pictures_and_things_are_encoded_and_every_layer_of_curiosity_learns() -> None:
    brain = small_brain(sights=(EYE, THINGS))
    learner = lived(curious(), brain=brain)
    behavior = behavior_of(learner)
    before = named_weights(behavior.shape, behavior.weights.flat)
    outcome = updated(learner)
    after = named_weights(behavior.shape, outcome.weights.flat)
    own = [name for name in before if name.startswith("curiosity.")]
    assert {"curiosity.sight.0.0.kernel", "curiosity.sight.1.attended.kernel", "curiosity.forward.code.bias"} <= {*own}
    assert not [name for name in own if np.abs(after[name] - before[name]).max() < 1e-7]
    assert outcome.statistics["first_ratio_error"] < 1e-5
    more(learner, brain=brain, number=1)
    assert updated(learner).statistics["Policy/Curiosity Reward"] > 0.0


@pytest.mark.slow
def test_a_recurrent_policy_is_curious_too() -> None:
    memory = MemorySettings(memory_size=8, sequence_length=4)
    chosen = curious(small_settings(memory=memory, buffer_size=64, max_steps=10_000))
    outcomes = []
    for cuts in ((), (1, 7, 8, 15)):
        loop = ReplicaLoop("hallway", chosen, agents=3, envs=1)
        for _ in range(2):
            loop.play(20, cuts=cuts)
            outcomes.append(loop.update())
    assert all(each.statistics["first_ratio_error"] < 1e-5 for each in outcomes)
    assert outcomes[1].statistics["Policy/Curiosity Reward"] > 0.0
    assert outcomes[1].weights.flat.tobytes() == outcomes[3].weights.flat.tobytes()


@settings(max_examples=5, deadline=None)
@given(cuts=st.lists(st.integers(1, 23), unique=True).map(lambda each: tuple(sorted(each))))
def test_the_end_of_a_block_changes_no_bit(cuts: tuple[int, ...]) -> None:
    learners = [lived(curious(), cuts=each) for each in ((), cuts)]
    for learner in learners:
        updated(learner)
        more(learner, number=1, cuts=cuts if learner is learners[1] else ())
    first, second = (updated(each).weights.flat.tobytes() for each in learners)
    assert first == second


def test_summaries_tell_of_every_signal() -> None:
    learner = lived(curious(small_settings(summary_freq=30)))
    learner.take_summaries()
    outcomes = []
    for number in (1, 2):
        outcomes.append(updated(learner).statistics)
        more(learner, number=number)
    values = next(each.values for each in learner.take_summaries() if "Policy/Curiosity Reward" in each.values)
    assert "Policy/Extrinsic Reward" in values
    # Two updates since the summary before: what a step brought on average, times the length of an episode.
    per_step = np.mean([each["Policy/Curiosity Reward"] for each in outcomes])
    assert per_step > 0.0
    assert values["Policy/Curiosity Reward"] == pytest.approx(per_step * values["Environment/Episode Length"])
    values_of = ("Policy/Extrinsic Value Estimate", "Policy/Curiosity Value Estimate")
    for tag in (*values_of, "Losses/Curiosity Forward Loss", "Losses/Curiosity Inverse Loss"):
        assert values[tag] == pytest.approx(np.mean([each[tag] for each in outcomes]))


def test_an_update_of_a_plain_run_has_no_part_of_it() -> None:
    behavior, _, capacity, inputs = prepared(lived(small_settings()))
    assert behavior.shape.full_size == behavior.shape.size
    assert update_for(behavior.shape, capacity).streams.loss_tags == ()
    assert inputs["continues"].shape[1] == 1
