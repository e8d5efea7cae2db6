"""The words of low-level code for ML-Agents: specs of behaviors, steps of agents, actions, an environment's surface.

Code written for ML-Agents' own low-level interface ports by importing these names from here. A *behavior* is what the
rest of this project calls a brain.

What an agent shows is in one of two tables. `DecisionSteps`: agents that wait for an action since the last `step`.
`TerminalSteps`: agents whose episode ended since then; such an agent may be in the first table too, at the beginning of
its next episode. An agent that is in neither did not ask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runtime.errors import UsageError
from runtime.experience.brains import Bools, Floats, Ints
from runtime.experience.stats import StatAggregation
from runtime.players.action_tuples import ActionSpec, ActionTuple
from runtime.players.channels import IncomingMessage, OutgoingMessage, SideChannel

__all__ = [
    "ActionSpec",
    "ActionTuple",
    "BaseEnv",
    "BehaviorMapping",
    "BehaviorSpec",
    "DecisionStep",
    "DecisionSteps",
    "DimensionProperty",
    "IncomingMessage",
    "ObservationSpec",
    "ObservationType",
    "OutgoingMessage",
    "SideChannel",
    "StatAggregation",
    "TerminalStep",
    "TerminalSteps",
]

AgentId = int
GroupId = int
BehaviorName = str
Array = npt.NDArray[np.float32]


class DimensionProperty(IntFlag):
    """What one dimension of an observation is like."""

    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


class ObservationType(Enum):
    """What an observation is for."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


class ObservationSpec(NamedTuple):
    """One observation: its shape, one property per dimension, its type, and its sensor's name."""

    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...]
    observation_type: ObservationType
    name: str


class BehaviorSpec(NamedTuple):
    """What the agents of a behavior observe and do."""

    observation_specs: list[ObservationSpec]
    action_spec: ActionSpec


BehaviorMapping = Mapping[BehaviorName, BehaviorSpec]


class DecisionStep(NamedTuple):
    """One agent that waits for an action.

    obs: an array per observation. reward: since its last step. action_mask: one array of bool per branch, True =
    forbidden, or None without branches. group_id: 0 = none.
    """

    obs: list[Array]
    reward: float
    agent_id: AgentId
    action_mask: list[Bools] | None
    group_id: GroupId
    group_reward: float


class TerminalStep(NamedTuple):
    """One agent whose episode ended. interrupted: by a time limit, or because it was taken away."""

    obs: list[Array]
    reward: float
    interrupted: bool
    agent_id: AgentId
    group_id: GroupId
    group_reward: float


class _Table:
    """Rows by agent: what both kinds of steps share."""

    agent_id: Ints

    def __len__(self) -> int:
        return len(self.agent_id)

    def __iter__(self) -> Iterator[AgentId]:
        return iter(self.agent_id.tolist())

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self.agent_id_to_index

    @property
    def agent_id_to_index(self) -> dict[AgentId, int]:
        """The row of each agent."""
        return {agent: row for row, agent in enumerate(self.agent_id.tolist())}

    def _row(self, agent_id: AgentId) -> int:
        row = self.agent_id_to_index.get(agent_id)
        if row is None:
            raise KeyError(f"agent {agent_id} is not among the {len(self)} agents of this step")
        return row


@dataclass(frozen=True, eq=False)
class DecisionSteps(_Table):
    """The agents of a behavior that wait for an action, in the order in which actions are to be given.

    obs: one float32 array (n, *shape) per observation. reward, group_reward: float32 (n,). agent_id, group_id: int32
    (n,). action_mask: bool (n, size) per branch, True = forbidden; None without branches.
    """

    obs: list[Array]
    reward: Floats
    agent_id: Ints
    action_mask: list[Bools] | None
    group_id: Ints
    group_reward: Floats

    def __getitem__(self, agent_id: AgentId) -> DecisionStep:
        """The step of one agent. Raises KeyError for one that does not wait."""
        row = self._row(agent_id)
        return DecisionStep(
            obs=[each[row] for each in self.obs],
            reward=float(self.reward[row]),
            agent_id=agent_id,
            action_mask=None if self.action_mask is None else [each[row] for each in self.action_mask],
            group_id=int(self.group_id[row]),
            group_reward=float(self.group_reward[row]),
        )

    @staticmethod
    def empty(spec: BehaviorSpec) -> DecisionSteps:
        """No agents."""
        floats, ints = np.zeros(0, np.float32), np.zeros(0, np.int32)
        return DecisionSteps(_no_observations(spec), floats, ints, None, ints, floats)


@dataclass(frozen=True, eq=False)
class TerminalSteps(_Table):
    """The agents of a behavior whose episode ended. interrupted: bool (n,). The rest is as in `DecisionSteps`."""

    obs: list[Array]
    reward: Floats
    interrupted: Bools
    agent_id: Ints
    group_id: Ints
    group_reward: Floats

    def __getitem__(self, agent_id: AgentId) -> TerminalStep:
        """The step of one agent. Raises KeyError for one whose episode did not end."""
        row = self._row(agent_id)
        return TerminalStep(
            obs=[each[row] for each in self.obs],
            reward=float(self.reward[row]),
            interrupted=bool(self.interrupted[row]),
            agent_id=agent_id,
            group_id=int(self.group_id[row]),
            group_reward=float(self.group_reward[row]),
        )

    @staticmethod
    def empty(spec: BehaviorSpec) -> TerminalSteps:
        """No agents."""
        floats, ints = np.zeros(0, np.float32), np.zeros(0, np.int32)
        return TerminalSteps(_no_observations(spec), floats, np.zeros(0, np.bool_), ints, ints, floats)


def _no_observations(spec: BehaviorSpec) -> list[Array]:
    return [np.zeros((0, *each.shape), np.float32) for each in spec.observation_specs]


class BaseEnv(ABC):
    """One environment, driven step by step. `reset` and `step` may return something; this surface does not say what."""

    @abstractmethod
    def step(self) -> object:
        """Sends the actions that were set, zeros for the other agents, and waits for the next steps."""

    @abstractmethod
    def reset(self) -> object:
        """Begins anew."""

    @abstractmethod
    def close(self) -> None:
        """Ends the environment."""

    @property
    @abstractmethod
    def behavior_specs(self) -> BehaviorMapping:
        """The behaviors that are known so far, by name."""

    @abstractmethod
    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Sets the actions of all agents of a behavior that wait, in the order of `get_steps`."""

    @abstractmethod
    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Sets the action of one agent that waits."""

    @abstractmethod
    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """What the agents of a behavior showed since the last step."""


def unknown_behavior(name: str, known: Mapping[str, object]) -> UsageError:
    """The error for a behavior that this environment does not have."""
    return UsageError(f"behavior {name!r} is not known; this environment has {sorted(known)}, as far as it has shown.")
