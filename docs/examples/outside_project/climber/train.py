"""Learns what each action is worth in each state, from what Unity players show; lost players are started again."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import closing

import numpy as np

from runtime.errors import PlayerError
from runtime.players.base_env import ActionTuple
from runtime.players.environment import UnityEnvironment

Open = Callable[[], UnityEnvironment]
LEARNING_RATE = 0.5
HOPE = 1.0
"""What an action is worth that was never tried: so much that all are."""
RESTARTS_MAX = 3


class Table:
    """Values of actions by state. curiosity: how often an action is tried at random."""

    def __init__(self, seed: int, *, curiosity: float = 0.1) -> None:
        self.values: dict[bytes, np.ndarray] = {}
        self.curiosity = curiosity
        self.returns: list[float] = []
        self.steps = 0
        self._rng = np.random.default_rng(seed)
        self._last: dict[int, tuple[bytes, int]] = {}
        self._return: defaultdict[int, float] = defaultdict(float)

    def play(self, env: UnityEnvironment, steps: int) -> None:
        """Learns until so many steps were taken in all."""
        env.reset()
        self._last.clear()
        self._return.clear()
        while not env.behavior_specs and self.steps < steps:  # nobody is there yet
            env.step()
            self.steps += 1
        if not env.behavior_specs:
            return
        (name,) = env.behavior_specs
        (actions,) = env.behavior_specs[name].action_spec.discrete_branches
        while self.steps < steps:
            waiting, ended = env.get_steps(name)
            for agent, reward in zip(ended.agent_id.tolist(), ended.reward.tolist(), strict=True):
                self._learn(agent, reward, 0.0)
                self._last.pop(agent, None)
                self.returns.append(self._return.pop(agent, 0.0))
            chosen = np.zeros((len(waiting), 1), np.int32)
            for row, agent in enumerate(waiting.agent_id.tolist()):
                state = waiting.obs[0][row].tobytes()
                if state not in self.values:
                    self.values[state] = np.full(actions, HOPE)
                self._learn(agent, float(waiting.reward[row]), float(self.values[state].max()))
                chosen[row, 0] = self._choose(state)
                self._last[agent] = state, int(chosen[row, 0])
            env.set_actions(name, ActionTuple(discrete=chosen))
            env.step()
            self.steps += 1

    def _choose(self, state: bytes) -> int:
        values = self.values[state]
        if self._rng.random() < self.curiosity:
            return int(self._rng.integers(len(values)))
        return int(self._rng.choice(np.flatnonzero(values == values.max())))

    def _learn(self, agent: int, reward: float, following: float) -> None:
        if agent in self._last:
            state, action = self._last[agent]
            self._return[agent] += reward
            self.values[state][action] += LEARNING_RATE * (reward + following - self.values[state][action])


def train(table: Table, open_environment: Open, steps: int) -> int:
    """Plays until so many steps were taken; how many players were lost and started again on the way."""
    for restarts in range(RESTARTS_MAX + 1):
        try:
            with closing(open_environment()) as env:
                table.play(env, steps)
        except PlayerError as error:
            if not error.is_restartable or restarts == RESTARTS_MAX:
                raise
        else:
            return restarts
    return RESTARTS_MAX
