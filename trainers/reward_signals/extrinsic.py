"""The reward that the player gives."""

from __future__ import annotations

from dataclasses import dataclass

from trainers.reward_signals.signal import RewardSignal, SignalNetwork


@dataclass(frozen=True)
class Extrinsic(SignalNetwork):
    """Nothing is learned of it."""

    @property
    def name(self) -> str:
        """As in a configuration."""
        return "extrinsic"


def make_extrinsic(*, gamma: float = 0.99, strength: float = 1.0) -> RewardSignal:
    """The signal."""
    return RewardSignal(network=Extrinsic(), gamma=gamma, strength=strength)
