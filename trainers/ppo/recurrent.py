"""A whole PPO update as one compiled function, for networks with memory: rows in lanes instead of rows.

A lane holds training sequences one after the other; where one starts, the memory is set to what the agent remembered
when it acted. So the short sequences of short episodes need little padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainers.ppo.descent import recurrence_of
from trainers.ppo.update import PPOUpdate

Tensor = Any  # TensorFlow ships no usable types.


class RecurrentUpdate(PPOUpdate):
    """The compiled update; minibatches are lanes of `sequence_length` rows."""

    def as_acted(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probability (rows,) and values (rows, streams) of each row under the version that acted.

        Each sequence is followed by the observation that bootstraps its end, so lanes have one row more than in
        learning.
        """
        lanes = inputs["acted_lanes"]
        chunks, size = lanes.shape
        streams = self.policy.shape.streams

        def body(number: Tensor, log_probability: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            found = self._chunk_as_acted(lanes[number], inputs)
            return (
                number + 1,
                tf.tensor_scatter_nd_update(log_probability, [[number]], found[0][None]),
                tf.tensor_scatter_nd_update(value, [[number]], found[1][None]),
            )

        _, log_probability, value = tf.while_loop(
            lambda number, *_: number < inputs["acted_chunks"],
            body,
            (tf.constant(0), tf.zeros([chunks, size]), tf.zeros([chunks, size, streams])),
        )
        places = inputs["acted_places"]
        return (
            tf.gather(tf.reshape(log_probability, [-1]), places),
            tf.gather(tf.reshape(value, [-1, streams]), places),
        )

    def _chunk_as_acted(self, numbers: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The same for some lanes, rows (b,) or -1."""
        rows = tf.maximum(numbers, 0)
        picked = {name: tf.gather(inputs[name], rows) for name in ("observations", "acted", *self.acted_columns)}
        recurrence = recurrence_of(picked, self.capacity.sequence_length + 1)

        def body(version: Tensor, log_probability: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            shift, scale = inputs["acted_shift"][version], inputs["acted_scale"][version]
            vectors = self.policy.normalized(picked["observations"], shift, scale)
            weights = self.policy.tensors(inputs["acted_weights"][version])
            outputs = self.policy.outputs(weights, vectors, (), recurrence)
            acted = (picked["continuous"], picked["discrete"], picked["masks"])
            found, _ = self.policy.log_probability_and_entropy(outputs, *acted)
            is_its = picked["acted"] == version
            return (
                version + 1,
                tf.where(is_its, found, log_probability),
                tf.where(is_its[:, None], outputs.value, value),
            )

        nothing = tf.zeros([rows.shape[0]])
        _, log_probability, value = tf.while_loop(
            lambda version, *_: version < inputs["acted_used"],
            body,
            (tf.constant(0), nothing, tf.zeros([rows.shape[0], self.policy.shape.streams])),
        )
        return log_probability, value
