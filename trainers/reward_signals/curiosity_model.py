"""Encoder, inverse and forward model of curiosity in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainers.encoders import ENCODERS
from trainers.networks import NetworkShape
from trainers.ppo.layers import channels_last, dense, encode_buffer, encode_image, swish
from trainers.reward_signals.curiosity import NAME, Curiosity
from trainers.reward_signals.signal import Transitions

Tensor = Any  # TensorFlow ships no usable types.
Weights = Mapping[str, Tensor]

FORWARD_SHARE = 0.2
"""Of the loss; the rest is the inverse model's."""
LOSS_FACTOR = 10.0
REWARD_MAX = 1.0
ACTION_LIMIT = 3.0
"""Samples beyond it are cut before a player gets them, as thirds of it."""


class CuriosityModel:
    """One signal's functions; the weights are the caller's."""

    loss_tags: tuple[str, ...] = ("Losses/Curiosity Forward Loss", "Losses/Curiosity Inverse Loss")

    def __init__(self, network: Curiosity, shape: NetworkShape) -> None:
        self._network = network
        self._shape = shape

    def encode(self, weights: Weights, vectors: Tensor, sights: Sequence[Tensor]) -> Tensor:
        """(n, hidden units)."""
        parts = [vectors]
        for place, sight in enumerate(sights):
            name = f"{NAME}.sight.{place}"
            if len(sight.shape) == 4:
                encoder = ENCODERS[self._network.encoder]
                parts.append(encode_image(name, weights, channels_last(sight), encoder))
            else:
                parts.append(encode_buffer(name, weights, sight, vectors))
        hidden = tf.concat(parts, axis=1)
        for layer in range(self._network.num_layers):
            hidden = swish(dense(f"{NAME}.{layer}", weights, hidden))
        return hidden

    def rewards(self, weights: Weights, transitions: Transitions) -> Tensor:
        """(n,): what the forward model got wrong, at most REWARD_MAX."""
        return tf.clip_by_value(self._forward_error(weights, transitions), 0.0, REWARD_MAX) * transitions.weight

    def losses(self, weights: Weights, transitions: Transitions) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Both models' errors; equation 7 of Pathak et al. 2017 without the policy, whose loss stands apart."""
        forward = _mean(self._forward_error(weights, transitions), transitions.weight)
        inverse = _mean(self._inverse_error(weights, transitions), transitions.weight)
        total = LOSS_FACTOR * (FORWARD_SHARE * forward + (1.0 - FORWARD_SHARE) * inverse)
        return total, (forward, inverse)

    def _forward_error(self, weights: Weights, transitions: Transitions) -> Tensor:
        """(n,): half the squared distance between the next code and the one foreseen; equation 5."""
        known = tf.concat([transitions.code, self._actions(transitions)], axis=1)
        foreseen = dense(f"{NAME}.forward.code", weights, swish(dense(f"{NAME}.forward", weights, known)))
        return 0.5 * tf.reduce_sum(tf.square(foreseen - transitions.next_code), axis=1)

    def _inverse_error(self, weights: Weights, transitions: Transitions) -> Tensor:
        """(n,): squared distance of continuous actions, and cross entropy of each branch; equation 3."""
        both = tf.concat([transitions.code, transitions.next_code], axis=1)
        found = dense(f"{NAME}.inverse.action", weights, swish(dense(f"{NAME}.inverse", weights, both)))
        start = self._shape.continuous_size
        error = tf.reduce_sum(tf.square(found[:, :start] - _taken(transitions.continuous)), axis=1)
        for branch, size in enumerate(self._shape.branches):
            shares = tf.nn.log_softmax(found[:, start : start + size])
            error -= tf.reduce_sum(tf.one_hot(transitions.discrete[:, branch], size) * shares, axis=1)
            start += size
        return error

    def _actions(self, transitions: Transitions) -> Tensor:
        """(n, c + mask size): continuous actions as the player gets them, and a one-hot of each branch."""
        chosen = [tf.one_hot(transitions.discrete[:, branch], size) for branch, size in enumerate(self._shape.branches)]
        return tf.concat([_taken(transitions.continuous), *chosen], axis=1)


def _taken(samples: Tensor) -> Tensor:
    return tf.clip_by_value(samples, -ACTION_LIMIT, ACTION_LIMIT) / ACTION_LIMIT


def _mean(rows: Tensor, weight: Tensor) -> Tensor:
    return tf.reduce_sum(rows * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)
