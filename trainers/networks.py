"""The shape of a policy's network, the layout of its weights in one flat vector, and their initial values.

The network: observations side by side, normalised or not; `num_layers` hidden layers with x * sigmoid(x); one linear
head for the means of continuous actions, one for the logits of all branches, one for the values. Without a shared
critic the values have hidden layers of their own. The logarithm of the standard deviation is a weight per action, the
same in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runtime.experience.brains import BrainParameters, Floats
from runtime.learner import BehaviorSettings
from trainers.randomness import generator

POLICY_HEAD_GAIN = 0.01
"""Small, so that the first policy is close to uniform (or to mean 0) in every state."""
VALUE_HEAD_GAIN = 0.1
"""Small, so that the first values are close to 0: the clipped loss moves a value by epsilon per update only."""


@dataclass(frozen=True)
class NetworkShape:
    """All that fixes the layout of the weights; equal shapes may share a compiled update.

    observation_sizes: floats of each observation. branches: size of each discrete branch. streams: number of values.
    """

    observation_sizes: tuple[int, ...]
    continuous_size: int
    branches: tuple[int, ...]
    streams: int
    hidden_units: int
    num_layers: int
    shared_critic: bool
    normalize: bool

    @staticmethod
    def of(brain: BrainParameters, settings: BehaviorSettings) -> NetworkShape:
        """The network of `brain` under `settings`."""
        return NetworkShape(
            observation_sizes=tuple(int(np.prod(each.shape)) for each in brain.observation_specs),
            continuous_size=brain.action_spec.continuous_size,
            branches=tuple(brain.action_spec.discrete_branches),
            streams=len(settings.reward_signals),
            hidden_units=settings.network_settings.hidden_units,
            num_layers=settings.network_settings.num_layers,
            shared_critic=settings.hyperparameters.shared_critic,
            normalize=settings.network_settings.normalize,
        )

    @property
    def observation_size(self) -> int:
        """Floats of all observations together."""
        return sum(self.observation_sizes)

    @property
    def mask_size(self) -> int:
        """Sum of the branch sizes."""
        return sum(self.branches)

    @cached_property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of every weight, in the order of the flat vector."""
        width = self.hidden_units if self.num_layers else self.observation_size
        entries = self._trunk("actor")
        if self.continuous_size:
            entries += _dense("mean", width, self.continuous_size)
            entries.append(("log_std", (self.continuous_size,)))
        if self.mask_size:
            entries += _dense("logits", width, self.mask_size)
        if not self.shared_critic:
            entries += self._trunk("critic")
        return (*entries, *_dense("value", width, self.streams))

    @cached_property
    def size(self) -> int:
        """Number of weights."""
        return sum(int(np.prod(each)) for _, each in self.layout)

    def _trunk(self, name: str) -> list[tuple[str, tuple[int, ...]]]:
        entries: list[tuple[str, tuple[int, ...]]] = []
        width = self.observation_size
        for layer in range(self.num_layers):
            entries += _dense(f"{name}.{layer}", width, self.hidden_units)
            width = self.hidden_units
        return entries


def _dense(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"{name}.kernel", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def initial_weights(shape: NetworkShape, key: str) -> Floats:
    """float32 (size,): the first weights, a function of the shape and the behavior's key alone.

    Kernels are normal with variance gain² / inputs (variance scaling), biases and log_std are 0.
    """
    rng = generator(key, "weights")
    gains = {"mean.kernel": POLICY_HEAD_GAIN, "logits.kernel": POLICY_HEAD_GAIN, "value.kernel": VALUE_HEAD_GAIN}
    parts = []
    for name, dimensions in shape.layout:
        if name.endswith(".kernel"):
            deviation = gains.get(name, 1.0) / np.sqrt(dimensions[0])
            parts.append(rng.normal(0.0, deviation, dimensions).astype(np.float32).ravel())
        else:
            parts.append(np.zeros(dimensions, np.float32))
    return np.concatenate(parts)


def named_weights(shape: NetworkShape, flat: Floats) -> Mapping[str, Floats]:
    """Views into the flat vector, by name."""
    views, start = {}, 0
    for name, dimensions in shape.layout:
        end = start + int(np.prod(dimensions))
        views[name] = flat[start:end].reshape(dimensions)
        start = end
    return views
