"""What the Supervisor remembers, frozen, and what it tells the operator; `supervisor.py` decides what comes next.

The Supervisor never works for long, so losses are told by it and not by the TrainerController, which may be busy
learning: its own lines and the controller's make one sequence, numbered anew in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.decisions.effects import CONTROLLER, Role, worker_role
from runtime.decisions.frozen import replace
from runtime.decisions.restarts import RestartBudget, RestartLimits
from runtime.experience.brains import EnvId
from runtime.messages import StartWorker, Status, Stopped, StopRequest

LINES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """What is to be supervised.

    worker_envs: the environments of each EnvWorker. template: a StartWorker without environments. ports: by
    environment, 0 for links without a socket. first_incarnation: of every player. is_blocking: players block their
    EnvWorker, so one that is silent takes its worker with it. has_controller: False where code outside the actors
    holds the loop and takes the TrainerController's place. silence_s, controller_silence_s: an EnvWorker, or a
    controller, that runs and says nothing for this long is taken for hung.
    """

    run: str
    worker_envs: tuple[tuple[EnvId, ...], ...]
    template: StartWorker
    ports: Mapping[EnvId, int]
    limits: RestartLimits
    first_incarnation: int = 0
    is_blocking: bool = False
    has_controller: bool = True
    silence_s: float = 15.0
    controller_silence_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """All that the Supervisor remembers.

    generations: how often each part was started, by its role. incarnations: of each environment. silent_s: seconds,
    counted by the Supervisor's own timer, since a part that is ready was heard. stopped: parts that said they have
    ended. lines: the newest, numbered; lines_told: how many there were in all; lines_heard: number of the newest line
    taken over from the controller. outcome: the controller's last word.
    """

    options: SupervisorOptions
    generations: Mapping[Role, int] = field(default_factory=dict)
    ready: frozenset[Role] = frozenset()
    incarnations: Mapping[EnvId, int] = field(default_factory=dict)
    env_budgets: Mapping[EnvId, RestartBudget] = field(default_factory=dict)
    part_budgets: Mapping[Role, RestartBudget] = field(default_factory=dict)
    silent_s: Mapping[Role, float] = field(default_factory=dict)
    stopped: frozenset[str] = frozenset()
    stop: StopRequest | None = None
    denied: bool = False
    lines: tuple[tuple[int, str], ...] = ()
    lines_told: int = 0
    lines_heard: int = -1
    latest: Status | None = None
    outcome: Stopped | None = None
    dropped: int = 0

    @property
    def is_ending(self) -> bool:
        """True once nothing is started again."""
        return self.outcome is not None or self.stop is not None or self.denied


def name_of(role: Role) -> str:
    """How a part is called on screen."""
    names = {"controller": "the TrainerController", "holder": "the PolicyHolder"}
    return names.get(role.kind, f"EnvWorker {role.number}")


def warn(state: SupervisorState, text: str) -> SupervisorState:
    """After telling the operator of something that went wrong."""
    return _with_lines(state, tuple(f"[WARNING] {line}" for line in text.splitlines()))


def note(state: SupervisorState, text: str) -> SupervisorState:
    """After telling the operator of something worth knowing."""
    return _with_lines(state, tuple(f"[INFO] {line}" for line in text.splitlines()))


def _with_lines(state: SupervisorState, texts: tuple[str, ...]) -> SupervisorState:
    numbered = tuple(enumerate(texts, state.lines_told))
    return replace(state, lines=(*state.lines, *numbered)[-LINES_MAX:], lines_told=state.lines_told + len(texts))


def take_status(state: SupervisorState, status: Status) -> SupervisorState:
    """After a Status of the controller: its lines join ours."""
    new = tuple(text for number, text in status.lines if number > state.lines_heard)
    heard = max((number for number, _ in status.lines), default=state.lines_heard)
    return replace(_with_lines(state, new), latest=status, lines_heard=heard)


def status_of(state: SupervisorState) -> Status:
    """The newest status with all lines, and with the outcome once the run is over."""
    latest = state.latest or Status(
        run=state.options.run,
        env_steps=0,
        agent_steps=0,
        decisions=0,
        lost_steps={},
        unreported_steps_max=0,
        brains=(),
        environments=(),
        worker_restarts={},
        dropped_messages={},
        lines=(),
        first_step_s=None,
    )
    latest = replace(latest, lines=state.lines)
    if state.outcome is None:
        return replace(latest, exit_reason="")
    outcome = state.outcome
    return replace(latest, exit_reason=outcome.exit_reason, exit_code=outcome.exit_code, cause=outcome.cause)


def heard(state: SupervisorState, message: object) -> SupervisorState:
    """After a message that shows that its sender works."""
    worker = getattr(message, "worker", -1)
    role = CONTROLLER if isinstance(message, Status) else worker_role(worker)
    return replace(state, silent_s={**state.silent_s, role: 0.0}) if role in state.ready else state


def with_leave(state: SupervisorState, role: Role, seconds: float) -> SupervisorState:
    """After a part has said that it will be busy, and say nothing, for so long."""
    return replace(state, silent_s={**state.silent_s, role: -seconds}) if role in state.ready else state


def with_silence(state: SupervisorState, seconds: float) -> SupervisorState:
    """After `seconds` of the Supervisor's own time, in which messages that came were taken first.

    The clock is not asked: where the whole machine stood still, nobody had time to speak.
    """
    silent_s = {
        role: state.silent_s.get(role, 0.0) + seconds
        for role in state.ready
        if role.kind in {"controller", "worker"} and str(role) not in state.stopped
    }
    return replace(state, silent_s=silent_s)
