"""An EnvWorker's machine on a bench: driven with facts about its players, in as many words as a test needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from runtime.decisions.effects import PlayerClosed, PlayerConnected, PlayerFailed, PlayerReplied, PlayerStepped
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.env_worker_state import Phase, Slot
from runtime.experience.brains import EnvId, Incarnation
from tests.support.builders_messages import (
    WALKER,
    assignment,
    brain,
    env_grant,
    policy,
    reset_request,
    start_worker,
    step_grant,
)


def connected(env_id: int = 0, incarnation: int = 0, *, brains: tuple[str, ...] = ()) -> PlayerConnected:
    found = tuple(brain(name) for name in brains)
    return PlayerConnected(EnvId(env_id), Incarnation(incarnation), 50 + env_id, {"gravity": 9.8}, found)


def replied(env_id: int = 0, incarnation: int = 0, **pending: int) -> PlayerReplied:
    return PlayerReplied(EnvId(env_id), Incarnation(incarnation), pending or {WALKER: 1})


def stepped(env_id: int = 0, incarnation: int = 0, *, steps: int = 1) -> PlayerStepped:
    return PlayerStepped(EnvId(env_id), Incarnation(incarnation), steps)


def failed(env_id: int = 0, incarnation: int = 0, *, unreported: int = 0) -> PlayerFailed:
    return PlayerFailed(EnvId(env_id), Incarnation(incarnation), "step", "died", "it has ended", unreported)


def closed(env_id: int = 0, incarnation: int = 0) -> PlayerClosed:
    return PlayerClosed(EnvId(env_id), Incarnation(incarnation))


class WorkerBench:
    """A worker whose players are where a test wants them."""

    def __init__(
        self, environments: int = 1, *, block_steps_max: int = 10, carries: Literal["columns", "step_infos"] = "columns"
    ) -> None:
        start = start_worker((assignment(each) for each in range(environments)), block_steps_max=block_steps_max)
        self.core = EnvWorkerCore(replace(start, carries=carries), pid=11)
        self.begun = self.core.begin()

    def take(self, *messages: object, now_s: float = 0.0) -> tuple[object, ...]:
        """All effects of these messages."""
        return tuple(effect for each in messages for effect in self.core.handle(each, now_s))

    def slot(self, env_id: int = 0) -> Slot:
        return self.core.state.slots[EnvId(env_id)]

    def ready(self, env_id: int = 0) -> WorkerBench:
        """Connected and reset."""
        self.take(connected(env_id), reset_request(env_id), replied(env_id))
        return self

    def stepping(self, env_id: int = 0, *, until: int = 5) -> WorkerBench:
        """In its first step, with the policy there."""
        self.ready(env_id)
        if not self.core.state.installed:
            self.take(policy())
        self.take(step_grant(env_grant(env_id, until=until)))
        assert self.slot(env_id).phase is Phase.STEPPING
        return self
