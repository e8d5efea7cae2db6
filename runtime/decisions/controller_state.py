"""What the TrainerController remembers, frozen; `controller.py` decides what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from runtime.decisions.ledger import Counters, EnvRecord
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.columns import StepBlock
from runtime.experience.lessons import LessonPlan, LessonState
from runtime.experience.parameters import ParameterValue
from runtime.learner import BrainProgress, PolicyRelease


class ControllerPhase(Enum):
    """What the run as a whole is doing."""

    GATHERING = "waiting for environments"
    COLLECTING = "collecting"
    SETTLING = "updating"
    STOPPING = "stopping"
    SAVING = "saving"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """What a run asks of its controller.

    environments: their number. block_steps_max: env steps per block at most. stop_at, restart_envs_at: agent steps.
    idle_steps: env steps without an agent after which a behavior no longer holds up the end of the run. lessons: of the
    parameters that have some; first_lesson: with which they begin, None for 0 or the saved ones. resampling_interval:
    env steps after which all players are reset, None for never.
    """

    run: str
    environments: int
    is_sync: bool = True
    is_training: bool = True
    block_steps_max: int = 100
    stop_at: int | None = None
    restart_envs_at: int | None = None
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    train_mode: bool = True
    idle_steps: int = 500
    stop_deadline_s: float = 6.0
    first_incarnation: int = 0
    lessons: tuple[LessonPlan, ...] = ()
    first_lesson: int | None = None
    resampling_interval: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorRecord:
    """One behavior: its newest release, the version that acted last, and when it last had an agent (env steps)."""

    release: PolicyRelease
    acted_version: int = -1
    agents_seen_at: int = 0
    checkpoint_interval: int = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why the run ends: the reason for summary.json, the exit code, the cause in words, whether models are saved."""

    reason: str
    exit_code: int
    cause: str = ""
    saves: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """All that the controller remembers.

    round_blocks: blocks of the round, not yet accepted, by environment. cuts: environments whose trajectories end once
    their blocks of the round are accepted. accepting: AcceptBlocks that the learner has not answered. updating:
    behaviors whose update is under way or queued. stopped: workers that have ended. overdue: those that have not when
    they were no longer waited for. failed_at: newest incarnation that was lost with its worker, by worker;
    holder_failed_at: newest PolicyHolder that was lost. agents_max: most agents ever seen waiting in one environment.
    is_save_failing: the newest save failed, which was said. seen_before: env steps when behaviors of a resumed run last
    had an agent. next_save: agent steps of the next checkpoint, by behavior.
    bounded: by environment and incarnation, what counts as unreported until the news of its loss comes.
    riding: EnvWorkers whose newest grant went with a policy, and how many periods of the status ago.
    lessons: where the curricula are; resampled: how often parameters were drawn anew. parameters_id: how often lessons
    changed in this process. is_reset_due: all players are reset before they go on. is_unknown_told: it was said that
    lessons wait for a behavior that nobody has announced.
    """

    options: ControllerOptions
    phase: ControllerPhase = ControllerPhase.GATHERING
    envs: Mapping[EnvId, EnvRecord] = field(default_factory=dict)
    behaviors: Mapping[str, BehaviorRecord] = field(default_factory=dict)
    progress: Mapping[str, BrainProgress] = field(default_factory=dict)
    counters: Counters = Counters()
    round_blocks: Mapping[EnvId, tuple[StepBlock, ...]] = field(default_factory=dict)
    cuts: frozenset[EnvId] = frozenset()
    bounded: Mapping[tuple[EnvId, Incarnation], int] = field(default_factory=dict)
    accepting: int = 0
    updating: tuple[str, ...] = ()
    is_saving: bool = False
    is_save_failing: bool = False
    has_restarted_envs: bool = False
    waits_for_all: bool = True
    ending: Ending | None = None
    stopped: frozenset[int] = frozenset()
    worker_restarts: Mapping[int, int] = field(default_factory=dict)
    failed_at: Mapping[int, int] = field(default_factory=dict)
    holder_restarts: int = 0
    holder_failed_at: int = -1
    riding: Mapping[int, int] = field(default_factory=dict)
    overdue: frozenset[int] = frozenset()
    agents_max: int = 0
    seen_before: Mapping[str, int] = field(default_factory=dict)
    next_save: Mapping[str, int] = field(default_factory=dict)
    lessons: LessonState = LessonState()
    resampled: int = 0
    parameters_id: int = 0
    is_reset_due: bool = False
    is_unknown_told: bool = False

    @property
    def workers(self) -> frozenset[int]:
        """Numbers of the EnvWorkers that hold environments now."""
        return frozenset(each.worker for each in self.envs.values() if each.worker >= 0)

    def seen_at(self, behavior: str) -> int:
        """Env steps when the behavior last had an agent; now for one that was never announced."""
        record = self.behaviors.get(behavior)
        return self.seen_before.get(behavior, self.counters.env_steps) if record is None else record.agents_seen_at

    @property
    def versions(self) -> Mapping[str, int]:
        """The newest policy version of each behavior."""
        return {name: each.release.version for name, each in self.behaviors.items()}
