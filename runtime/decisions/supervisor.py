"""What the Supervisor decides: who is started, what is started again, and when the run is over.

EnvWorkers, players and the PolicyHolder are restarted against budgets; a dead TrainerController ends the run. Losses
that another start cannot cure (a version mismatch, bad content, a user's exception) end it at once. Incarnations are
handed out here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runtime.decisions.effects import (
    CONTROLLER,
    HOLDER,
    CancelTimer,
    Finish,
    KillPart,
    PartExited,
    PartReady,
    Reply,
    Role,
    Send,
    SetTimer,
    SpawnPart,
    TimerFired,
    worker_role,
)
from runtime.decisions.ledger import about
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RestartBudget, RestartLimits
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    RESTARTABLE_LOSSES,
    EnvAssignment,
    HolderRestarted,
    PlayerLost,
    PolicyOverdue,
    RestartDenied,
    RestartPlayersRequest,
    StartPlayer,
    StartWorker,
    Status,
    StatusRequest,
    Stopped,
    StopRequest,
    WorkerFailed,
    WorkerOverdue,
    WorkerReady,
)
from runtime.seeds import player_seed

Effects = tuple[object, ...]

PART_START_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """What is to be supervised.

    worker_envs: the environments of each EnvWorker. template: a StartWorker without environments. ports: by
    environment, 0 for links without a socket. first_incarnation: of every player. is_blocking: players block their
    EnvWorker, so one that is silent takes its worker with it. has_controller: False where code outside the actors
    holds the loop and takes the TrainerController's place.
    """

    run: str
    worker_envs: tuple[tuple[EnvId, ...], ...]
    template: StartWorker
    ports: Mapping[EnvId, int]
    limits: RestartLimits
    first_incarnation: int = 0
    is_blocking: bool = False
    has_controller: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """All that the Supervisor remembers.

    generations: how often each part was started, by its role. incarnations: of each environment. stopped: parts that
    said they have ended. outcome: the controller's last word.
    """

    options: SupervisorOptions
    generations: Mapping[Role, int] = field(default_factory=dict)
    ready: frozenset[Role] = frozenset()
    incarnations: Mapping[EnvId, int] = field(default_factory=dict)
    env_budgets: Mapping[EnvId, RestartBudget] = field(default_factory=dict)
    part_budgets: Mapping[Role, RestartBudget] = field(default_factory=dict)
    stopped: frozenset[str] = frozenset()
    stop: StopRequest | None = None
    denied: bool = False
    latest: Status | None = None
    outcome: Stopped | None = None
    dropped: int = 0


class SupervisorCore:
    """The machine of the Supervisor: `handle` takes a message with its sender and returns effects."""

    def __init__(self, options: SupervisorOptions) -> None:
        envs = [env_id for each in options.worker_envs for env_id in each]
        first = [CONTROLLER, HOLDER] if options.has_controller else [HOLDER]
        roles = [*first, *(worker_role(each) for each in range(len(options.worker_envs)))]
        self.state = SupervisorState(
            options=options,
            generations=dict.fromkeys(roles, 0),
            incarnations=dict.fromkeys(envs, options.first_incarnation),
            env_budgets={each: RestartBudget(limits=options.limits) for each in envs},
            part_budgets={each: RestartBudget(limits=options.limits) for each in roles},
        )

    def begin(self) -> Effects:
        """Start every part."""
        effects: list[object] = []
        for role in self.state.generations:
            effects.extend(_spawn(role, 0))
        return tuple(effects)

    def handle(self, envelope: From, now_s: float) -> Effects:
        """The effects of a message or fact. If this raises, the machine is unchanged."""
        message = envelope.message
        if getattr(message, "run", self.state.options.run) != self.state.options.run:
            self.state = replace(self.state, dropped=self.state.dropped + 1)
            return ()
        if isinstance(message, StatusRequest):
            return (Reply(envelope.sender, status_of(self.state)),)
        self.state, effects = _decide(self.state, message, now_s)
        return effects


def status_of(state: SupervisorState) -> Status:
    """The newest status, with the outcome once the run is over."""
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
    if state.outcome is None:
        return replace(latest, exit_reason="")
    outcome = state.outcome
    return replace(latest, exit_reason=outcome.exit_reason, exit_code=outcome.exit_code, cause=outcome.cause)


def _spawn(role: Role, generation: int) -> Effects:
    return (SpawnPart(role, generation), SetTimer(("start", role, generation), PART_START_S))


def _decide(state: SupervisorState, message: object, now_s: float) -> tuple[SupervisorState, Effects]:
    match message:
        case PartReady():
            return _part_ready(state, message)
        case PartExited():
            return _part_exited(state, message, now_s)
        case PlayerLost():
            return _player_lost(state, message, now_s)
        case Status():
            return replace(state, latest=message), ()
        case WorkerReady():
            return state, ()
        case WorkerOverdue():
            role = worker_role(message.worker)
            return state, (KillPart(role, state.generations.get(role, 0)),)
        case PolicyOverdue():
            return state, (KillPart(HOLDER, state.generations[HOLDER]),)
        case RestartPlayersRequest():
            return _restart_players(state)
        case StopRequest():
            return _stop(state, message)
        case Stopped():
            return _stopped(state, message)
        case TimerFired():
            return _timer(state, message)
        case _:
            msg = f"the Supervisor was sent {type(message).__name__}, which is not for it"
            raise ActorProtocolError(msg)


def _assignment(state: SupervisorState, env_id: EnvId) -> EnvAssignment:
    incarnation = Incarnation(state.incarnations[env_id])
    return EnvAssignment(
        env_id=env_id,
        incarnation=incarnation,
        seed=player_seed(state.options.template.run_seed, env_id, incarnation),
        port=state.options.ports.get(env_id, 0),
    )


def _part_ready(state: SupervisorState, message: PartReady) -> tuple[SupervisorState, Effects]:
    role = message.role
    if message.generation != state.generations.get(role):
        return replace(state, dropped=state.dropped + 1), ()
    state = replace(state, ready=state.ready | {role})
    effects: list[object] = [CancelTimer(("start", role, message.generation))]
    options = state.options
    if role.kind == "worker":
        environments = tuple(_assignment(state, each) for each in options.worker_envs[role.number])
        effects.append(Send(role, replace(options.template, worker=role.number, environments=environments)))
    if role == HOLDER and message.generation:
        restarted = HolderRestarted(run=options.run, incarnation=Incarnation(message.generation))
        effects.append(Send(CONTROLLER, restarted))
        effects.extend(Send(worker_role(each), restarted) for each in range(len(options.worker_envs)))
    return state, tuple(effects)


def _is_ending(state: SupervisorState) -> bool:
    return state.outcome is not None or state.stop is not None or state.denied


def _part_exited(state: SupervisorState, message: PartExited, now_s: float) -> tuple[SupervisorState, Effects]:
    role = message.role
    if message.generation != state.generations.get(role) or state.outcome is not None:
        return replace(state, dropped=state.dropped + 1), ()
    state = replace(state, ready=state.ready - {role})
    if role == CONTROLLER:
        cause = f"the TrainerController was lost: {message.cause}; the last save stands, --resume goes on from it"
        return _end(
            state,
            Stopped(run=state.options.run, part="controller", exit_reason="trainer_failure", exit_code=4, cause=cause),
        )
    if str(role) in state.stopped:
        return state, ()
    failed: Effects = ()
    if role.kind == "worker":
        envs = state.options.worker_envs[role.number]
        held = tuple((each, Incarnation(state.incarnations[each])) for each in envs)
        state = replace(
            state, incarnations={**state.incarnations, **{each: state.incarnations[each] + 1 for each in envs}}
        )
        failed = (
            Send(
                CONTROLLER,
                WorkerFailed(run=state.options.run, worker=role.number, environments=held, cause=message.cause),
            ),
        )
    if _is_ending(state):
        return state, failed
    return _restart_part(state, role, message.cause, failed, now_s)


def _restart_part(
    state: SupervisorState, role: Role, cause: str, first: Effects, now_s: float
) -> tuple[SupervisorState, Effects]:
    budget = state.part_budgets[role]
    refusal = budget.refusal(now_s)
    if refusal:
        name = f"EnvWorker {role.number}" if role.kind == "worker" else "the PolicyHolder"
        text = f"{name} was lost: {cause}\n{refusal}; its restarts so far:\n{budget.account(now_s)}"
        state, effects = _deny(state, text)
        return state, (*first, *effects)
    generation = state.generations[role] + 1
    state = replace(
        state,
        generations={**state.generations, role: generation},
        part_budgets={**state.part_budgets, role: budget.spend(now_s, cause)},
    )
    return state, (*first, *_spawn(role, generation))


def _deny(state: SupervisorState, cause: str) -> tuple[SupervisorState, Effects]:
    if state.denied:
        return state, ()
    return replace(state, denied=True), (Send(CONTROLLER, RestartDenied(run=state.options.run, cause=cause)),)


def _player_lost(state: SupervisorState, message: PlayerLost, now_s: float) -> tuple[SupervisorState, Effects]:
    env_id = message.env_id
    if message.incarnation != state.incarnations.get(env_id) or _is_ending(state):
        return replace(state, dropped=state.dropped + 1), ()
    budget = state.env_budgets[env_id]
    cause = about(env_id, message.incarnation, message.cause)
    if message.kind not in RESTARTABLE_LOSSES:
        return _deny(state, cause)
    refusal = budget.refusal(now_s)
    if refusal:
        return _deny(state, f"{cause}\n{refusal}; its restarts so far:\n{budget.account(now_s)}")
    state = replace(state, env_budgets={**state.env_budgets, env_id: budget.spend(now_s, message.cause)})
    role = worker_role(message.worker)
    if state.options.is_blocking and message.kind == "timeout":
        # Its thread is stuck in the user's code: only a new process helps. PartExited raises the incarnation.
        return state, (KillPart(role, state.generations[role]),)
    state = replace(state, incarnations={**state.incarnations, env_id: state.incarnations[env_id] + 1})
    start = StartPlayer(run=state.options.run, environment=_assignment(state, env_id))
    return state, (Send(role, start),)


def _restart_players(state: SupervisorState) -> tuple[SupervisorState, Effects]:
    incarnations = {env_id: each + 1 for env_id, each in state.incarnations.items()}
    state = replace(state, incarnations=incarnations)
    effects = tuple(
        Send(worker_role(worker), StartPlayer(run=state.options.run, environment=_assignment(state, env_id)))
        for worker, envs in enumerate(state.options.worker_envs)
        for env_id in envs
    )
    return state, effects


def _stop(state: SupervisorState, message: StopRequest) -> tuple[SupervisorState, Effects]:
    if state.outcome is not None or state.stop is not None:
        return state, ()
    state = replace(state, stop=message)
    exit_code = {"interrupted": 130, "terminated": 143}.get(message.reason, 0)
    if CONTROLLER not in state.ready:
        outcome = Stopped(run=message.run, part="controller", exit_reason=message.reason, exit_code=exit_code)
        return _end(state, outcome)
    return state, (Send(CONTROLLER, message), SetTimer("stop", message.deadline_s))


def _timer(state: SupervisorState, message: TimerFired) -> tuple[SupervisorState, Effects]:
    match message.token:
        case ("start", Role() as role, int(generation)):
            if role in state.ready or state.generations[role] != generation:
                return state, ()
            return state, (KillPart(role, generation),)
        case "stop" if state.stop is not None and state.outcome is None:
            reason = state.stop.reason
            exit_code = {"interrupted": 130, "terminated": 143}.get(reason, 0)
            cause = "the TrainerController did not end in time; the last save stands"
            return _end(
                state,
                Stopped(run=state.options.run, part="controller", exit_reason=reason, exit_code=exit_code, cause=cause),
            )
        case _:
            return state, ()


def _stopped(state: SupervisorState, message: Stopped) -> tuple[SupervisorState, Effects]:
    if message.part == "controller":
        return _end(state, message)
    return replace(state, stopped=state.stopped | {message.part}), ()


def _end(state: SupervisorState, outcome: Stopped) -> tuple[SupervisorState, Effects]:
    if state.outcome is not None:
        return state, ()
    return replace(state, outcome=outcome), (CancelTimer("stop"), Finish())
