"""What a world and the wire tell each other: specs of behaviors, rows of agents, actions. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PLAIN_DIMENSION = 1


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """One vector sensor: its name, and how many floats it gives."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class BehaviorSpec:
    """What a behavior sees and does.

    name: the wire name. observations: in the order of their names, as Unity sends them. continuous: number of
    continuous actions. branches: sizes of the discrete branches, empty when there are none.
    """

    name: str
    observations: tuple[ObservationSpec, ...]
    continuous: int = 0
    branches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Agents of one behavior in one message, n rows in wire order.

    ids: int64 (n,), not negative. rewards: float32 (n,), since the agent's previous row. done, interrupted: bool (n,);
    interrupted says that a time limit, not the world, ended the episode. observations: float32 (n, size) per sensor;
    where done, the last ones of the finished episode. mask: bool (n, sum of branches), True = forbidden; None when the
    behavior never forbids anything. The same id may be in a done row and, later, in one that is not done.
    """

    ids: Ints
    rewards: Floats
    done: Bools
    interrupted: Bools
    observations: tuple[Floats, ...]
    mask: Bools | None = None

    def waiting(self) -> Ints:
        """Ids of the agents that need an action, in the order in which the actions come back; int64 (n,)."""
        return self.ids[~self.done]


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """One row per waiting agent.

    continuous: float32 (n, number of continuous actions), finite. discrete: int64 (n, branches), in range and allowed.
    """

    continuous: Floats
    discrete: Ints


def empty_rows(spec: BehaviorSpec) -> Rows:
    """No agents at all."""
    none = np.zeros(0, np.bool_)
    observations = tuple(np.zeros((0, sensor.size), np.float32) for sensor in spec.observations)
    return Rows(np.zeros(0, np.int64), np.zeros(0, np.float32), none, none, observations)


class World(Protocol):
    """A scene in motion: pure logic, no clock, no I/O.

    A behavior exists from the first call whose result names it. `step` takes actions, checked by the player, for the
    waiting agents (perhaps none) of every behavior that exists.
    """

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """Every behavior that may ever appear."""
        ...

    def reset(self) -> Mapping[str, Rows]:
        """The first rows of every agent's next episode."""
        ...

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """The rows that follow, by behavior."""
        ...

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """What the waiting agents of `rows` do when nobody told them."""
        ...


def zero_actions(spec: BehaviorSpec, count: int) -> Actions:
    """What Unity applies to agents that got no action: zeros."""
    return Actions(np.zeros((count, spec.continuous), np.float32), np.zeros((count, len(spec.branches)), np.int64))
