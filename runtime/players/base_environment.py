"""The synchronous surface of one environment, as code of the seed's era uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from runtime.experience.brains import AllBrainInfo, BrainParameters


class BaseUnityEnvironment(ABC):
    """One environment: reset it, step it, close it. Objects with this surface need not inherit from it.

    The four arguments of `step` are typed `Any`, as the seed left them: arrays, lists, or mappings by brain name.
    """

    @abstractmethod
    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
        """The first observations after a reset with these parameters; train_mode False: at the game's normal speed."""

    @abstractmethod
    def step(
        self, vector_action: Any = None, memory: Any = None, text_action: Any = None, value: Any = None
    ) -> AllBrainInfo:
        """The outcome of one env step. vector_action: an array (n, width) per brain, by name."""

    @property
    @abstractmethod
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The brains under our control, by wire name, as far as they are known."""

    @property
    @abstractmethod
    def reset_parameters(self) -> Mapping[str, float]:
        """The parameters that the environment announced or was given."""

    @property
    @abstractmethod
    def global_done(self) -> bool:
        """True when the environment must be reset before it can be stepped."""

    @abstractmethod
    def close(self) -> None:
        """Ends the environment."""
