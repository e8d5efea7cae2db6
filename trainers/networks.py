"""The shape of a policy's network, the layout of its weights in one flat vector, and their initial values.

The network: each image through convolutions and a dense layer, each buffer of things through attention, the vectors
side by side, normalised or not; `num_layers` hidden layers with x * sigmoid(x) on all of these together; one linear
head for the means of continuous actions, one for the logits of all branches, one for the values. Without a shared
critic the values have encoders and hidden layers of their own. The logarithm of the standard deviation is a weight per
action, the same in every state.

A buffer holds up to N things of F numbers each, in no order; a thing of zeros is not there. Each becomes a row of
`hidden_units` numbers, made of it and of the vectors of the agent that sees it. Then it looks at the others: attention
with one head (Vaswani et al. 2017), added to the row. The mean of the rows that are there is what the agent knows.

Goals (`goal_conditioning_type: hyper`) do not stand beside the other observations: they generate weights, as in
hypernetworks (Ha et al. 2017). A dense layer makes e, GOAL_UNITS numbers, of them; the kernel of the last hidden layer
is K0 + sum_k e_k * K_k, its bias b0 + sum_k e_k * b_k. Since the generated weights are linear in e, the layer is
computed as x K0 + vec(e x^T) K + e B + b0, without a kernel per row.

With memory, a long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) stands
between the hidden layers and the heads. What an agent remembers is what it gave out last and its cells, each half of
`memory_size` numbers; a critic of its own has a memory of its own, which stands behind the actor's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runtime.experience.brains import BrainParameters, Floats
from runtime.learner import BehaviorSettings
from trainers.encoders import ENCODERS, Encoder
from trainers.randomness import generator

POLICY_HEAD_GAIN = 0.01
"""Small, so that the first policy is close to uniform (or to mean 0) in every state."""
VALUE_HEAD_GAIN = 0.1
"""Small, so that the first values are close to 0: the clipped loss moves a value by epsilon per update only."""
IMAGE_GAIN = float(np.sqrt(2.0))
"""Keeps the size of what passes through an encoder's layers, which each lose about half of it (He et al. 2015)."""
STACK_GAINS = (1.0, IMAGE_GAIN, 0.25, IMAGE_GAIN, 0.25)
"""Of a stack's convolutions: the first has no non-linearity before it, and a block at first passes on what comes in, as
it adds, and what is added would grow."""
ATTENTION_LAYERS = ("query", "key", "value", "attended")
GOAL_SIGNAL = 1
FORGET_BIAS = 1.0
"""At first the memory keeps about three quarters of what is in it, so that what happened long ago can be learned of."""
GOAL_UNITS = 16
"""Numbers that stand for the goals. Each costs as many weights as a whole layer has."""

