"""A TrainerController's machine on a bench, with a learner that answers at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions, ControllerState
from runtime.decisions.effects import AcceptBlocks, AddBrain, BlocksAccepted, BrainAdded, UpdateFinished
from runtime.decisions.ledger import EnvRecord
from runtime.experience.brains import EnvId
from runtime.learner import BrainProgress
from runtime.messages import StepGrant
from tests.support.builders_messages import (
    RUN,
    WALKER,
    block,
    brains_found,
    env_reset,
    of_type,
    progress,
    release,
    sent,
    steps_taken,
    worker_ready,
)


class ControllerBench:
    """A controller with a learner that answers at once and says of itself what the test says."""

    def __init__(self, environments: int = 1, **options: object) -> None:
        chosen = ControllerOptions(run=RUN, environments=environments, block_steps_max=4)
        self.core = ControllerCore(replace(chosen, **options))  # type: ignore[arg-type] # fields of the options
        self.core.begin()
        self.progress: Mapping[str, BrainProgress] = progress()

    def take(self, *messages: object) -> tuple[object, ...]:
        """All effects of these messages, and of the learner's answers to them."""
        effects: list[object] = []
        waiting = list(messages)
        while waiting:
            new = self.core.handle(waiting.pop(0), 0.0)
            effects.extend(new)
            waiting[:0] = [answer for each in new for answer in self._answer(each)]
        return tuple(effects)

    def _answer(self, effect: object) -> list[object]:
        if isinstance(effect, AddBrain):
            name = effect.brain.behavior_name
            new = None if name in self.state.behaviors else release(0, name)
            if name not in self.progress:
                self.progress = {**self.progress, **progress(name)}
            return [BrainAdded(effect.brain, new, self.progress, 50)]
        return [BlocksAccepted(self.progress)] if isinstance(effect, AcceptBlocks) else []

    @property
    def state(self) -> ControllerState:
        return self.core.state

    def env(self, env_id: int = 0) -> EnvRecord:
        return self.state.envs[EnvId(env_id)]

    def reset(self, env_id: int = 0, incarnation: int = 0, *, worker: int = 0, agents: int = 1) -> tuple[object, ...]:
        """An environment has connected, found Walker and was reset."""
        return self.take(
            worker_ready(env_id, incarnation, worker),
            brains_found(),
            env_reset(env_id, incarnation=incarnation, pending={WALKER: agents}),
        )

    def finish_update(self, version: int = 1, **changes: int | bool) -> tuple[object, ...]:
        """The update under way has made this version."""
        self.progress = progress(version=version, **changes)  # type: ignore[arg-type] # arguments of the builder
        return self.take(UpdateFinished(release(version), self.progress))


def grants_in(effects: tuple[object, ...]) -> dict[tuple[int, int], int]:
    """How far each (environment, incarnation) may go."""
    grants = [grant for each in sent(effects, StepGrant) for grant in each.grants]
    return {(each.env_id, each.incarnation): each.until_step for each in grants}


def accepted_in(effects: tuple[object, ...]) -> list[tuple[int, int]]:
    """(environment, first step) of the blocks given to the learner, without resets."""
    return [
        (each.env_id, each.first_step)
        for effect in of_type(effects, AcceptBlocks)
        for each in effect.blocks
        if each.steps
    ]


def in_round(environments: int = 2) -> ControllerBench:
    """Every environment steps, four steps at most, one agent each."""
    bench = ControllerBench(environments)
    for each in range(environments):
        bench.reset(each)
    return bench


def freely(environments: int = 2) -> ControllerBench:
    """Asynchronous collection: blocks of two steps, windows of four."""
    bench = ControllerBench(environments, is_sync=False, block_steps_max=2)
    for each in range(environments):
        bench.reset(each)
    return bench


def three_versions_ahead() -> ControllerBench:
    """Asynchronous collection: environment 1 has told nothing since version 0, three updates ago."""
    bench = freely()
    for version in (1, 2, 3):
        bench.progress = progress(is_ready=True)
        bench.take(steps_taken(block(0, first=2 * (version - 1), steps=2, version=version - 1)))
        bench.finish_update(version)
    return bench


def round_of(bench: ControllerBench, *, agent_steps: int = 4) -> tuple[object, ...]:
    """The only environment delivers all that it was granted."""
    record = bench.env()
    return bench.take(
        steps_taken(block(0, first=record.received, steps=record.until - record.received, agent_steps=agent_steps))
    )
