"""One step of cloning as a compiled function at fixed shapes, for every network; called from a loop here.

What learns are the weights that actions come from. The others have gradients of 0, so an Adam state of its own, in
which they are 0 too, leaves them as they are to the bit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainers.bc.minibatches import sequence_starts
from trainers.bc.samples import Samples
from trainers.optimizer_state import Weights
from trainers.ppo.descent import StateVariables, adam_step, recurrence_of
from trainers.ppo.policy import MASKED_LOGIT, ActorCritic, PolicyOutputs

if TYPE_CHECKING:
    from trainers.batches import Capacity
    from trainers.networks import NetworkShape

Tensor = Any  # TensorFlow ships no usable types.
Numbers = npt.NDArray[np.int32]
Array = npt.NDArray[np.generic]

LOG_STD_MIN = -3.0
"""Below it no deviation is learned: a perfect copy would make it ever smaller."""


@lru_cache(maxsize=32)
def cloning_for(shape: NetworkShape, capacity: Capacity, *, learns_deviation: bool) -> CloningUpdate:
    """The update for these sizes, compiled when it first runs; the same object for the same sizes."""
    return CloningUpdate(shape, capacity, learns_deviation=learns_deviation)


class CloningUpdate:
    """The compiled step for one network shape and one size of minibatches; nothing is kept between runs.

    learns_deviation: the deviation of continuous actions learns too.
    """

    def __init__(self, shape: NetworkShape, capacity: Capacity, *, learns_deviation: bool) -> None:
        self.policy = ActorCritic(shape)
        self.capacity = capacity
        self._kept = StateVariables(shape.size)
        self._learns_deviation = learns_deviation
        self._lock = threading.Lock()

    def run(
        self,
        weights: Weights,
        samples: Samples,
        minibatches: Iterable[Numbers],
        moment: Mapping[str, Array],
    ) -> tuple[Weights, float]:
        """The weights after a step along each minibatch, and the mean of its losses; 0 without any.

        weights: the policy's, with the Adam state of cloning. moment: `learning_rate`, and the normaliser's `shift` and
        `scale`.
        """
        starts = sequence_starts(samples.begins, self.capacity.sequence_length)
        numbers = {name: tf.constant(values) for name, values in moment.items()}
        losses = []
        with self._lock:
            self._kept.load(weights)
            for rows in minibatches:
                picked = {name: tf.constant(values) for name, values in self._picked(samples, starts, rows).items()}
                sights = [tf.constant(_fetched(each, rows)) for each in samples.observations[1:]]
                losses.append(self._step(picked, sights, numbers))
            after = self._kept.weights()
        return after, float(np.mean([float(each) for each in losses])) if losses else 0.0

    def _picked(self, samples: Samples, starts: npt.NDArray[np.bool_], rows: Numbers) -> dict[str, Array]:
        columns = {
            "observations": samples.observations[0],
            "masks": samples.masks,
            "continuous": samples.continuous,
            "discrete": samples.discrete,
        }
        picked: dict[str, Array] = {name: column[np.maximum(rows, 0)] for name, column in columns.items()}
        picked["weight"] = (rows >= 0).astype(np.float32)
        if self.policy.shape.memory_size:
            picked["memories"] = np.zeros((len(rows), self.policy.shape.memory_width), np.float32)
            picked["starts"] = starts[np.maximum(rows, 0)].astype(np.float32)
        return picked

    @tf.function(jit_compile=True, autograph=False)
    def _step(self, rows: dict[str, Tensor], sights: Sequence[Tensor], moment: dict[str, Tensor]) -> Tensor:
        policy, state = self.policy, self._kept.state()
        named = policy.tensors(state[0])
        vectors = policy.normalized(rows["observations"], moment["shift"], moment["scale"])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(named)
            recurrence = recurrence_of(rows, self.capacity.sequence_length)
            outputs = policy.outputs(named, vectors, sights, recurrence)
            loss = cloning_loss(policy, outputs, rows)
            total = loss + deviation_loss(outputs, rows) if self._learns_deviation else loss
        gradients = tape.gradient(total, named, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradient = tf.concat([tf.reshape(gradients[name], [-1]) for name, _ in policy.shape.layout], axis=0)
        self._kept.assign(adam_step(state, gradient, moment["learning_rate"]))
        return loss


def cloning_loss(policy: ActorCritic, outputs: PolicyOutputs, rows: Mapping[str, Tensor]) -> Tensor:
    """The mean over rows of weight 1 of what separates the policy from what was done.

    Half the squared distance of the means from the continuous actions (raw), plus, for each branch, the negated
    log-probability of the index among those that are allowed.
    """
    apart = 0.5 * tf.reduce_sum(tf.square(rows["continuous"] - outputs.mean), axis=1)
    start = 0
    for branch, size in enumerate(policy.shape.branches):
        allowed = rows["masks"][:, start : start + size]
        logits = tf.where(allowed, outputs.logits[:, start : start + size], MASKED_LOGIT)
        chosen = tf.one_hot(rows["discrete"][:, branch], size)
        apart -= tf.reduce_sum(chosen * tf.nn.log_softmax(logits), axis=1)
        start += size
    return _mean(apart, rows["weight"])


def deviation_loss(outputs: PolicyOutputs, rows: Mapping[str, Tensor]) -> Tensor:
    """The negated log-likelihood of the continuous actions as a function of the deviation alone.

    So the deviation becomes what the means leave over, and does not weigh what they learn.
    """
    log_std = tf.maximum(outputs.log_std, LOG_STD_MIN)
    error = tf.square(tf.stop_gradient(rows["continuous"] - outputs.mean))
    return _mean(tf.reduce_sum(log_std + 0.5 * error * tf.exp(-2.0 * log_std), axis=1), rows["weight"])


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return tf.reduce_sum(values * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)


def _fetched(sights: Array, rows: Numbers) -> Array:
    found = sights[np.maximum(rows, 0)]
    found[rows < 0] = 0
    return found
