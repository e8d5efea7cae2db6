"""What the Supervisor decides: who is started, what is started again, and when the run is over.

EnvWorkers, players and the PolicyHolder are restarted against budgets; a dead TrainerController ends the run. Losses
that another start cannot cure (a version mismatch, bad content, a user's exception) end it at once. Incarnations are
handed out here and nowhere else.
"""

from __future__ import annotations

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
from runtime.decisions.frozen import replace
from runtime.decisions.ledger import about
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RESTARTABLE_LOSSES, RestartBudget
from runtime.decisions.supervisor_state import (
    SupervisorOptions,
    SupervisorState,
    heard,
    name_of,
    note,
    status_of,
    take_status,
    warn,
    with_leave,
    with_silence,
)
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    EnvAssignment,
    HolderFailed,
    HolderRestarted,
    PlayerLost,
    PolicyOverdue,
    RestartDenied,
    RestartPlayersRequest,
    StartPlayer,
    Status,
    StatusRequest,
    Stopped,
    StopRequest,
    WorkerAlive,
    WorkerFailed,
    WorkerNote,
    WorkerReady,
)
from runtime.seeds import player_seed

__all__ = ["SupervisorCore", "SupervisorOptions", "SupervisorState", "status_of"]

Effects = tuple[object, ...]

PART_START_S = 45.0
WATCH_S = 1.0
EXIT_CODES = {"interrupted": 130, "terminated": 143}


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
        """Start every part, and begin to watch."""
        effects: list[object] = [SetTimer("watch", WATCH_S)]
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
        self.state, effects = _decide(heard(self.state, message), message, now_s)
        return effects


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
            return take_status(state, message), ()
        case WorkerReady():
            # By way of us, so that it comes after the introduction of a worker that was started again.
            return state, (Send(CONTROLLER, message),)
        case WorkerAlive(busy_s=busy_s) if busy_s:
            return with_leave(state, worker_role(message.worker), busy_s), ()
        case WorkerAlive():
            return state, ()
        case WorkerNote():
            return (warn if message.level == "fault" else note)(state, message.text), ()
        case PolicyOverdue():
            return _policy_overdue(state, message)
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
        restarts=state.env_budgets[env_id].spent,
    )


def _part_ready(state: SupervisorState, message: PartReady) -> tuple[SupervisorState, Effects]:
    role = message.role
    if message.generation != state.generations.get(role):
        return replace(state, dropped=state.dropped + 1), ()
    # The silence, or the leave, of the one before it is not its own.
    state = replace(state, ready=state.ready | {role}, silent_s={**state.silent_s, role: 0.0})
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


def _part_exited(state: SupervisorState, message: PartExited, now_s: float) -> tuple[SupervisorState, Effects]:
    role, name = message.role, name_of(message.role)
    failed: HolderFailed | WorkerFailed
    if message.generation != state.generations.get(role) or state.outcome is not None:
        return replace(state, dropped=state.dropped + 1), ()
    state = replace(state, ready=state.ready - {role})
    if role == CONTROLLER:
        return _end(state, _lost_controller(state, message.cause))
    if str(role) in state.stopped:
        # Its last steps and its word to the controller may have died with it.
        state, failed = _worker_failed(state, role, message.cause, is_restarted=False)
        return warn(state, f"{name}: {message.cause}; it was not needed any more"), (Send(CONTROLLER, failed),)
    refusal = state.part_budgets[role].refusal(now_s)
    is_restarted = not (state.is_ending or refusal)
    if role == HOLDER:
        number = Incarnation(message.generation)
        failed = HolderFailed(run=state.options.run, incarnation=number, cause=message.cause, is_restarted=is_restarted)
    else:
        state, failed = _worker_failed(state, role, message.cause, is_restarted=is_restarted)
    told = (Send(CONTROLLER, failed),)
    if state.is_ending:
        return warn(state, f"{name}: {message.cause}; the run is ending"), told
    state, effects = _restart_part(state, role, message.cause, refusal, now_s)
    return state, (*told, *effects)


def _lost_controller(state: SupervisorState, cause: str) -> Stopped:
    cause = f"the TrainerController was lost: {cause}; the last save, if there is one, stands for --resume"
    return Stopped(run=state.options.run, part="controller", exit_reason="trainer_failure", exit_code=4, cause=cause)


def _worker_failed(
    state: SupervisorState, role: Role, cause: str, *, is_restarted: bool
) -> tuple[SupervisorState, WorkerFailed]:
    envs = state.options.worker_envs[role.number]
    held = tuple((each, Incarnation(state.incarnations[each])) for each in envs)
    raised = {each: state.incarnations[each] + 1 for each in envs}
    state = replace(state, incarnations={**state.incarnations, **raised})
    failed = WorkerFailed(
        run=state.options.run,
        worker=role.number,
        environments=held,
        cause=cause,
        is_restarted=is_restarted,
        restarts={each: state.env_budgets[each].spent for each in envs},
    )
    return state, failed


