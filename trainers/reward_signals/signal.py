"""What all reward signals have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.experience.brains import Floats
    from trainers.layouts import Layout
    from trainers.networks import NetworkShape

Tensor = Any  # TensorFlow ships no usable types.


@dataclass(frozen=True)
class SignalNetwork:
    """What fixes a signal's weights; one of its subclasses is made. Equal ones may share a compiled update."""

    @property
    def name(self) -> str:
        """As in `reward_signals` of a configuration."""
        raise NotImplementedError

    @property
    def ends_with_episode(self) -> bool:
        """False where the return goes on behind a real end: the value of the episode's last observation counts."""
        return True

    @property
    def sees_next(self) -> bool:
        """True where a transition's reward depends on the observation that follows it."""
        return False

    @property
    def has_weights(self) -> bool:
        """True where something of it is learned."""
        return False

    def layout(self, shape: NetworkShape) -> Layout:
        """Names, which begin with the signal's, and shapes of its weights beside a policy of `shape`."""
        del shape
        return []

    def initial_weights(self, shape: NetworkShape, rng: np.random.Generator) -> Floats:
        """float32: the first weights, in the order of the layout."""
        del shape, rng
        return np.zeros(0, np.float32)

    def passing(self, shape: NetworkShape) -> int:
        """Numbers that one transition takes up on its way through the layers."""
        del shape
        return 0

    def model(self, shape: NetworkShape) -> SignalModel | None:
        """What rewards and learns, in TensorFlow, which this loads; None where the player's rewards are it."""
        del shape
        return None

    def described(self, shape: NetworkShape) -> str:
        """The signal, and what fixes its weights, as messages and checkpoints have it."""
        del shape
        return self.name

    @property
    def title(self) -> str:
        """The name as it stands in tags."""
        return self.name.title()

    @property
    def value_tag(self) -> str:
        """Tag of the mean value of its stream."""
        return f"Policy/{self.title} Value Estimate"

    @property
    def reward_tag(self) -> str:
        """Tag of its mean return per episode."""
        return f"Policy/{self.title} Reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSignal:
    """One signal of a behavior.

    gamma, strength: discount of its stream, and factor of its rewards. learning_rate: of its own weights, constant.
    """

    network: SignalNetwork
    gamma: float
    strength: float
    learning_rate: float = 0.0


class Transitions(NamedTuple):
    """b transitions of a minibatch, and whatever a signal may need of them.

    code, next_code: (b, w), what the signal's encoder makes of the observations before and after. continuous (b, c):
    raw samples. discrete: int32 (b, branches). weight: (b,), 1 where what followed is known, 0 where it is not, or
    where there is no row.
    """

    code: Tensor
    next_code: Tensor
    continuous: Tensor
    discrete: Tensor
    weight: Tensor


class SignalModel(Protocol):
    """The learned part of a signal. weights: by name, of all signals; names as in `SignalNetwork.layout`."""

    loss_tags: tuple[str, ...]
    """Of what `losses` gives."""

    def encode(self, weights: Mapping[str, Tensor], vectors: Tensor, sights: Sequence[Tensor]) -> Tensor:
        """(n, w) of vectors (n, V), as the policy sees them, and sights as they are kept."""

    def rewards(self, weights: Mapping[str, Tensor], transitions: Transitions) -> Tensor:
        """(b,), before the factor `strength`; 0 where the weight is 0."""

    def losses(self, weights: Mapping[str, Tensor], transitions: Transitions) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What is minimised, and its parts by `loss_tags`; means over the transitions of weight 1."""
