"""The usual kind of scene: K agents that are always there, act at every step and start anew when their episode ends.

A scene says how an episode begins, what an action does and what an agent sees, for all agents at once. Everything is
elementwise, and of the elementwise operations only `+ - * /`, comparisons and roundings are used: they give the same
bits for an agent whatever the number of agents beside it, which vectorised `sin` or `exp` do not promise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from fakeunity.bounds import some
from fakeunity.parameters import Parameters
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, Rows, joined, zero_actions
from fakeunity.scenes.chance import Chance, Keys


class SteadyWorld(ABC):
    """A world of `agents` agents with ids 0..agents-1; subclasses fill in the hooks, of which three are required.

    `t` (int64, (agents,)) is the number of steps taken in each agent's episode. `defaults` are the environment
    parameters that the scene obeys.
    """

    spec: ClassVar[BehaviorSpec]
    steps_max: ClassVar[int]
    defaults: ClassVar[Mapping[str, float]] = MappingProxyType({})

    def __init__(self, agents: int, chance: Chance) -> None:
        self.agents = agents
        self.t: Ints = np.zeros(agents, np.int64)
        self.parameters = Parameters(self.defaults)
        self._chance = chance
        self._everyone: Ints = np.arange(agents, dtype=np.int64)
        self._episode: Ints = np.full(agents, -1, np.int64)
        self._keys: Keys = np.zeros(agents, np.uint64)
        self._has_old_key: Bools = np.zeros(agents, np.bool_)
        self._nobody: Bools = np.zeros(agents, np.bool_)
        self._no_reward: Floats = np.zeros(agents, np.float32)

    @abstractmethod
    def begin(self, who: Ints) -> None:
        """Sets up a new episode of the agents with these indices; `keys` and `t` are already the new ones."""

    @abstractmethod
    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Rewards (float32) and who reached a true end (bool) after one action of every agent; both (agents,)."""

    @abstractmethod
    def observe(self) -> tuple[Floats, ...]:
        """What every agent sees now, in fresh arrays: float32 (agents, size) per sensor of `spec`."""

    def pictures(self) -> tuple[Ints, ...]:
        """Numbers of the pictures that every agent sees now, in fresh arrays: int64 (agents,) per camera of `spec`."""
        return ()

    def mask(self) -> Bools | None:
        """What every agent must not do now, bool (agents, sum of branches); None when the scene never forbids."""
        return None

    def groups(self) -> tuple[Ints, Floats] | None:
        """Group of every agent (int64, from 1) and what the last step gave to it (float32); both (agents,)."""
        return None

    def texts(self) -> tuple[str, ...] | None:
        """What every agent is told in words; None when nobody is."""
        return None

    @property
    def keys(self) -> Keys:
        """uint64 (agents,): the source of each episode's random numbers; some scenes never ask."""
        if some(self._has_old_key):
            who = self._has_old_key.nonzero()[0]
            self._keys[who] = self._chance.episodes(who, self._episode[who])
            self._has_old_key[:] = False
        return self._keys

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """The one behavior of this scene."""
        return (self.spec,)

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """Zeros, as Unity has it."""
        return zero_actions(spec, len(rows.waiting()))

    def reset(self) -> Mapping[str, Rows]:
        """Every agent starts its next episode; nothing says how the open ones would have ended."""
        self._begin(self._everyone)
        return {self.spec.name: self._look(self._no_reward, begun=~self._nobody)}

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """One step of every agent; who finished has two rows: the end, and the start of the next episode."""
        self.t += 1
        rewards, ended = self.advance(actions[self.spec.name])
        done = ended | (self.t >= self.steps_max)
        rows = self._look(rewards)
        if not some(done):
            return {self.spec.name: rows}
        who = done.nonzero()[0]
        ends = rows.picked(who).ended(interrupted=~ended[who])
        self._begin(who)
        fresh = self._look(np.where(done, np.float32(0), rewards), begun=done)
        return {self.spec.name: joined(ends, fresh)}

    def _look(self, rewards: Floats, *, begun: Bools | None = None) -> Rows:
        """A row for every agent, none of them done; a group has given nothing to those who have just begun."""
        ids, given = self.groups() or (None, None)
        if given is not None and begun is not None:
            given = np.where(begun, np.float32(0), given)
        return Rows(
            ids=self._everyone,
            rewards=rewards,
            done=self._nobody,
            interrupted=self._nobody,
            observations=self.observe(),
            mask=self.mask(),
            images=self.pictures(),
            group_ids=ids,
            group_rewards=given,
            texts=self.texts(),
        )

    def _begin(self, who: Ints) -> None:
        self._episode[who] += 1
        self._has_old_key[who] = True
        self.t[who] = 0
        self.begin(who)
