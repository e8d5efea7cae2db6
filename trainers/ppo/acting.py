"""The network for one step of acting: distributions, values and, with memory, what is remembered afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainers.ppo.layers import dense
from trainers.ppo.lstm import Recurrence, lstm_step
from trainers.ppo.policy import ActorCritic, PolicyOutputs

Tensor = Any  # TensorFlow ships no usable types.


class ActingNetwork(ActorCritic):
    """The network that learns, run for one moment of n agents.

    It differs in the memory alone: one step of it, whose outcome is kept.
    """

    def act(
        self, weights: Mapping[str, Tensor], inputs: Tensor, sights: Sequence[Tensor], memories: Tensor
    ) -> tuple[PolicyOutputs, Tensor]:
        """Outputs for normalised vectors (n, V) and sights; float32 (n, w), the memory that follows `memories`."""
        self._after: list[Tensor] = []
        recurrence = Recurrence(memories, tf.ones([memories.shape[0]]), steps=1, used=tf.constant(1))
        outputs = self.outputs(dict(weights), inputs, sights, recurrence)
        return outputs, tf.concat(self._after, axis=1) if self._after else memories

    def _remembering(self, name: str, weights: dict[str, Tensor], hidden: Tensor, recurrence: Recurrence) -> Tensor:
        # A memory is what was given out last, beside what was kept.
        given, kept = tf.split(recurrence.memories, 2, axis=1)
        gates = dense(name, weights, hidden) + tf.matmul(given, weights[f"{name}.recurrent.kernel"])
        given, kept = lstm_step(gates, kept)
        self._after += [given, kept]
        return given
