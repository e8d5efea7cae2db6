"""The policy as a tf.Module: from observations to distributions and values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from trainers.networks import NetworkShape
from trainers.normalizer import CLIP

Tensor = Any  # TensorFlow ships no usable types.

MASKED_LOGIT = -1e9
LOG_2PI = float(np.log(2.0 * np.pi))


class PolicyOutputs(NamedTuple):
    """mean (n, c), log_std (c,), logits (n, mask_size), value (n, streams); float32, empty without such actions."""

    mean: Tensor
    log_std: Tensor
    logits: Tensor
    value: Tensor


class ActorCritic(tf.Module):
    """The network of `networks.py`; its weights are one flat variable, so that they travel as one buffer."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__(name="actor_critic")
        self.shape = shape
        self.flat = tf.Variable(tf.zeros([shape.size]), name="weights")

    def tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """The named weights inside a flat vector."""
        sizes = [int(np.prod(dimensions)) for _, dimensions in self.shape.layout]
        parts = tf.split(flat, sizes)
        return {
            name: tf.reshape(part, dimensions)
            for (name, dimensions), part in zip(self.shape.layout, parts, strict=True)
        }

    def normalized(self, observations: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """Observations as the network sees them."""
        if not self.shape.normalize:
            return observations
        return tf.clip_by_value((observations - shift) * scale, -CLIP, CLIP)

    def outputs(self, weights: dict[str, Tensor], inputs: Tensor) -> PolicyOutputs:
        """Distributions and values for normalised observations (n, D)."""
        shape, rows = self.shape, tf.shape(inputs)[0]
        actor = self._trunk("actor", weights, inputs)
        critic = actor if shape.shared_critic else self._trunk("critic", weights, inputs)
        return PolicyOutputs(
            mean=_dense("mean", weights, actor) if shape.continuous_size else tf.zeros([rows, 0]),
            log_std=weights["log_std"] if shape.continuous_size else tf.zeros([0]),
            logits=_dense("logits", weights, actor) if shape.mask_size else tf.zeros([rows, 0]),
            value=_dense("value", weights, critic),
        )

    def log_probability_and_entropy(
        self,
        outputs: PolicyOutputs,
        continuous: Tensor,
        discrete: Tensor,
        masks: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """(n,) twice: the log-probability of each row's whole action, and the entropy of its whole distribution.

        continuous: raw samples; discrete: int32 indices; masks: bool, True = allowed. Both are sums over action
        dimensions and branches, entropy over the allowed actions alone.
        """
        log_probability, entropy = tf.zeros_like(outputs.value[:, 0]), tf.zeros_like(outputs.value[:, 0])
        if self.shape.continuous_size:
            deviation = (continuous - outputs.mean) * tf.exp(-outputs.log_std)
            log_probability += tf.reduce_sum(-0.5 * tf.square(deviation) - outputs.log_std - 0.5 * LOG_2PI, axis=1)
            entropy += tf.reduce_sum(outputs.log_std + 0.5 * (1.0 + LOG_2PI))
        start = 0
        for branch, size in enumerate(self.shape.branches):
            allowed = masks[:, start : start + size]
            logits = tf.where(allowed, outputs.logits[:, start : start + size], MASKED_LOGIT)
            log_probabilities = tf.nn.log_softmax(logits)
            chosen = tf.one_hot(discrete[:, branch], size)
            log_probability += tf.reduce_sum(chosen * log_probabilities, axis=1)
            # The product is 0 * MASKED_LOGIT for a forbidden action: exactly 0, and so is its gradient.
            entropy -= tf.reduce_sum(tf.where(allowed, tf.exp(log_probabilities) * log_probabilities, 0.0), axis=1)
            start += size
        return log_probability, entropy

    def _trunk(self, name: str, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        hidden = inputs
        for layer in range(self.shape.num_layers):
            hidden = _dense(f"{name}.{layer}", weights, hidden)
            hidden = hidden * tf.sigmoid(hidden)
        return hidden


def _dense(name: str, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    return tf.matmul(inputs, weights[f"{name}.kernel"]) + weights[f"{name}.bias"]
