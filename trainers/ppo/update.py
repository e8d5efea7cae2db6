"""A whole PPO update as one compiled function at fixed shapes, for networks without convolutions.

Inside: values and log-probabilities of the batch under the policies that acted, advantages, all passes, all
minibatches, Adam. Shapes are those of a `Capacity`; masks say what is really there, and the number of minibatches is
an input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainers.batches import Capacity, SightRows
from trainers.networks import NetworkShape
from trainers.optimizer_state import Weights
from trainers.ppo.advantages import targets
from trainers.ppo.descent import FIXED, Descent, State, UpdateModule, descend
from trainers.ppo.packing import KINDS, Packing

Tensor = Any  # TensorFlow ships no usable types.
Inputs = Mapping[str, npt.NDArray[np.generic]]


class PPOUpdate(UpdateModule):
    """The compiled update."""

    def __init__(self, shape: NetworkShape, capacity: Capacity) -> None:
        super().__init__(shape, capacity)
        self._packing: Packing | None = None
        self._compiled: Callable[..., Sequence[Tensor]] | None = None
        self._traced: object = None
        self._statistics: tuple[str, ...] = ()
        self._last: tuple[Weights, State] | None = None

    def run(self, weights: Weights, inputs: Inputs, sights: SightRows) -> tuple[Weights, dict[str, float]]:
        """The weights after the update, and its statistics: losses, entropy, first ratio's error, the signals' tags.

        sights: there are none; `staged` is for those.
        """
        assert not sights.kept
        with self.lock:
            update = self._compiled or self._compile(inputs)
            assert self._packing is not None
            *state, statistics = update(*self._packing.pack(inputs), *self._state_of(weights))
            flat, first, second, steps = (each.numpy() for each in state)
            after = Weights(flat, first, second, int(steps))
            self._last = after, tuple(state)
            return after, dict(zip(self._statistics, statistics.numpy().tolist(), strict=True))

    def _state_of(self, weights: Weights) -> State:
        """The weights as tensors; those that the last update came to are there already."""
        last, self._last = self._last, None
        if last is not None and last[0] is weights:
            return last[1]
        content = (weights.flat, weights.first, weights.second, np.asarray(weights.steps, np.int32))
        return tuple(tf.constant(each) for each in content)

    def _compile(self, inputs: Inputs) -> Callable[..., Sequence[Tensor]]:
        """The update for arrays like these; later calls find it in `_compiled`.

        Of few arguments, none of them a variable, traced once and called by its flat form, which skips the sorting of
        arguments: entering it costs less than a minibatch.
        """
        self._packing = packing = Packing.of(inputs)
        vectors, specs = len(KINDS), packing.specs()
        size = [self.policy.shape.full_size]
        state = [tf.TensorSpec(size), tf.TensorSpec(size), tf.TensorSpec(size), tf.TensorSpec([], tf.int32)]

        @tf.function(input_signature=[*specs, *state], jit_compile=True, autograph=False)
        def update(*given: Tensor) -> list[Tensor]:
            after, statistics = self._update(packing.unpack(list(given[:vectors])), tuple(given[vectors:]))
            self._statistics = tuple(statistics)
            return [*after, tf.stack(list(statistics.values()))]

        self._traced = traced = update.get_concrete_function()
        self._compiled = traced.inference_fn.call_flat
        return self._compiled

    def _update(self, inputs: dict[str, Tensor], state: State) -> tuple[State, dict[str, Tensor]]:
        fixed = self.prepared(inputs, state)
        zero = tf.constant(0.0)
        count = inputs["minibatches_used"]

        def body(number: Tensor, state: tuple[Tensor, ...], sums: tuple[Tensor, ...]) -> tuple[Any, ...]:
            state, (parts, ratio_error, losses) = self.minibatch_step(number, state, inputs, fixed)
            first = tf.where(number == 0, ratio_error, sums[0])
            added = (parts.policy, parts.value, parts.entropy, *losses)
            return number + 1, state, (first, *(each + more for each, more in zip(sums[1:], added, strict=True)))

        _, state, sums = tf.while_loop(
            lambda number, *_: number < count,
            body,
            (tf.constant(0), state, (zero,) * (4 + len(self.streams.loss_tags))),
        )
        share = 1.0 / tf.maximum(tf.cast(count, tf.float32), 1.0)
        return state, {
            "policy_loss": sums[1] * share,
            "value_loss": sums[2] * share,
            "entropy": sums[3] * share,
            "first_ratio_error": sums[0],
            **{tag: total * share for tag, total in zip(self.streams.loss_tags, sums[4:], strict=True)},
            **self.streams.statistics(fixed),
        }

    def prepared(self, inputs: Mapping[str, Tensor], state: State) -> dict[str, Tensor]:
        """What stays the same through all passes: old log-probabilities and values, advantages, targets, vectors."""
        old_log_probability, old_value = self.as_acted(inputs)
        vectors = self.policy.normalized(inputs["observations"], inputs["shift"], inputs["scale"])
        weights = self.policy.tensors(state[0])
        inputs = {**inputs, "is_trained": tf.cast(state[3] > 0, tf.float32)}
        rewards = self.streams.rewards(weights, self.streams.codes(weights, vectors, ()), inputs)
        return {"vectors": vectors, **targets(inputs, old_log_probability, old_value, rewards)}

    def as_acted(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
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
        state: State,
        inputs: Mapping[str, Tensor],
        fixed: Mapping[str, Tensor],
    ) -> tuple[State, Descent]:
        """The state after minibatch `number`, and what it told."""
        numbers = inputs["minibatches"][number]
        rows = tf.maximum(numbers, 0)
        picked = {name: tf.gather(fixed[name], rows) for name in ("vectors", *FIXED)}
        picked |= {name: tf.gather(inputs[name], rows) for name in self.columns}
        picked["weight"] = tf.cast(numbers >= 0, tf.float32)
        if self.policy.shape.sees_next:
            picked["next_vectors"] = tf.gather(fixed["vectors"], tf.gather(inputs["next_rows"], rows))
        return descend(self, state, picked, sights=(), numbers=inputs)
