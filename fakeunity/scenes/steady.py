"""The usual kind of scene: K agents that are always there, act at every step and start anew when their episode ends.

A scene says how an episode begins, what an action does and what an agent sees, for all agents at once. Everything is
elementwise, and of the elementwise operations only `+ - * /`, comparisons and roundings are used: they give the same
bits for an agent whatever the number of agents beside it, which vectorised `sin` or `exp` do not promise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, Rows, zero_actions
from fakeunity.scenes.chance import Chance, Keys


class SteadyWorld(ABC):
    """A world of `agents` agents with ids 0..agents-1; subclasses fill in the four hooks.

    `t` (int64, (agents,)) is the number of steps taken in each agent's episode, `keys` (uint64, (agents,)) the source
    of each episode's random numbers.
    """

    spec: ClassVar[BehaviorSpec]
    steps_max: ClassVar[int]

    def __init__(self, agents: int, chance: Chance) -> None:
        self.agents = agents
        self.t: Ints = np.zeros(agents, np.int64)
        self.keys: Keys = np.zeros(agents, np.uint64)
        self._chance = chance
        self._everyone: Ints = np.arange(agents, dtype=np.int64)
        self._episode: Ints = np.full(agents, -1, np.int64)
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

    def mask(self) -> Bools | None:
        """What every agent must not do now, bool (agents, sum of branches); None when the scene never forbids."""
        return None

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
        rows = Rows(self._everyone, self._no_reward, self._nobody, self._nobody, self.observe(), self.mask())
        return {self.spec.name: rows}

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """One step of every agent; who finished has two rows: the end, and the start of the next episode."""
        self.t += 1
        rewards, ended = self.advance(actions[self.spec.name])
        done = ended | (self.t >= self.steps_max)
        seen, mask = self.observe(), self.mask()
        if not done.any():
            rows = Rows(self._everyone, rewards, self._nobody, self._nobody, seen, mask)
            return {self.spec.name: rows}
        finished = self._everyone[done]
        self._begin(finished)
        fresh, fresh_mask = self.observe(), self.mask()
        count = len(finished)
        rows = Rows(
            ids=np.concatenate((finished, self._everyone)),
            rewards=np.concatenate((rewards[done], np.where(done, np.float32(0), rewards))),
            done=np.arange(count + self.agents) < count,
            interrupted=np.concatenate((~ended[done], self._nobody)),
            observations=tuple(np.concatenate((a[done], b)) for a, b in zip(seen, fresh, strict=True)),
            mask=None if mask is None or fresh_mask is None else np.concatenate((mask[done], fresh_mask)),
        )
        return {self.spec.name: rows}

    def _begin(self, who: Ints) -> None:
        self._episode[who] += 1
        self.keys[who] = self._chance.episodes(who, self._episode[who])
        self.t[who] = 0
        self.begin(who)