def _restart_part(
    state: SupervisorState, role: Role, cause: str, refusal: str, now_s: float
) -> tuple[SupervisorState, Effects]:
    """Start a part again, or end the run where `refusal` says why its budget does not allow it."""
    budget, name = state.part_budgets[role], name_of(role)
    if refusal:
        account = budget.denial(refusal, now_s)
        return _deny(state, f"{name} was lost: {cause}; run_logs/actors.log may say why\n{account}")
    generation = state.generations[role] + 1
    budget = budget.spend(now_s, cause)
    state = replace(
        state,
        generations={**state.generations, role: generation},
        part_budgets={**state.part_budgets, role: budget},
    )
    state = warn(state, f"{name}: {cause}; it is started again ({budget.spending})")
    return state, _spawn(role, generation)


def _deny(state: SupervisorState, cause: str) -> tuple[SupervisorState, Effects]:
    return replace(state, denied=True), (Send(CONTROLLER, RestartDenied(run=state.options.run, cause=cause)),)


def _player_lost(state: SupervisorState, message: PlayerLost, now_s: float) -> tuple[SupervisorState, Effects]:
    env_id = message.env_id
    if message.incarnation != state.incarnations.get(env_id) or state.outcome is not None:
        return replace(state, dropped=state.dropped + 1), ()
    cause = about(env_id, message.incarnation, message.cause)
    if state.is_ending:
        return warn(state, cause), ()
    budget = state.env_budgets[env_id]
    if message.kind not in RESTARTABLE_LOSSES:
        return _deny(state, cause)
    refusal = budget.refusal(now_s)
    if refusal:
        return _deny(state, f"{cause}\n{budget.denial(refusal, now_s)}")
    budget = budget.spend(now_s, message.cause)
    state = warn(
        replace(state, env_budgets={**state.env_budgets, env_id: budget}),
        f"{cause}\nenvironment {env_id} is started again ({budget.spending})",
    )
    state = replace(state, incarnations={**state.incarnations, env_id: state.incarnations[env_id] + 1})
    role = worker_role(message.worker)
    if state.options.is_blocking and message.kind == "timeout":
        # Its thread is stuck in the user's code: only a new process helps.
        return state, (KillPart(role, state.generations[role]),)
    start = StartPlayer(run=state.options.run, environment=_assignment(state, env_id))
    return state, (Send(role, start), Send(CONTROLLER, start))


def _restart_players(state: SupervisorState) -> tuple[SupervisorState, Effects]:
    if state.is_ending:
        return replace(state, dropped=state.dropped + 1), ()  # it crossed the end of the run
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
    if CONTROLLER not in state.ready or state.latest is None:
        # It is still starting, and has nothing to save.
        return _end(state, _stopped_at_once(message))
    return state, (Send(CONTROLLER, message), SetTimer("stop", message.deadline_s))


def _stopped_at_once(message: StopRequest, cause: str = "") -> Stopped:
    code = EXIT_CODES.get(message.reason, 0)
    return Stopped(run=message.run, part="controller", exit_reason=message.reason, exit_code=code, cause=cause)


def _timer(state: SupervisorState, message: TimerFired) -> tuple[SupervisorState, Effects]:
    match message.token:
        case ("start", Role() as role, int(generation)):
            if role in state.ready or state.generations[role] != generation:
                return state, ()
            text = f"{name_of(role)} has not started within {PART_START_S:g} s; its process is ended"
            return warn(state, text), (KillPart(role, generation),)
        case "stop" if state.stop is not None and state.outcome is None:
            cause = "the TrainerController did not end in time; the last save stands"
            return _end(state, _stopped_at_once(state.stop, cause))
        case "watch" if state.outcome is None:
            return _watch(with_silence(state, WATCH_S))
        case _:
            return state, ()


def _watch(state: SupervisorState) -> tuple[SupervisorState, Effects]:
    """End the EnvWorkers that run and say nothing, and the run when the TrainerController is one of those."""
    options = state.options
    if state.silent_s.get(CONTROLLER, 0.0) >= options.controller_silence_s:
        cause = f"it has said nothing for {options.controller_silence_s:g} s"
        return _end(state, _lost_controller(state, cause))
    hung = sorted(
        (role for role, seconds in state.silent_s.items() if role != CONTROLLER and seconds >= options.silence_s),
        key=str,
    )
    for role in hung:
        text = f"{name_of(role)} has said nothing for {options.silence_s:g} s; it is taken for hung, and ended"
        state = warn(state, text)
    state = replace(state, silent_s={**state.silent_s, **dict.fromkeys(hung, 0.0)})
    kills = tuple(KillPart(role, state.generations[role]) for role in hung)
    return state, (*kills, SetTimer("watch", WATCH_S))


def _policy_overdue(state: SupervisorState, message: PolicyOverdue) -> tuple[SupervisorState, Effects]:
    if HOLDER not in state.ready:
        return state, ()  # another one is being started already
    text = (
        f"the PolicyHolder has not sent version {message.version} of {message.behavior!r} to EnvWorker "
        f"{message.worker} for {message.waited_s:.0f} s; it is taken for hung, and ended"
    )
    return warn(state, text), (KillPart(HOLDER, state.generations[HOLDER]),)


def _stopped(state: SupervisorState, message: Stopped) -> tuple[SupervisorState, Effects]:
    if message.part == "controller":
        return _end(state, message)
    return replace(state, stopped=state.stopped | {message.part}), ()


def _end(state: SupervisorState, outcome: Stopped) -> tuple[SupervisorState, Effects]:
    if state.outcome is not None:
        return state, ()
    return replace(state, outcome=outcome), (CancelTimer("stop"), Finish())
