"""The policy as a tf.Module: from observations to distributions and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from trainers.networks import NetworkShape
from trainers.normalizer import CLIP
from trainers.ppo.layers import channels_last, dense, encode_buffer, encode_image, swish
from trainers.ppo.lstm import Recurrence, lstm

Tensor = Any  # TensorFlow ships no usable types.

MASKED_LOGIT = -1e9
LOG_2PI = float(np.log(2.0 * np.pi))


class PolicyOutputs(NamedTuple):
    """mean (n, c), log_std (c,), logits (n, mask_size), value (n, streams); float32, empty without such actions."""

    mean: Tensor
    log_std: Tensor
    logits: Tensor
    value: Tensor


class ActorCritic:
    """The network of `networks.py`; its weights are one flat tensor, so that they travel as one buffer.

    Behind them lie those of the reward signals.
    """

    def __init__(self, shape: NetworkShape) -> None:
        self.shape = shape

    def tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """The named weights inside a flat vector: the policy's, and the signals' where it holds them."""
        layout = self.shape.layout if flat.shape[0] == self.shape.size else self.shape.full_layout
        parts = tf.split(flat, [int(np.prod(dimensions)) for _, dimensions in layout])
        return {name: tf.reshape(part, dimensions) for (name, dimensions), part in zip(layout, parts, strict=True)}

    def normalized(self, observations: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """Vectors as the network sees them."""
        if not self.shape.normalize:
            return observations
        return tf.clip_by_value((observations - shift) * scale, -CLIP, CLIP)

    def outputs(
        self,
        weights: dict[str, Tensor],
        inputs: Tensor,
        sights: Sequence[Tensor] = (),
        recurrence: Recurrence | None = None,
    ) -> PolicyOutputs:
        """Distributions and values for normalised vectors (n, V) and sights (n, ...) as they are kept.

        recurrence: what a network with memory needs; n is fixed then.
        """
        shape, rows = self.shape, tf.shape(inputs)[0]
        seen = [channels_last(each) if len(each.shape) == 4 else each for each in sights]
        actor = self._recalled("actor", weights, self._trunk("actor", weights, inputs, seen), recurrence)
        critic = actor
        if not shape.shared_critic:
            critic = self._recalled("critic", weights, self._trunk("critic", weights, inputs, seen), recurrence)
        return PolicyOutputs(
            mean=dense("mean", weights, actor) if shape.continuous_size else tf.zeros([rows, 0]),
            log_std=weights["log_std"] if shape.continuous_size else tf.zeros([0]),
            logits=dense("logits", weights, actor) if shape.mask_size else tf.zeros([rows, 0]),
            value=dense("value", weights, critic),
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

    def _trunk(self, name: str, weights: dict[str, Tensor], inputs: Tensor, sights: Sequence[Tensor]) -> Tensor:
        shape = self.shape
        agent = self._features(inputs, (), goals=False)
        encoded = [
            encode_image(f"{name}.sight.{place}", weights, sight, shape.convolutions)
            if len(sight.shape) == 4
            else encode_buffer(f"{name}.sight.{place}", weights, sight, agent)
            for place, sight in enumerate(sights)
        ]
        hidden = self._features(inputs, encoded, goals=False)
        for layer in range(shape.num_layers):
            linear = dense(f"{name}.{layer}", weights, hidden)
            if shape.goals and layer == shape.num_layers - 1:
                goal = swish(dense(f"{name}.goal", weights, self._features(inputs, encoded, goals=True)))
                linear += _generated(name, weights, hidden, goal)
            hidden = swish(linear)
        return hidden

    def _recalled(self, name: str, weights: dict[str, Tensor], hidden: Tensor, recurrence: Recurrence | None) -> Tensor:
        """What the memory makes of the last hidden layer; the layer itself without a memory."""
        size = self.shape.memory_size
        if not size:
            return hidden
        assert recurrence is not None
        first = size if name == "critic" else 0
        own = recurrence._replace(memories=recurrence.memories[:, first : first + size])
        return self._remembering(f"{name}.memory", weights, hidden, own)

    def _remembering(self, name: str, weights: dict[str, Tensor], hidden: Tensor, recurrence: Recurrence) -> Tensor:
        """(n, cells): what one memory gives out; name: of its layer. recurrence: with what it remembers alone."""
        return lstm(name, weights, hidden, recurrence)

    def _features(self, inputs: Tensor, encoded: Sequence[Tensor], *, goals: bool) -> Tensor:
        """The vectors and encoded sights that are goals, or all others, side by side."""
        columns = tf.constant(self.shape.columns(goals=goals), tf.int32)
        vectors = tf.gather(inputs, columns, axis=1) if self.shape.goals else inputs
        if not encoded:
            return vectors
        return tf.concat([vectors, *(encoded[place] for place in self.shape.sight_places(goals=goals))], axis=1)


def _generated(name: str, weights: dict[str, Tensor], hidden: Tensor, goal: Tensor) -> Tensor:
    """What the weights that a goal (n, e) generates add to a layer of hidden (n, w): sum_k e_k * (x K_k + b_k)."""
    rows, (units, width) = tf.shape(hidden)[0], (goal.shape[1], hidden.shape[1])
    products = tf.reshape(hidden[:, :, None] * goal[:, None, :], [rows, width * units])
    return tf.matmul(products, weights[f"{name}.generated.kernel"]) + tf.matmul(
        goal, weights[f"{name}.generated_bias.kernel"]
    )
