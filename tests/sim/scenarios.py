"""What is run and what goes wrong in it, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from runtime.decisions.restarts import RestartLimits
from tests.sim.learner import Sizes
from tests.sim.player import Scene

FaultKind = Literal["player", "hang", "worker", "freeze", "holder", "clog", "controller"]
KINDS: tuple[FaultKind, ...] = ("player", "hang", "worker", "freeze", "holder", "clog")
NO_LIMITS = RestartLimits(lifetime_max=-1, rate_max=-1)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong before event number `at`."""

    at: int
    kind: FaultKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run: its size, and its faults.

    seed: names the scenario; the schedule follows from schedule_seed, or from seed where that is None. worker_envs:
    number of environments of each EnvWorker. duplicates: share of messages that are delivered twice. jump_share: how
    often time passes although messages wait. stop_at_event: a StopRequest comes then, if it is not 0.
    """

    seed: int
    schedule_seed: int | None = None
    is_sync: bool = True
    worker_envs: tuple[int, ...] = (1,)
    scene: Scene = Scene()
    sizes: Sizes = Sizes()
    block_steps_max: int = 8
    duplicates: float = 0.0
    jump_share: float = 0.0
    faults: tuple[Fault, ...] = ()
    restart_envs_at: int | None = None
    stop_at_event: int = 0
    limits: RestartLimits = NO_LIMITS

    @property
    def environments(self) -> int:
        """Environments in all."""
        return sum(self.worker_envs)


def scene_of(rng: random.Random) -> Scene:
    """Agents and brains of a run."""
    return Scene(
        agents=rng.randint(1, 3),
        brains=rng.choice((("Walker",), ("Walker",), ("Walker", "Runner"), ("Walker?team=0", "Walker?team=1"))),
        late_brain=rng.choice(("", "", "Late")),
        late_at=rng.randint(1, 20),
        announces=rng.random() < 0.7,
    )


def quiet(seed: int, *, is_sync: bool) -> Scenario:
    """A run in which nothing is lost: messages may come twice and late, and that is all."""
    rng = random.Random(f"quiet {seed}")
    return Scenario(
        seed=seed,
        is_sync=is_sync,
        worker_envs=tuple(rng.randint(1, 2) for _ in range(rng.randint(1, 3))),
        scene=scene_of(rng),
        sizes=Sizes(buffer_size=rng.randint(6, 24), max_steps=rng.randint(20, 90)),
        block_steps_max=rng.randint(3, 12),
        duplicates=rng.choice((0.0, 0.05, 0.3)),
        jump_share=rng.choice((0.0, 0.02)),
    )


def troubled(seed: int, *, is_sync: bool) -> Scenario:
    """A run in which processes die: a few faults of kinds that the seed allows, at moments that it draws."""
    rng = random.Random(f"troubled {seed}")
    base = quiet(seed, is_sync=is_sync)
    kinds = [each for each in KINDS if rng.random() < 0.6] or ["player"]
    faults = tuple(
        Fault(at, rng.choice(kinds)) for at in sorted(rng.randint(1, 1500) for _ in range(rng.randint(1, 6)))
    )
    return replace(
        base,
        sizes=Sizes(buffer_size=rng.randint(6, 24), max_steps=rng.randint(40, 150)),
        faults=faults,
        restart_envs_at=rng.choice((None, None, rng.randint(5, 40))),
    )
