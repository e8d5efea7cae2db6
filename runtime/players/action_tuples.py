"""Actions of a behavior's agents as low-level code writes them: continuous and discrete halves side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runtime.errors import UsageError
from runtime.experience.brains import Floats, Ints


class ActionTuple:
    """Actions of n agents: continuous float32 (n, c), discrete int32 (n, branches); a missing half has width 0."""

    def __init__(self, continuous: npt.ArrayLike | None = None, discrete: npt.ArrayLike | None = None) -> None:
        self._continuous: Floats | None = None
        self._discrete: Ints | None = None
        if continuous is not None:
            self.add_continuous(continuous)
        if discrete is not None:
            self.add_discrete(discrete)

    @property
    def continuous(self) -> Floats:
        """float32 (n, c)."""
        if self._continuous is None:
            return np.zeros((0 if self._discrete is None else len(self._discrete), 0), np.float32)
        return self._continuous

    @property
    def discrete(self) -> Ints:
        """int32 (n, branches)."""
        if self._discrete is None:
            return np.zeros((0 if self._continuous is None else len(self._continuous), 0), np.int32)
        return self._discrete

    def add_continuous(self, continuous: npt.ArrayLike) -> None:
        """Sets the continuous half. Raises UsageError for other than two dimensions."""
        self._continuous = np.asarray(_table(continuous, "continuous"), np.float32)

    def add_discrete(self, discrete: npt.ArrayLike) -> None:
        """Sets the discrete half. Raises UsageError for other than two dimensions."""
        self._discrete = np.asarray(_table(discrete, "discrete"), np.int32)


def _table(values: npt.ArrayLike, half: str) -> npt.NDArray[np.generic]:
    try:
        table = np.asarray(values)
    except ValueError as error:
        raise UsageError(f"{half} actions that are no table: {error}.") from error
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise UsageError(
            f"{half} actions of shape {table.shape} and type {table.dtype}; expected numbers, (agents, width)."
        )
    return table


class ActionSpec(NamedTuple):
    """How many continuous numbers an agent takes, and how many choices each discrete branch has."""

    continuous_size: int
    discrete_branches: tuple[int, ...]

    @property
    def discrete_size(self) -> int:
        """Number of branches."""
        return len(self.discrete_branches)

    def is_discrete(self) -> bool:
        """True when there are branches and nothing else."""
        return self.discrete_size > 0 and self.continuous_size == 0

    def is_continuous(self) -> bool:
        """True when there are continuous numbers and nothing else."""
        return self.discrete_size == 0 and self.continuous_size > 0

    def empty_action(self, n_agents: int) -> ActionTuple:
        """Zeros for this many agents."""
        continuous = np.zeros((n_agents, self.continuous_size), np.float32)
        return ActionTuple(continuous, np.zeros((n_agents, self.discrete_size), np.int32))

    def random_action(self, n_agents: int, rng: np.random.Generator | None = None) -> ActionTuple:
        """Uniform in [-1, 1] and over the choices. rng: for a reproducible draw."""
        draw = rng or np.random.default_rng()
        continuous = draw.uniform(-1.0, 1.0, (n_agents, self.continuous_size)).astype(np.float32)
        sizes = np.asarray(self.discrete_branches, np.int32)
        discrete = draw.integers(0, sizes, (n_agents, self.discrete_size), dtype=np.int32) if len(sizes) else None
        return ActionTuple(continuous, discrete)

    @staticmethod
    def create_continuous(continuous_size: int) -> ActionSpec:
        """Continuous numbers alone."""
        return ActionSpec(continuous_size, ())

    @staticmethod
    def create_discrete(discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Branches alone."""
        return ActionSpec(0, tuple(discrete_branches))

    @staticmethod
    def create_hybrid(continuous_size: int, discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Both."""
        return ActionSpec(continuous_size, tuple(discrete_branches))
