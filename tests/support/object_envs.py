"""Small environment objects with the seed's surface, for tests of whatever drives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.experience.actions import ActionInfo, Policy
from runtime.experience.brains import (
    ActionSpec,
    AllBrainInfo,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    EnvId,
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.players.base_environment import BaseUnityEnvironment

COUNTER = BrainParameters(BrainName("Counter"), (ObservationSpec((2,)),), ActionSpec(continuous_size=1))


class CountingEnv(BaseUnityEnvironment):
    """One agent that observes (worker id, steps since the reset) and earns what it is told to do."""

    def __init__(self, worker_id: int, *, fails_at: int = -1) -> None:
        self._worker_id = worker_id
        self._fails_at = fails_at
        self._steps = 0
        self._parameters: dict[str, float] = {"size": 1.0}

    @property
    def global_done(self) -> bool:
        """Never: agents end by themselves."""
        return False

    @property
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The one brain."""
        return {"Counter": COUNTER}

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        """What was given last."""
        return self._parameters

    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
        """Back to step 0."""
        del train_mode
        self._parameters.update(config or {})
        self._steps = 0
        return self._infos(0.0)

    def step(
        self,
        vector_action: Mapping[str, Any] | None = None,
        memory: Any = None,
        text_action: Any = None,
        value: Any = None,
    ) -> AllBrainInfo:
        """One step; the reward is the action."""
        del memory, text_action, value
        self._steps += 1
        if self._steps == self._fails_at:
            msg = f"the world of worker {self._worker_id} is broken"
            raise ValueError(msg)
        reward = float(np.asarray((vector_action or {})["Counter"]).sum())
        return self._infos(reward)

    def close(self) -> None:
        """Nothing is held."""

    def _infos(self, reward: float) -> AllBrainInfo:
        _, none = empty_rows(COUNTER)
        rows = DecisionRows(
            agents=np.array([7], np.int64),
            observations=(np.array([[self._worker_id, self._steps]], np.float32),),
            rewards=np.array([reward], np.float32),
            action_masks=None,
            group_ids=np.zeros(1, np.int32),
            group_rewards=np.zeros(1, np.float32),
        )
        return {"Counter": BrainInfo(rows, TerminalRows(*_fields(none)), worker_id=EnvId(self._worker_id))}


def _fields(rows: TerminalRows) -> tuple[Any, ...]:
    return (rows.agents, rows.observations, rows.rewards, rows.interrupted, rows.group_ids, rows.group_rewards)


class Always(Policy):
    """The same action for everybody."""

    def __init__(self, action: float) -> None:
        self._action = action

    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        """`action` for each agent that asks."""
        return ActionInfo(np.full((len(brain_info.decisions), 1), self._action, np.float32))
