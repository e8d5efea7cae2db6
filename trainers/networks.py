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
from trainers.initial_layers import initial_layers
from trainers.layouts import Layout, buffer_layout, dense_layout, image_layout, layout_size
from trainers.randomness import generator
from trainers.reward_signals.extrinsic import Extrinsic
from trainers.reward_signals.factory import signals_of
from trainers.reward_signals.signal import SignalNetwork

POLICY_HEAD_GAIN = 0.01
"""Small, so that the first policy is close to uniform (or to mean 0) in every state."""
RECALLED_HEAD_GAIN = 0.3
"""The same behind a memory, whose numbers are small at first: what is to be remembered is learned through the head."""
VALUE_HEAD_GAIN = 0.1
"""Small, so that the first values are close to 0: the clipped loss moves a value by epsilon per update only."""
GOAL_SIGNAL = 1
GOAL_UNITS = 16
"""Numbers that stand for the goals. Each costs as many weights as a whole layer has."""


@dataclass(frozen=True)
class NetworkShape:
    """All that fixes the layout of the weights and the types of their inputs; equal shapes may share a compiled update.

    observations: shape of each, rank 1 for vectors; the others are sights: buffers (things, numbers of each) and images
    (channels, height, width). branches: size of each discrete branch. streams: number of values. encoder: of the
    images. sight_types: dtype in which each sight is kept. goals: numbers of the observations that generate weights.
    memory_size: numbers that the actor remembers, and the critic; 0 without memory. signals: of the streams, in order;
    their weights stand behind the policy's.
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
    signals: tuple[SignalNetwork, ...] = (Extrinsic(),)

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
            signals=tuple(each.network for each in signals_of(settings)),
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
        """Name and shape of every weight of the policy, in the order of the flat vector."""
        width = self.hidden_units if self.num_layers else self.feature_size(goals=False)
        width = self.memory_size // 2 or width
        entries = self._trunk("actor")
        if self.continuous_size:
            entries += dense_layout("mean", width, self.continuous_size)
            entries.append(("log_std", (self.continuous_size,)))
        if self.mask_size:
            entries += dense_layout("logits", width, self.mask_size)
        if not self.shared_critic:
            entries += self._trunk("critic")
        return (*entries, *dense_layout("value", width, self.streams))

    @cached_property
    def size(self) -> int:
        """Number of weights of the policy: acting graphs and exported models hold these."""
        return layout_size(self.layout)

    @cached_property
    def full_layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The policy's layout, and behind it those of the signals."""
        return (*self.layout, *(each for signal in self.signals for each in signal.layout(self)))

    @cached_property
    def full_size(self) -> int:
        """Number of weights that are learned."""
        return layout_size(self.full_layout)

    @property
    def sees_next(self) -> bool:
        """True where a signal needs the observation that follows a transition, behind a real end too."""
        return any(each.sees_next for each in self.signals)

    def _trunk(self, name: str) -> Layout:
        entries: Layout = []
        for place, index in enumerate(self.sights):
            shape, own = self.observations[index], f"{name}.sight.{place}"
            if len(shape) == 3:
                entries += image_layout(own, shape, self.convolutions, self.hidden_units)
            else:
                entries += buffer_layout(own, shape, len(self.columns(goals=False)), self.hidden_units)
        if self.goals:
            entries += dense_layout(f"{name}.goal", self.feature_size(goals=True), GOAL_UNITS)
        width = self.feature_size(goals=False)
        for layer in range(self.num_layers):
            entries += dense_layout(f"{name}.{layer}", width, self.hidden_units)
            if self.goals and layer == self.num_layers - 1:
                entries.append((f"{name}.generated.kernel", (GOAL_UNITS * width, self.hidden_units)))
                entries.append((f"{name}.generated_bias.kernel", (GOAL_UNITS, self.hidden_units)))
            width = self.hidden_units
        if self.memory_size:
            cells = self.memory_size // 2
            entries += dense_layout(f"{name}.memory", width, 4 * cells)
            entries.append((f"{name}.memory.recurrent.kernel", (cells, 4 * cells)))
        return entries


def initial_weights(shape: NetworkShape, key: str) -> Floats:
    """float32 (full_size,): the first weights, a function of the shape and the behavior's key alone."""
    gain = RECALLED_HEAD_GAIN if shape.memory_size else POLICY_HEAD_GAIN
    heads = {"mean.kernel": gain, "logits.kernel": gain, "value.kernel": VALUE_HEAD_GAIN}
    encoder = shape.convolutions if shape.images else None
    policy = initial_layers(shape.layout, generator(key, "weights"), encoder=encoder, gains=heads)
    own = [each.initial_weights(shape, generator(key, f"weights of {each.name}")) for each in shape.signals]
    return np.concatenate([policy, *own])


def named_weights(shape: NetworkShape, flat: Floats) -> Mapping[str, Floats]:
    """Views into the flat vector, by name; of the signals too where it holds them."""
    views, start = {}, 0
    for name, dimensions in shape.layout if len(flat) == shape.size else shape.full_layout:
        end = start + int(np.prod(dimensions))
        views[name] = flat[start:end].reshape(dimensions)
        start = end
    return views
