"""The loss of PPO: clipped surrogate, clipped value error, entropy bonus."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

Tensor = Any  # TensorFlow ships no usable types.

LOG_RATIO_MAX = 20.0
"""exp of it is far beyond any clipping range; without it one absurd ratio would be infinite and spoil the whole sum."""


class LossParts(NamedTuple):
    """Scalars. policy: negated surrogate; value: half the clipped squared error; entropy: mean; total: minimised."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    total: Tensor


def ppo_loss(
    *,
    log_probability: Tensor,
    old_log_probability: Tensor,
    advantage: Tensor,
    value: Tensor,
    old_value: Tensor,
    target: Tensor,
    entropy: Tensor,
    weight: Tensor,
    epsilon: Tensor,
    beta: Tensor,
) -> LossParts:
    """The loss of one minibatch; means are over rows of weight 1, rows of weight 0 do not exist.

    log_probability, old_log_probability, advantage, entropy, weight: (b,). value, old_value, target: (b, streams).
    Surrogate: equation 7 of Schulman et al. 2017. Value: 0.5 * max of the squared errors of the value and of the value
    kept within epsilon of the old one, as in the authors' implementation; a mean over streams.
    """
    ratio = tf.exp(tf.clip_by_value(log_probability - old_log_probability, -LOG_RATIO_MAX, LOG_RATIO_MAX))
    surrogate = tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 1.0 - epsilon, 1.0 + epsilon) * advantage)
    near = old_value + tf.clip_by_value(value - old_value, -epsilon, epsilon)
    squared = tf.maximum(tf.square(value - target), tf.square(near - target))
    policy = -_mean(surrogate, weight)
    value_error = 0.5 * _mean(tf.reduce_mean(squared, axis=1), weight)
    mean_entropy = _mean(entropy, weight)
    return LossParts(policy, value_error, mean_entropy, policy + value_error - beta * mean_entropy)


def _mean(rows: Tensor, weight: Tensor) -> Tensor:
    return tf.reduce_sum(rows * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)
