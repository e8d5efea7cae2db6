"""Observations of a changing number of things: their order and what is not there tell nothing."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.brains import Floats, ObservationSpec
from tests.support.experience_streams import small_brain, small_learner, small_settings, walkers
from trainers.learner import PPOLearner
from trainers.networks import NetworkShape, named_weights
from trainers.ppo.policy import ActorCritic

STONES = ObservationSpec((6, 3), (4, 1), 0, "stones")
BRAIN = small_brain(sights=[STONES])


def policy() -> tuple[ActorCritic, dict[str, Any]]:
    shape = NetworkShape.of(BRAIN, small_settings(hidden_units=16))
    flat = np.random.default_rng(0).normal(0, 0.4, shape.size).astype(np.float32)
    actor_critic = ActorCritic(shape)
    return actor_critic, actor_critic.tensors(tf.constant(flat))


def values(things: npt.NDArray[np.floating[Any]], agent: float = 0.5) -> Floats:
    actor_critic, weights = policy()
    vectors = tf.fill([len(things), 5], agent)
    found: Floats = actor_critic.outputs(weights, vectors, [tf.constant(things, tf.float32)]).value.numpy()
    return found


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 6))
def test_the_order_of_things_and_room_for_more_change_nothing(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    things = np.zeros((1, 6, 3))
    things[0, :count] = rng.normal(size=(count, 3))
    shuffled = things[:, rng.permutation(6)]
    exactly = things[:, : max(count, 1)]
    expected = values(things)
    np.testing.assert_allclose(values(shuffled), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(values(exactly), expected, rtol=0, atol=1e-5)


def test_things_their_number_and_who_sees_them_matter() -> None:
    one, other = np.zeros((1, 6, 3)), np.zeros((1, 6, 3))
    one[0, 0], other[0, 0] = (1.0, 0.0, 0.5), (0.0, 1.0, 0.5)
    both = one.copy()
    both[0, 1] = other[0, 0]
    found = [float(values(each)[0, 0]) for each in (np.zeros((1, 6, 3)), one, other, both)]
    found.append(float(values(one, agent=-0.5)[0, 0]))
    assert len({round(each, 4) for each in found}) == 5


def test_nothing_there_is_the_same_as_no_buffer_in_the_features() -> None:
    shape = NetworkShape.of(BRAIN, small_settings(hidden_units=16))
    weights = named_weights(shape, np.random.default_rng(0).normal(0, 0.4, shape.size).astype(np.float32))
    hidden = np.full(5, 0.5) @ weights["critic.0.kernel"][:5] + weights["critic.0.bias"]
    expected = hidden / (1 + np.exp(-hidden)) @ weights["value.kernel"] + weights["value.bias"]
    np.testing.assert_allclose(values(np.zeros((1, 6, 3)))[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vectors", [(), (3, 2)])
def test_a_brain_that_sees_things_learns_with_every_layer(vectors: tuple[int, ...]) -> None:
    brain = small_brain(observations=vectors, sights=[STONES])
    learner = small_learner(brains=[brain])
    assert isinstance(learner, PPOLearner)
    walkers(learner, brain)
    behavior = learner._behaviors["Walker"]
    before = named_weights(behavior.shape, behavior.weights.flat)
    assert learner.finish_update(learner.begin_update("Walker")()).version == 1
    after = named_weights(behavior.shape, behavior.weights.flat)
    # A bias of the keys moves all scores of a query alike, which shares do not notice.
    assert [name for name in before if np.abs(after[name] - before[name]).max() < 1e-6 and "key.bias" not in name] == []
    assert ("actor.sight.0.agent.kernel" in before) == bool(vectors)
