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
    """One row per waiting agent: continuous float32 (n, continuous), finite; discrete int64 (n, branches), in range."""

    continuous: Floats
    discrete: Ints


def empty_rows(spec: BehaviorSpec) -> Rows:
    """No agents at all."""
    none = np.zeros(0, np.bool_)
    observations = tuple(np.zeros((0, sensor.size), np.float32) for sensor in spec.observations)
    return Rows(np.zeros(0, np.int64), np.zeros(0, np.float32), none, none, observations)


class World(Protocol):
    """A scene in motion: pure logic, no clock, no I/O.

    `specs` lists the behaviors that may ever appear. `reset` starts the next episode of every agent and gives the first
    rows. `step` takes actions, checked by the player, for the waiting agents (perhaps none) of every behavior that
    exists, and gives the next rows. A behavior exists from the first call whose result names it. `default_actions` are those of agents
    whose trainer sent nothing.
    """

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]: ...

    def reset(self) -> Mapping[str, Rows]: ...

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]: ...

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions: ...


def zero_actions(spec: BehaviorSpec, count: int) -> Actions:
    """What Unity applies to agents that got no action: zeros."""
    return Actions(np.zeros((count, spec.continuous), np.float32), np.zeros((count, len(spec.branches)), np.int64))
