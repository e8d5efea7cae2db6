"""A PPO update in stages, for networks with convolutions: small compiled functions, called from a loop here.

Inside a compiled loop XLA's convolutions on a CPU take an order of magnitude longer than by themselves, and all images
would have to be tensors at once. So each minibatch is a call of its own, and its sights are fetched for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainers.batches import Capacity, SightRows
from trainers.networks import NetworkShape
from trainers.optimizer_state import Weights
from trainers.ppo.advantages import TARGET_INPUTS, targets
from trainers.ppo.descent import ACTED, FIXED, StateVariables, UpdateModule, descend, recurrence_of

Tensor = Any  # TensorFlow ships no usable types.
Array = npt.NDArray[np.generic]
Inputs = Mapping[str, Array]

MOMENT = ("epsilon", "beta", "learning_rate", "signal_rates", "shift", "scale")
REWARDED = ("rewards", "strengths")
SURPRISED = ("continuous", "discrete", "next_rows", "follows")
"""What rewards depend on: always, and with signals that see what follows."""


class StagedUpdate(UpdateModule):
    """The stages, compiled one by one.

    A batch without rows goes through each of them once, and changes nothing: a run on nothing compiles what the first
    update runs.
    """

    def __init__(self, shape: NetworkShape, capacity: Capacity) -> None:
        super().__init__(shape, capacity)
        self._kept = StateVariables(shape.full_size)

    def run(self, weights: Weights, inputs: Inputs, sights: SightRows) -> tuple[Weights, dict[str, float]]:
        """The weights after the update, and its statistics: losses, entropy, first ratio's error, the signals' tags."""
        with self.lock:
            self._kept.load(weights)
            names = (*TARGET_INPUTS, *REWARDED, *(SURPRISED if self.policy.shape.sees_next else ()))
            needed = _tensors({name: inputs[name] for name in dict.fromkeys(names)})
            codes = self._codes(inputs, sights) if self.streams.loss_tags else {}
            found = self._targets(needed, *self._as_acted(inputs, sights), codes)
            fixed = {name: tensor.numpy() for name, tensor in found.items()}
            used = int(inputs["minibatches_used"])
            losses = [
                [float(each) for each in self._step(*self._minibatch(rows, inputs, fixed, sights))]
                for rows in inputs["minibatches"][: max(used, 1)]
            ]
            after = self._kept.weights() if used else weights
        names = ("first_ratio_error", "policy_loss", "value_loss", "entropy", *self.streams.loss_tags)
        means = dict(zip(names, np.mean(losses, axis=0), strict=True))
        statistics = {**means, **self.streams.statistics(fixed), "first_ratio_error": losses[0][0]}
        return after, {name: float(value) for name, value in statistics.items()}

    def _minibatch(
        self,
        numbers: npt.NDArray[np.int32],
        inputs: Inputs,
        fixed: Inputs,
        sights: SightRows,
    ) -> tuple[dict[str, Tensor], Sequence[Tensor], dict[str, Tensor]]:
        rows = np.maximum(numbers, 0)
        picked = {name: fixed[name][rows] for name in FIXED} | {name: inputs[name][rows] for name in self.columns}
        picked["observations"] = inputs["observations"][rows]
        picked["weight"] = (numbers >= 0).astype(np.float32)
        if self.policy.shape.sees_next:
            following = inputs["next_rows"][rows]
            picked["next_observations"] = inputs["observations"][following]
            numbers = np.concatenate([numbers, np.where(numbers >= 0, following, -1)])
        moment = {name: inputs[name] for name in MOMENT}
        return _tensors(picked), [tf.constant(each) for each in sights.fetch(numbers)], _tensors(moment)

    def _codes(self, inputs: Inputs, sights: SightRows) -> dict[str, Tensor]:
        """What the encoders of the signals make of each row, (rows, w) each."""
        scaling = _tensors({name: inputs[name] for name in ("shift", "scale")})
        size, codes = self.capacity.batch_size, dict[str, Array]()
        for start in range(0, max(sights.count, 1), size):
            numbers = np.arange(start, start + size)
            numbers[numbers >= sights.count] = -1
            vectors = tf.constant(inputs["observations"][np.maximum(numbers, 0)])
            found = self._encode(vectors, [tf.constant(each) for each in sights.fetch(numbers)], scaling)
            is_row = numbers >= 0
            for name, code in found.items():
                whole = codes.setdefault(name, np.zeros((self.capacity.rows, code.shape[1]), np.float32))
                whole[numbers[is_row]] = code.numpy()[is_row]
        return _tensors(codes)

    def _as_acted(self, inputs: Inputs, sights: SightRows) -> tuple[Tensor, Tensor]:
        """Log-probability (rows,) and values (rows, streams) of each row under the version that acted."""
        log_probability = np.zeros(self.capacity.rows, np.float32)
        value = np.zeros((self.capacity.rows, self.policy.shape.streams), np.float32)
        for version, numbers in self._acted_chunks(inputs, sights.count):
            picked = {name: inputs[name][np.maximum(numbers, 0)] for name in ("observations", *self.acted_columns)}
            acted = {name: inputs[f"acted_{name}"][version] for name in ("weights", "shift", "scale")}
            pictures = [tf.constant(each) for each in sights.fetch(numbers)]
            found = self._judge(_tensors(picked), pictures, _tensors(acted))
            is_row = (numbers >= 0) & (inputs["acted"][numbers] == version)
            log_probability[numbers[is_row]] = found[0].numpy()[is_row]
            value[numbers[is_row]] = found[1].numpy()[is_row]
        return tf.constant(log_probability), tf.constant(value)

    def _acted_chunks(self, inputs: Inputs, count: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Number of a policy, and int64 (batch_size,) rows that it acted in, -1 where there is none; or whole lanes."""
        size, versions = self.capacity.batch_size, range(max(int(inputs["acted_used"]), 1))
        if self.policy.shape.memory_size:
            for number in range(max(int(inputs["acted_chunks"]), 1)):
                lanes = inputs["acted_lanes"][number].astype(np.int64)
                for version in versions:
                    yield version, lanes
            return
        for version in versions:
            rows = np.flatnonzero((inputs["acted"] == version) & (np.arange(self.capacity.rows) < count))
            for start in range(0, max(len(rows), 1), size):
                chunk = np.full(size, -1, np.int64)
                part = rows[start : start + size]
                chunk[: len(part)] = part
                yield version, chunk

    @tf.function(jit_compile=True, autograph=False)
    def _judge(
        self,
        rows: dict[str, Tensor],
        sights: Sequence[Tensor],
        acted: dict[str, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values under one policy."""
        vectors = self.policy.normalized(rows["observations"], acted["shift"], acted["scale"])
        recurrence = recurrence_of(rows, self.capacity.sequence_length + 1)
        outputs = self.policy.outputs(self.policy.tensors(acted["weights"]), vectors, sights, recurrence)
        log_probability, _ = self.policy.log_probability_and_entropy(outputs, *(rows[name] for name in ACTED))
        return log_probability, outputs.value

    @tf.function(jit_compile=True, autograph=False)
    def _encode(self, observations: Tensor, sights: Sequence[Tensor], scaling: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors = self.policy.normalized(observations, scaling["shift"], scaling["scale"])
        return dict(self.streams.codes(self.policy.tensors(self._kept.flat), vectors, sights))

    @tf.function(jit_compile=True, autograph=False)
    def _targets(
        self, inputs: dict[str, Tensor], log_probability: Tensor, value: Tensor, codes: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        inputs = {**inputs, "is_trained": tf.cast(self._kept.steps > 0, tf.float32)}
        rewards = self.streams.rewards(self.policy.tensors(self._kept.flat), codes, inputs)
        return targets(inputs, log_probability, value, rewards)

    @tf.function(jit_compile=True, autograph=False)
    def _step(
        self,
        rows: dict[str, Tensor],
        sights: Sequence[Tensor],
        moment: dict[str, Tensor],
    ) -> tuple[Tensor, ...]:
        """Learns from one minibatch; the largest |ratio - 1|, policy loss, value loss, entropy, the signals' losses."""
        seen = {**rows, "vectors": self.policy.normalized(rows["observations"], moment["shift"], moment["scale"])}
        if self.policy.shape.sees_next:
            following = rows["next_observations"]
            seen["next_vectors"] = self.policy.normalized(following, moment["shift"], moment["scale"])
        state, (parts, error, losses) = descend(self, self._kept.state(), seen, sights=sights, numbers=moment)
        self._kept.assign(state)
        return error, parts.policy, parts.value, parts.entropy, *losses


def _tensors(arrays: Inputs) -> dict[str, Tensor]:
    return {name: tf.constant(values) for name, values in arrays.items()}
