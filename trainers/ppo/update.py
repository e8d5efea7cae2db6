"""A whole PPO update as one compiled function at fixed shapes.

Inside: values and log-probabilities of the batch under the policies that acted, advantages, all passes, all
minibatches, Adam. Shapes are those of a `Capacity`; masks say what is really there, and the number of minibatches is
an input.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainers.batches import Capacity
from trainers.networks import NetworkShape
from trainers.optimizer_state import Weights
from trainers.ppo.advantages import advantages
from trainers.ppo.loss import LossParts, ppo_loss
from trainers.ppo.policy import ActorCritic

Tensor = Any  # TensorFlow ships no usable types.
Inputs = Mapping[str, npt.NDArray[np.generic]]

ADVANTAGE_FLOOR = 1e-8


class Adam(tf.Module):
    """Adam (Kingma and Ba 2015, algorithm 1) on one flat vector; its state is variables like the weights."""

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7

    def __init__(self, size: int) -> None:
        super().__init__(name="adam")
        self.first = tf.Variable(tf.zeros([size]), name="first_moment")
        self.second = tf.Variable(tf.zeros([size]), name="second_moment")
        self.steps = tf.Variable(0, dtype=tf.int32, name="steps")

    def step(self, state: tuple[Tensor, ...], gradient: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        """(weights, first, second, steps) after one step along `gradient`."""
        flat, first, second, steps = state
        steps += 1
        t = tf.cast(steps, tf.float32)
        first = self.BETA_1 * first + (1.0 - self.BETA_1) * gradient
        second = self.BETA_2 * second + (1.0 - self.BETA_2) * tf.square(gradient)
        corrected = rate * tf.sqrt(1.0 - tf.pow(self.BETA_2, t)) / (1.0 - tf.pow(self.BETA_1, t))
        return flat - corrected * first / (tf.sqrt(second) + self.EPSILON), first, second, steps


class PPOUpdate(tf.Module):
    """Policy, optimiser and the compiled update for one network shape and one capacity.

    Behaviors of equal shape share it: `run` loads what it is given and keeps nothing.
    """

    def __init__(self, shape: NetworkShape, capacity: Capacity) -> None:
        super().__init__(name="ppo")
        self.policy = ActorCritic(shape)
        self.adam = Adam(shape.size)
        self.capacity = capacity
        self._lock = threading.Lock()

    def run(self, weights: Weights, inputs: Inputs) -> tuple[Weights, dict[str, float]]:
        """The weights after the update, and its statistics: losses, entropy, value estimate, first ratio's error."""
        with self._lock:
            for variable, content in self._state(weights):
                variable.assign(content)
            results = self._update({name: tf.constant(values) for name, values in inputs.items()})
            after = Weights(
                self.policy.flat.numpy(),
                self.adam.first.numpy(),
                self.adam.second.numpy(),
                int(self.adam.steps.numpy()),
            )
        return after, {name: float(value.numpy()) for name, value in results.items()}

    def _state(self, weights: Weights) -> list[tuple[Any, object]]:
        return [
            (self.policy.flat, weights.flat),
            (self.adam.first, weights.first),
            (self.adam.second, weights.second),
            (self.adam.steps, weights.steps),
        ]

    @tf.function(jit_compile=True, autograph=False)
    def _update(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        fixed = self.prepared(inputs)
        state = (self.policy.flat.value(), self.adam.first.value(), self.adam.second.value(), self.adam.steps.value())
        zero = tf.constant(0.0)
        count = inputs["minibatches_used"]

        def body(number: Tensor, state: tuple[Tensor, ...], sums: tuple[Tensor, ...]) -> tuple[Any, ...]:
            state, parts, ratio_error = self.minibatch_step(number, state, inputs, fixed)
            first = tf.where(number == 0, ratio_error, sums[3])
            return number + 1, state, (sums[0] + parts.policy, sums[1] + parts.value, sums[2] + parts.entropy, first)

        _, state, sums = tf.while_loop(
            lambda number, *_: number < count,
            body,
            (tf.constant(0), state, (zero, zero, zero, zero)),
        )
        for variable, content in zip(
            (self.policy.flat, self.adam.first, self.adam.second, self.adam.steps),
            state,
            strict=True,
        ):
            variable.assign(content)
        share = 1.0 / tf.maximum(tf.cast(count, tf.float32), 1.0)
        return {
            "policy_loss": sums[0] * share,
            "value_loss": sums[1] * share,
            "entropy": sums[2] * share,
            "value_estimate": fixed["value_estimate"],
            "first_ratio_error": sums[3],
        }

    def prepared(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What stays the same through all passes: old log-probabilities and values, advantages, targets, inputs."""
        old_log_probability, old_value = self._as_acted(inputs)
        valid = inputs["valid"]
        raw = advantages(
            rewards=inputs["rewards"][:, None] * inputs["strengths"],
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
            "observations": self.policy.normalized(inputs["observations"], inputs["shift"], inputs["scale"]),
            "old_log_probability": old_log_probability,
            "old_value": old_value,
            "target": raw + old_value,
            "advantage": (merged - mean) / (deviation + ADVANTAGE_FLOOR),
            "value_estimate": tf.reduce_sum(tf.reduce_mean(old_value, axis=1) * valid) / total,
        }

    def _as_acted(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probability (rows,) and values (rows, streams) of each row under the version that acted."""
        rows, streams = self.capacity.rows, self.policy.shape.streams

        def body(number: Tensor, log_probability: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            observations = self.policy.normalized(
                inputs["observations"],
                inputs["acted_shift"][number],
                inputs["acted_scale"][number],
            )
            outputs = self.policy.outputs(self.policy.tensors(inputs["acted_weights"][number]), observations)
            found, _ = self.policy.log_probability_and_entropy(
                outputs,
                inputs["continuous"],
                inputs["discrete"],
                inputs["masks"],
            )
            is_its = inputs["acted"] == number
            return (
                number + 1,
                tf.where(is_its, found, log_probability),
                tf.where(is_its[:, None], outputs.value, value),
            )

        _, log_probability, value = tf.while_loop(
            lambda number, *_: number < inputs["acted_used"],
            body,
            (tf.constant(0), tf.zeros([rows]), tf.zeros([rows, streams])),
        )
        return log_probability, value

    def minibatch_step(
        self,
        number: Tensor,
        state: tuple[Tensor, ...],
        inputs: Mapping[str, Tensor],
        fixed: Mapping[str, Tensor],
    ) -> tuple[tuple[Tensor, ...], LossParts, Tensor]:
        """State, loss and the largest |ratio - 1| of minibatch `number`."""
        numbers = inputs["minibatches"][number]
        weight = tf.cast(numbers >= 0, tf.float32)
        rows = tf.maximum(numbers, 0)

        def pick(tensor: Tensor) -> Tensor:
            return tf.gather(tensor, rows)

        old_log_probability = pick(fixed["old_log_probability"])
        named = self.policy.tensors(state[0])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(named)
            outputs = self.policy.outputs(named, pick(fixed["observations"]))
            log_probability, entropy = self.policy.log_probability_and_entropy(
                outputs,
                pick(inputs["continuous"]),
                pick(inputs["discrete"]),
                pick(inputs["masks"]),
            )
            parts = ppo_loss(
                log_probability=log_probability,
                old_log_probability=old_log_probability,
                advantage=pick(fixed["advantage"]),
                value=outputs.value,
                old_value=pick(fixed["old_value"]),
                target=pick(fixed["target"]),
                entropy=entropy,
                weight=weight,
                epsilon=inputs["epsilon"],
                beta=inputs["beta"],
            )
        gradients = tape.gradient(parts.total, named, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradient = tf.concat([tf.reshape(gradients[name], [-1]) for name, _ in self.policy.shape.layout], axis=0)
        ratio_error = tf.reduce_max(tf.abs(tf.exp(log_probability - old_log_probability) - 1.0) * weight)
        return self.adam.step(state, gradient, inputs["learning_rate"]), parts, ratio_error


@lru_cache(maxsize=32)
def compiled_update(shape: NetworkShape, capacity: Capacity) -> PPOUpdate:
    """The update for these sizes, compiled when it first runs; the same object for the same sizes."""
    return PPOUpdate(shape, capacity)
