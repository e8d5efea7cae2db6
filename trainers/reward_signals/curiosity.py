"""Curiosity (Pathak et al. 2017): reward for what a model of the world did not foresee.

An encoder of its own makes a code of each observation. An inverse model says from the codes before and after which
action was taken, so that the encoder learns what actions change and nothing else. A forward model says from code and
action what the next code will be; half its squared error is the reward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.learner import NetworkSettings
from trainers.encoders import ENCODERS
from trainers.initial_layers import initial_layers
from trainers.layouts import ATTENTION_LAYERS, Layout, buffer_layout, dense_layout, image_layout
from trainers.reward_signals.signal import RewardSignal, SignalModel, SignalNetwork

if TYPE_CHECKING:
    import numpy as np

    from runtime.experience.brains import Floats
    from trainers.networks import NetworkShape

NAME = "curiosity"
MODEL_UNITS = 256
"""Of the hidden layers of the two models."""
LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Curiosity(SignalNetwork):
    """The encoder: as a policy's trunk, without goals and memory. hidden_units: numbers of a code too."""

    hidden_units: int
    num_layers: int
    encoder: str

    @property
    def name(self) -> str:
        """As in a configuration."""
        return NAME

    @property
    def ends_with_episode(self) -> bool:
        """An end would be worth avoiding: what comes after it is as new as anything else."""
        return False

    @property
    def sees_next(self) -> bool:
        """It is surprised, or not, by what follows."""
        return True

    @property
    def has_weights(self) -> bool:
        """Encoder and models."""
        return True

    def layout(self, shape: NetworkShape) -> Layout:
        """Encoder, inverse model, forward model."""
        entries: Layout = []
        for place, index in enumerate(shape.sights):
            seen, name = shape.observations[index], f"{NAME}.sight.{place}"
            if len(seen) == 3:
                entries += image_layout(name, seen, ENCODERS[self.encoder], self.hidden_units)
            else:
                entries += buffer_layout(name, seen, shape.vector_size, self.hidden_units)
        width = shape.vector_size + self.hidden_units * len(shape.sights)
        for layer in range(self.num_layers):
            entries += dense_layout(f"{NAME}.{layer}", width, self.hidden_units)
            width = self.hidden_units
        actions = shape.continuous_size + shape.mask_size
        entries += dense_layout(f"{NAME}.inverse", 2 * width, MODEL_UNITS)
        entries += dense_layout(f"{NAME}.inverse.action", MODEL_UNITS, actions)
        entries += dense_layout(f"{NAME}.forward", width + actions, MODEL_UNITS)
        return entries + dense_layout(f"{NAME}.forward.code", MODEL_UNITS, width)

    def initial_weights(self, shape: NetworkShape, rng: np.random.Generator) -> Floats:
        """As a policy's trunk; the models' heads too."""
        encoder = ENCODERS[self.encoder] if shape.images else None
        return initial_layers(self.layout(shape), rng, encoder=encoder, gains={})

    def passing(self, shape: NetworkShape) -> int:
        """The encoder's numbers twice, before and after the action, and the models'."""
        maps = sum(math.prod(one) for image in shape.images for one in ENCODERS[self.encoder].maps(image))
        for things, _ in (shape.observations[index] for index in shape.sights if len(shape.observations[index]) == 2):
            maps += things * ((2 + len(ATTENTION_LAYERS)) * self.hidden_units + 2 * things)
        layers = shape.vector_size + self.hidden_units * (self.num_layers + len(shape.sights))
        return 2 * (maps + layers) + 2 * MODEL_UNITS

    def model(self, shape: NetworkShape) -> SignalModel:
        """In TensorFlow."""
        from trainers.reward_signals.curiosity_model import CuriosityModel  # noqa: PLC0415 - loads TensorFlow

        return CuriosityModel(self, shape)

    def described(self, shape: NetworkShape) -> str:
        """With the encoder's sizes."""
        images = f", vis_encode_type {self.encoder}" if shape.images else ""
        return f"{NAME} (hidden_units {self.hidden_units}, num_layers {self.num_layers}{images})"


def make_curiosity(
    *,
    gamma: float = 0.99,
    strength: float = 1.0,
    learning_rate: float = LEARNING_RATE,
    network_settings: NetworkSettings | None = None,
) -> RewardSignal:
    """The signal. network_settings: of the encoder; it is fed the observations as the policy is, normalised or not."""
    network = network_settings or NetworkSettings()
    encoder = Curiosity(network.hidden_units, network.num_layers, network.vis_encode_type)
    return RewardSignal(network=encoder, gamma=gamma, strength=strength, learning_rate=learning_rate)
