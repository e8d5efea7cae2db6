"""One step down the gradient of one minibatch: what the whole update and the staged one have in common."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from trainers.batches import Capacity
from trainers.layouts import layout_size
from trainers.networks import NetworkShape
from trainers.optimizer_state import Weights
from trainers.ppo.loss import LossParts, ppo_loss
from trainers.ppo.lstm import Recurrence
from trainers.ppo.policy import ActorCritic
from trainers.reward_signals.streams import RewardStreams

Tensor = Any  # TensorFlow ships no usable types.
State = tuple[Tensor, ...]
"""Weights, Adam's first and second moment, and its number of steps."""

FIXED = ("old_log_probability", "old_value", "advantage", "target")
ACTED = ("continuous", "discrete", "masks")
REMEMBERED = ("memories", "starts")


BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


def adam_step(state: State, gradient: Tensor, rate: Tensor) -> State:
    """The state after one step of Adam (Kingma and Ba 2015, algorithm 1); rate: one for all weights, or for each."""
    flat, first, second, steps = state
    steps += 1
    t = tf.cast(steps, tf.float32)
    first = BETA_1 * first + (1.0 - BETA_1) * gradient
    second = BETA_2 * second + (1.0 - BETA_2) * tf.square(gradient)
    corrected = rate * tf.sqrt(1.0 - tf.pow(BETA_2, t)) / (1.0 - tf.pow(BETA_1, t))
    return flat - corrected * first / (tf.sqrt(second) + EPSILON), first, second, steps


class StateVariables(tf.Module):
    """A state that is kept between compiled calls, for updates that are many of them."""

    def __init__(self, size: int) -> None:
        super().__init__(name="state")
        self.flat = tf.Variable(tf.zeros([size]), name="weights")
        self.first = tf.Variable(tf.zeros([size]), name="first_moment")
        self.second = tf.Variable(tf.zeros([size]), name="second_moment")
        self.steps = tf.Variable(0, dtype=tf.int32, name="steps")
        self._held: Weights | None = None

    def load(self, weights: Weights) -> None:
        """Starts from `weights`; those that the last update came to are there already."""
        held, self._held = self._held, None  # until an update has come to its end, nobody knows what is there
        if weights is held:
            return
        content = (weights.flat, weights.first, weights.second, weights.steps)
        for variable, values in zip(self._all(), content, strict=True):
            variable.assign(values)

    def state(self) -> State:
        """The state as tensors."""
        return tuple(each.value() for each in self._all())

    def assign(self, state: State) -> None:
        """Keeps `state`."""
        for variable, content in zip(self._all(), state, strict=True):
            variable.assign(content)

    def weights(self) -> Weights:
        """The state as arrays."""
        flat, first, second, steps = (each.numpy() for each in self._all())
        self._held = Weights(flat, first, second, int(steps))
        return self._held

    def _all(self) -> tuple[tf.Variable, ...]:
        return self.flat, self.first, self.second, self.steps


class UpdateModule:
    """Policy and reward signals for one network shape and one capacity; an update is a subclass.

    Behaviors of equal shape share it: an update starts from what it is given. `lock` is for one at a time.
    """

    def __init__(self, shape: NetworkShape, capacity: Capacity) -> None:
        self.policy = ActorCritic(shape)
        self.streams = RewardStreams(shape)
        self.capacity = capacity
        self.lock = threading.Lock()
        self.acted_columns = (*ACTED, *REMEMBERED) if shape.memory_size else ACTED
        self.columns = (*self.acted_columns, "follows") if shape.sees_next else self.acted_columns


class Descent(NamedTuple):
    """What one minibatch told. ratio_error: the largest |ratio - 1|. signals: losses, by `RewardStreams.loss_tags`."""

    parts: LossParts
    ratio_error: Tensor
    signals: tuple[Tensor, ...]


def descend(
    module: UpdateModule,
    state: State,
    rows: Mapping[str, Tensor],
    *,
    sights: Sequence[Tensor],
    numbers: Mapping[str, Tensor],
) -> tuple[State, Descent]:
    """The state after one minibatch of b rows, and what it told.

    rows: `weight` (b,), 0 where there is no row, `vectors` (b, V), normalised, and the columns FIXED and ACTED; with a
    memory REMEMBERED too, and the rows are lanes; where a signal sees what follows, `next_vectors` and `follows`.
    sights: of the same rows, and then those of what follows. numbers: `epsilon`, `beta`, `learning_rate` and
    `signal_rates` of the moment.
    """
    policy = module.policy
    named = policy.tensors(state[0])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(named)
        recurrence = recurrence_of(rows, module.capacity.sequence_length)
        own = [each[: rows["vectors"].shape[0]] for each in sights] if policy.shape.sees_next else sights
        outputs = policy.outputs(named, rows["vectors"], own, recurrence)
        log_probability, entropy = policy.log_probability_and_entropy(outputs, *(rows[name] for name in ACTED))
        parts = ppo_loss(
            log_probability=log_probability,
            value=outputs.value,
            entropy=entropy,
            weight=rows["weight"],
            epsilon=numbers["epsilon"],
            beta=numbers["beta"],
            **{name: rows[name] for name in FIXED},
        )
        total, losses = parts.total, ()
        if module.streams.loss_tags:
            # No weight is in both: one gradient serves them all.
            learned, losses = module.streams.losses(named, rows, sights)
            total += learned
    gradients = tape.gradient(total, named, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    gradient = tf.concat([tf.reshape(gradients[name], [-1]) for name, _ in policy.shape.full_layout], axis=0)
    ratio_error = tf.reduce_max(tf.abs(tf.exp(log_probability - rows["old_log_probability"]) - 1.0) * rows["weight"])
    return adam_step(state, gradient, rates(policy.shape, numbers)), Descent(parts, ratio_error, losses)


def rates(shape: NetworkShape, numbers: Mapping[str, Tensor]) -> Tensor:
    """The learning rate: a scalar, or (full_size,) where signals have weights, and rates, of their own."""
    if shape.full_size == shape.size:
        return numbers["learning_rate"]
    sizes = [layout_size(each.layout(shape)) for each in shape.signals]
    own = [tf.fill([size], numbers["signal_rates"][place]) for place, size in enumerate(sizes)]
    return tf.concat([tf.fill([shape.size], numbers["learning_rate"]), *own], axis=0)


def recurrence_of(rows: Mapping[str, Tensor], steps: int) -> Recurrence | None:
    """What a network with memory needs of `rows`, lanes of `steps`; None for one without.

    Where their `weight` says which rows there are, no lane is looked at beyond the longest.
    """
    if "memories" not in rows:
        return None
    used = tf.constant(steps)
    if "weight" in rows:
        is_used = tf.reduce_max(tf.reshape(rows["weight"], [-1, steps]), axis=0) > 0.0
        used = tf.reduce_max(tf.where(is_used, tf.range(1, steps + 1), 0))
    return Recurrence(rows["memories"], rows["starts"], steps, used)
