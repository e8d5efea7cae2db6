"""Generalised advantage estimation (Schulman et al. 2016, equation 16) over all segments of a batch at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

Tensor = Any  # TensorFlow ships no usable types.

ADVANTAGE_FLOOR = 1e-8
TARGET_INPUTS = ("valid", "next_rows", "continues", "is_linked", "gammas", "lambda")


def targets(
    inputs: Mapping[str, Tensor],
    old_log_probability: Tensor,
    old_value: Tensor,
    rewards: Tensor,
) -> dict[str, Tensor]:
    """What the loss compares with: old log-probabilities and values, targets, advantages with mean 0 and deviation 1.

    inputs: the arrays TARGET_INPUTS of an update, n rows, of which those of `valid` 1 are transitions.
    old_log_probability: (n,). old_value, rewards: (n, streams). Beside these columns, (streams,) each:
    `value_estimates` and `mean_rewards`, means over the transitions.
    """
    valid = inputs["valid"]
    raw = advantages(
        rewards=rewards,
        values=old_value,
        next_rows=inputs["next_rows"],
        continues=inputs["continues"],
        is_linked=inputs["is_linked"],
        gammas=inputs["gammas"],
        lambda_=inputs["lambda"],
    )
    merged = tf.reduce_mean(raw, axis=1)
    total = tf.maximum(tf.reduce_sum(valid), 1.0)
    mean = tf.reduce_sum(merged * valid) / total
    deviation = tf.sqrt(tf.reduce_sum(tf.square(merged - mean) * valid) / total)
    return {
        "old_log_probability": old_log_probability,
        "old_value": old_value,
        "target": raw + old_value,
        "advantage": (merged - mean) / (deviation + ADVANTAGE_FLOOR),
        "value_estimates": tf.reduce_sum(old_value * valid[:, None], axis=0) / total,
        "mean_rewards": tf.reduce_sum(rewards * valid[:, None], axis=0) / total,
    }


def advantages(
    *,
    rewards: Tensor,
    values: Tensor,
    next_rows: Tensor,
    continues: Tensor,
    is_linked: Tensor,
    gammas: Tensor,
    lambda_: Tensor,
) -> Tensor:
    """float32 (n, streams): sum over l of (gamma * lambda)^l * delta_{t+l}, l up to the segment's end.

    delta_t = r_t + gamma * V(next_rows_t) * continues_t - V_t. rewards, values: (n, streams). next_rows: int32 (n,).
    continues: (n, streams), 0 where a stream's return ends with the row. is_linked: (n,), 1 where row t + 1 is the next
    of the segment. gammas: (streams,).
    """
    deltas = rewards + gammas * tf.gather(values, next_rows) * continues - values
    return backward_recurrence(deltas, gammas * lambda_ * is_linked[:, None])


def backward_recurrence(additions: Tensor, factors: Tensor) -> Tensor:
    """x_t = additions_t + factors_t * x_{t+1}, with x = 0 behind the end; both (n, streams).

    By doubling: after k rounds each x holds 2^k terms. Sixteen rounds of whole-array work replace n steps of a loop.
    """
    rows, span = additions.shape[0], 1
    while span < rows:
        padding = [[0, span], [0, 0]]
        additions += factors * tf.pad(additions[span:], padding)
        factors *= tf.pad(factors[span:], padding)
        span *= 2
    return additions
