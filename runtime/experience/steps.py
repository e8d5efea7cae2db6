"""The seed's StepInfo and EnvManager: what code that holds the loop itself works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.experience.actions import ActionInfo
    from runtime.experience.brains import AllBrainInfo, BrainParameters


class StepInfo(NamedTuple):
    """One env step of one environment.

    previous_all_brain_info and brain_name_to_action_info are None right after a reset.
    """

    previous_all_brain_info: AllBrainInfo | None
    current_all_brain_info: AllBrainInfo
    brain_name_to_action_info: Mapping[str, ActionInfo] | None


class EnvManager(ABC):
    """Several environments stepped together. Policies arrive as `PolicyUpdate` messages, not by a call here."""

    @abstractmethod
    def step(self) -> list[StepInfo]:
        """One env step of every environment, in the order of their numbers."""

    @abstractmethod
    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> list[StepInfo]:  # noqa: FBT001, FBT002 - the seed's signature
        """The first observations after a reset with the given parameters."""

    @property
    @abstractmethod
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The brains under our control, by wire name."""

    @property
    @abstractmethod
    def reset_parameters(self) -> Mapping[str, float]:
        """The parameters that the environments announced or were given."""

    @abstractmethod
    def close(self) -> None:
        """Ends all environments. A second call does nothing."""