Layout = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class NetworkShape:
    """All that fixes the layout of the weights and the types of their inputs; equal shapes may share a compiled update.

    observations: shape of each, rank 1 for vectors; the others are sights: buffers (things, numbers of each) and images
    (channels, height, width). branches: size of each discrete branch. streams: number of values. encoder: of the
    images. sight_types: dtype in which each sight is kept. goals: numbers of the observations that generate weights.
    memory_size: numbers that the actor remembers, and the critic; 0 without memory.
    """

    observations: tuple[tuple[int, ...], ...]
    continuous_size: int
    branches: tuple[int, ...]
    streams: int
    hidden_units: int
    num_layers: int
    shared_critic: bool
    normalize: bool
    encoder: str = "simple"
    sight_types: tuple[str, ...] = ()
    goals: tuple[int, ...] = ()
    memory_size: int = 0

    @staticmethod
    def of(brain: BrainParameters, settings: BehaviorSettings) -> NetworkShape:
        """The network of `brain` under `settings`."""
        specs, network = brain.observation_specs, settings.network_settings
        sized = [index for index, spec in enumerate(specs) if np.prod(spec.shape)]
        goals = tuple(index for index in sized if specs[index].observation_type == GOAL_SIGNAL)
        # Goals alone have nothing to condition: they are what is observed.
        is_conditioned = network.goal_conditioning_type == "hyper" and network.num_layers and len(goals) < len(sized)
        return NetworkShape(
            observations=tuple(spec.shape for spec in specs),
            continuous_size=brain.action_spec.continuous_size,
            branches=tuple(brain.action_spec.discrete_branches),
            streams=len(settings.reward_signals),
            hidden_units=network.hidden_units,
            num_layers=network.num_layers,
            shared_critic=settings.hyperparameters.shared_critic,
            normalize=network.normalize,
            encoder=network.vis_encode_type,
            sight_types=tuple(spec.dtype for spec in specs if len(spec.shape) > 1),
            goals=goals if is_conditioned else (),
            memory_size=network.memory.memory_size if network.memory else 0,
        )

    @cached_property
    def vectors(self) -> tuple[int, ...]:
        """Numbers of the observations of rank 1."""
        return tuple(index for index, shape in enumerate(self.observations) if len(shape) == 1)

    @cached_property
    def sights(self) -> tuple[int, ...]:
        """Numbers of the observations of a higher rank."""
        return tuple(index for index, shape in enumerate(self.observations) if len(shape) > 1)

    @property
    def images(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the observations of rank 3."""
        return tuple(shape for shape in self.observations if len(shape) == 3)

    @cached_property
    def vector_size(self) -> int:
        """Floats of all vectors together."""
        return sum(self.observations[index][0] for index in self.vectors)

    @property
    def mask_size(self) -> int:
        """Sum of the branch sizes."""
        return sum(self.branches)

    @property
    def memory_width(self) -> int:
        """Numbers that an agent remembers in all."""
        return self.memory_size * (1 if self.shared_critic else 2)

    @property
    def convolutions(self) -> Encoder:
        """What encodes the images."""
        return ENCODERS[self.encoder]

    def columns(self, *, goals: bool) -> tuple[int, ...]:
        """Columns of goal vectors, or of all others, among the vectors side by side."""
        found: list[int] = []
        start = 0
        for index in self.vectors:
            size = self.observations[index][0]
            if (index in self.goals) == goals:
                found += range(start, start + size)
            start += size
        return tuple(found)

    def sight_places(self, *, goals: bool) -> tuple[int, ...]:
        """Places of sights that are goals, or of all others, among the sights."""
        return tuple(place for place, index in enumerate(self.sights) if (index in self.goals) == goals)

    def feature_size(self, *, goals: bool) -> int:
        """Numbers that enter the hidden layers, or the goals' layer."""
        return len(self.columns(goals=goals)) + self.hidden_units * len(self.sight_places(goals=goals))

    @cached_property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of every weight, in the order of the flat vector."""
        width = self.hidden_units if self.num_layers else self.feature_size(goals=False)
        width = self.memory_size // 2 or width
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

    def _trunk(self, name: str) -> Layout:
        entries: Layout = []
        for place, index in enumerate(self.sights):
            shape = self.observations[index]
            kind = self._image if len(shape) == 3 else self._buffer
            entries += kind(f"{name}.sight.{place}", shape)
        if self.goals:
            entries += _dense(f"{name}.goal", self.feature_size(goals=True), GOAL_UNITS)
        width = self.feature_size(goals=False)
        for layer in range(self.num_layers):
            entries += _dense(f"{name}.{layer}", width, self.hidden_units)
            if self.goals and layer == self.num_layers - 1:
                entries.append((f"{name}.generated.kernel", (GOAL_UNITS * width, self.hidden_units)))
                entries.append((f"{name}.generated_bias.kernel", (GOAL_UNITS, self.hidden_units)))
            width = self.hidden_units
        if self.memory_size:
            cells = self.memory_size // 2
            entries += _dense(f"{name}.memory", width, 4 * cells)
            entries.append((f"{name}.memory.recurrent.kernel", (cells, 4 * cells)))
        return entries

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Layout:
        width, seen = self.hidden_units, len(self.columns(goals=False))
        entries = _dense(f"{name}.thing", shape[1], width)
        if seen:
            entries.append((f"{name}.agent.kernel", (seen, width)))
        for layer in ATTENTION_LAYERS:
            entries += _dense(f"{name}.{layer}", width, width)
        return entries

    def _image(self, name: str, shape: tuple[int, ...]) -> Layout:
        entries: Layout = []
        for number, kernel in enumerate(self.convolutions.kernels(shape[0])):
            entries += [(f"{name}.{number}.kernel", kernel), (f"{name}.{number}.bias", kernel[-1:])]
        return entries + _dense(f"{name}.dense", int(np.prod(self.convolutions.maps(shape)[-1])), self.hidden_units)


def _dense(name: str, inputs: int, outputs: int) -> Layout:
    return [(f"{name}.kernel", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def initial_weights(shape: NetworkShape, key: str) -> Floats:
    """float32 (size,): the first weights, a function of the shape and the behavior's key alone.

    Kernels are normal with variance gain² / inputs (variance scaling; of a convolution, inputs are a filter's numbers),
    biases and log_std are 0, but for the biases of forget gates. Each filter of an image's first convolution has mean
    0: it sees no even brightness.
    """
    rng = generator(key, "weights")
    has_kernels = bool(shape.convolutions.kernels(1)) if shape.images else False
    first_of_images = {
        f"{trunk}.sight.{place}.{'0' if has_kernels else 'dense'}.kernel"
        for trunk in ("actor", "critic")
        for place, index in enumerate(shape.sights)
        if len(shape.observations[index]) == 3
    }
    parts = []
    for name, dimensions in shape.layout:
        if name.endswith(".kernel"):
            deviation = _gain(shape, name, dimensions) / np.sqrt(np.prod(dimensions[:-1]))
            kernel = rng.normal(0.0, deviation, dimensions)
            if name in first_of_images:
                kernel -= kernel.mean(axis=tuple(range(len(dimensions) - 1)))
            parts.append(kernel.astype(np.float32).ravel())
        else:
            rest = np.zeros(np.prod(dimensions), np.float32)
            if name.endswith(".memory.bias"):
                rest[len(rest) // 4 : len(rest) // 2] = FORGET_BIAS
            parts.append(rest)
    return np.concatenate(parts)


def _gain(shape: NetworkShape, name: str, dimensions: tuple[int, ...]) -> float:
    """Of the kernel of that name."""
    if len(dimensions) == 4 and shape.convolutions.stacks:
        return STACK_GAINS[int(name.split(".")[-2]) % len(STACK_GAINS)]
    heads = {"mean.kernel": POLICY_HEAD_GAIN, "logits.kernel": POLICY_HEAD_GAIN, "value.kernel": VALUE_HEAD_GAIN}
    is_of_encoder = len(dimensions) == 4 or name.endswith(".dense.kernel")
    return IMAGE_GAIN if is_of_encoder else heads.get(name, 1.0)


def named_weights(shape: NetworkShape, flat: Floats) -> Mapping[str, Floats]:
    """Views into the flat vector, by name."""
    views, start = {}, 0
    for name, dimensions in shape.layout:
        end = start + int(np.prod(dimensions))
        views[name] = flat[start:end].reshape(dimensions)
        start = end
    return views
