"""The PPO loss against numbers worked by hand; log-probabilities and entropies against numpy."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainers.networks import NetworkShape
from trainers.ppo.loss import LossParts, ppo_loss
from trainers.ppo.policy import ActorCritic, PolicyOutputs


def loss(
    *,
    ratio: list[float],
    advantage: list[float],
    value: list[float],
    old_value: list[float],
    target: list[float],
    weight: list[float] | None = None,
    entropy: float = 0.0,
    beta: float = 0.0,
) -> LossParts:
    rows = len(ratio)
    return ppo_loss(
        log_probability=tf.math.log(tf.constant(ratio)),
        old_log_probability=tf.zeros([rows]),
        advantage=tf.constant(advantage),
        value=tf.constant(value)[:, None],
        old_value=tf.constant(old_value)[:, None],
        target=tf.constant(target)[:, None],
        entropy=tf.fill([rows], entropy),
        weight=tf.ones([rows]) if weight is None else tf.constant(weight),
        epsilon=tf.constant(0.2),
        beta=tf.constant(beta),
    )


def test_the_surrogate_is_clipped_where_a_step_would_gain_and_not_where_it_would_lose() -> None:
    # min(1.5*1, 1.2*1) = 1.2; min(0.5*1, 0.8*1) = 0.5; min(1.5*-1, 1.2*-1) = -1.5; min(0.5*-1, 0.8*-1) = -0.8.
    parts = loss(
        ratio=[1.5, 0.5, 1.5, 0.5],
        advantage=[1.0, 1.0, -1.0, -1.0],
        value=[0.0] * 4,
        old_value=[0.0] * 4,
        target=[0.0] * 4,
    )
    assert float(parts.policy) == pytest.approx(-(1.2 + 0.5 - 1.5 - 0.8) / 4, abs=1e-6)


def test_the_value_error_is_the_larger_of_the_free_and_the_clipped_one_halved() -> None:
    # Value 1 from 0 towards 2: free (1-2)^2 = 1, clipped (0.2-2)^2 = 3.24. Value 0.1: free 3.61, clipped the same.
    # Value -1 from 0 towards 2: free 9, clipped (-0.2-2)^2 = 4.84.
    parts = loss(ratio=[1.0] * 3, advantage=[0.0] * 3, value=[1.0, 0.1, -1.0], old_value=[0.0] * 3, target=[2.0] * 3)
    assert float(parts.value) == pytest.approx(0.5 * (3.24 + 3.61 + 9.0) / 3, rel=1e-6)


def test_the_total_is_policy_plus_value_minus_the_entropy_bonus() -> None:
    parts = loss(ratio=[1.1], advantage=[2.0], value=[1.0], old_value=[1.0], target=[0.0], entropy=0.7, beta=0.01)
    assert float(parts.total) == pytest.approx(-2.2 + 0.5 - 0.007, rel=1e-6)


def test_rows_of_weight_zero_do_not_exist() -> None:
    alone = loss(ratio=[1.1], advantage=[1.0], value=[1.0], old_value=[0.0], target=[2.0])
    padded = loss(
        ratio=[1.1, 9.0],
        advantage=[1.0, 50.0],
        value=[1.0, -9.0],
        old_value=[0.0, 3.0],
        target=[2.0, 9.0],
        weight=[1.0, 0.0],
    )
    assert [float(each) for each in padded] == [float(each) for each in alone]


def test_an_absurd_ratio_leaves_the_loss_finite() -> None:
    parts = loss(ratio=[1e30], advantage=[-1.0], value=[0.0], old_value=[0.0], target=[0.0])
    assert np.isfinite(float(parts.total))


POLICY = ActorCritic(
    NetworkShape(
        observations=((2,),),
        continuous_size=2,
        branches=(3, 2),
        streams=1,
        hidden_units=4,
        num_layers=1,
        shared_critic=False,
        normalize=False,
    )
)
floats = st.floats(-4, 4, width=32)


@given(
    mean=st.lists(floats, min_size=2, max_size=2),
    log_std=st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2),
    logits=st.lists(floats, min_size=5, max_size=5),
    sample=st.lists(floats, min_size=2, max_size=2),
    allowed=st.tuples(
        st.lists(st.booleans(), min_size=3, max_size=3).filter(any),
        st.lists(st.booleans(), min_size=2, max_size=2).filter(any),
    ),
)
def test_log_probability_and_entropy_are_those_of_a_masked_hybrid_distribution(
    mean: list[float],
    log_std: list[float],
    logits: list[float],
    sample: list[float],
    allowed: tuple[list[bool], list[bool]],
) -> None:
    choice = [branch.index(True) for branch in allowed]
    outputs = PolicyOutputs(tf.constant([mean]), tf.constant(log_std), tf.constant([logits]), tf.zeros([1, 1]))
    found = POLICY.log_probability_and_entropy(
        outputs,
        tf.constant([sample]),
        tf.constant([choice]),
        tf.constant([[*allowed[0], *allowed[1]]]),
    )
    std = np.exp(np.asarray(log_std))
    z = (np.asarray(sample) - np.asarray(mean)) / std
    log_probability = np.sum(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi))
    entropy = np.sum(np.log(std) + 0.5 * np.log(2 * np.pi * np.e))
    for branch, part in enumerate((logits[:3], logits[3:])):
        kept = np.asarray(part)[allowed[branch]]
        p = np.exp(kept - kept.max()) / np.exp(kept - kept.max()).sum()
        log_probability += np.log(p[0])
        entropy -= np.sum(p * np.log(p))
    assert float(found[0][0]) == pytest.approx(log_probability, rel=1e-4, abs=1e-4)
    assert float(found[1][0]) == pytest.approx(entropy, rel=1e-4, abs=1e-4)
