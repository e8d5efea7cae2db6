"""What an EnvWorker decides: when each of its players is opened, reset, stepped, and when its blocks are sent.

Every environment is a slot with a phase of its own; nothing that happens to one delays another. A slot takes env steps
while it has credit (`until_step`) and every behavior in sight has its granted policy version installed. Whatever breaks
in a slot is told once (`PlayerLost`), after the steps taken before it, and the slot then waits for the Supervisor.

TRANSITIONS holds all legality: (phase, fact or message about one environment) -> next phase. Replies may be under way
when a slot changes, so stale ones (another incarnation) are dropped and counted before the table is consulted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from runtime.decisions.effects import (
    CONTROLLER,
    HOLDER,
    SUPERVISOR,
    CancelTimer,
    ClosePlayer,
    Finish,
    InstallPolicy,
    OpenPlayer,
    PlayerClosed,
    PlayerConnected,
    PlayerFailed,
    PlayerReplied,
    Report,
    ResetPlayer,
    Send,
    SendBlocks,
    SendReset,
    SetTimer,
    StepPlayer,
    TimerFired,
)
from runtime.errors import ActorProtocolError
from runtime.experience.brains import BrainParameters, EnvId
from runtime.messages import (
    BrainsFound,
    EnvAssignment,
    EnvGrant,
    HolderRestarted,
    PlayerLost,
    PolicyOverdue,
    PolicyRequest,
    PolicyUpdate,
    ResetRequest,
    StartPlayer,
    StartWorker,
    StepGrant,
    Stopped,
    StopRequest,
    WorkerAlive,
    WorkerReady,
)

Effects = tuple[object, ...]

HEARTBEAT_S = 1.0
POLICY_ASK_AGAIN_S = 0.5
GATHER_S = 0.1
VERSIONS_KEPT = 3


class Phase(Enum):
    """Where one environment is."""

    OPENING = "opening"
    CONNECTED = "connected"
    RESETTING = "resetting"
    IDLE = "idle"
    STEPPING = "stepping"
    LOST = "lost"
    CLOSING = "closing"
    CLOSED = "closed"


TRANSITIONS: Mapping[tuple[Phase, type], Phase] = {
    (Phase.OPENING, PlayerConnected): Phase.CONNECTED,
    (Phase.OPENING, PlayerFailed): Phase.LOST,
    (Phase.CONNECTED, ResetRequest): Phase.RESETTING,
    (Phase.CONNECTED, PlayerFailed): Phase.LOST,
    (Phase.RESETTING, PlayerReplied): Phase.IDLE,
    (Phase.RESETTING, PlayerFailed): Phase.LOST,
    (Phase.RESETTING, ResetRequest): Phase.RESETTING,
    (Phase.IDLE, ResetRequest): Phase.RESETTING,
    (Phase.IDLE, EnvGrant): Phase.IDLE,
    (Phase.IDLE, PlayerFailed): Phase.LOST,
    (Phase.STEPPING, PlayerReplied): Phase.IDLE,
    (Phase.STEPPING, PlayerFailed): Phase.LOST,
    (Phase.STEPPING, ResetRequest): Phase.STEPPING,
    (Phase.STEPPING, EnvGrant): Phase.STEPPING,
    # The shell may find out twice that a player is gone, and answers may cross a stop or a loss.
    (Phase.LOST, PlayerFailed): Phase.LOST,
    (Phase.LOST, ResetRequest): Phase.LOST,
    (Phase.LOST, EnvGrant): Phase.LOST,
    (Phase.LOST, PlayerClosed): Phase.LOST,
    (Phase.RESETTING, EnvGrant): Phase.RESETTING,
    (Phase.CLOSING, PlayerConnected): Phase.CLOSING,
    (Phase.CLOSING, PlayerReplied): Phase.CLOSING,
    (Phase.CLOSING, PlayerFailed): Phase.CLOSING,
    (Phase.CLOSING, ResetRequest): Phase.CLOSING,
    (Phase.CLOSING, EnvGrant): Phase.CLOSING,
    (Phase.CLOSING, PlayerClosed): Phase.CLOSED,
    (Phase.CLOSED, PlayerClosed): Phase.CLOSED,
    (Phase.CLOSED, PlayerReplied): Phase.CLOSED,
    (Phase.CLOSED, PlayerFailed): Phase.CLOSED,
    (Phase.CLOSED, ResetRequest): Phase.CLOSED,
    (Phase.CLOSED, EnvGrant): Phase.CLOSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One environment of the worker.

    taken, until_step: env steps of this incarnation, taken and allowed. open_steps: taken but not yet sent. wanted:
    a reset that came while a step was under way. waits_since: when it began to wait for a policy, else None.
    """

    assignment: EnvAssignment
    phase: Phase = Phase.OPENING
    reset_id: int = -1
    taken: int = 0
    until_step: int = 0
    open_steps: int = 0
    pending: Mapping[str, int] = field(default_factory=dict)
    wanted: ResetRequest | None = None

    @property
    def env_id(self) -> EnvId:
        """The environment's number."""
        return self.assignment.env_id

    @property
    def has_credit(self) -> bool:
        """True while granted steps are left."""
        return self.taken < self.until_step


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """All that an EnvWorker remembers. versions: granted last, by behavior. installed: newest few, by behavior."""

    start: StartWorker
    slots: Mapping[EnvId, Slot] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    installed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    asked: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    gathers: bool = False
    block_steps: int = 1
    stop: StopRequest | None = None
    dropped: int = 0


class EnvWorkerCore:
    """The machine of one EnvWorker: `handle` takes a message or fact and returns effects."""

    def __init__(self, start: StartWorker, *, pid: int) -> None:
        self.state = WorkerState(start=start)
        self._pid = pid

    def begin(self) -> Effects:
        """The first effects: open every player, and beat."""
        start = self.state.start
        slots = {each.env_id: Slot(assignment=each) for each in start.environments}
        self.state = replace(self.state, slots=slots)
        return (*(OpenPlayer(each) for each in start.environments), SetTimer("heartbeat", HEARTBEAT_S))

    def handle(self, message: object, now_s: float) -> Effects:
        """The effects of `message`. If this raises, the machine is unchanged."""
        run = getattr(message, "run", self.state.start.run)
        if run != self.state.start.run:
            self.state = replace(self.state, dropped=self.state.dropped + 1)
            return ()
        after, effects = self._decide(message, now_s)
        self.state = after
        return effects

    def _decide(self, message: object, now_s: float) -> tuple[WorkerState, Effects]:
        state = self.state
        match message:
            case PlayerConnected() | PlayerReplied() | PlayerFailed() | PlayerClosed() | ResetRequest():
                return _about_slot(state, message, self._pid, now_s)
            case StepGrant():
                return _grant(state, message, now_s)
            case PolicyUpdate():
                return _install(state, message, now_s)
            case StartPlayer():
                return _start_player(state, message)
            case HolderRestarted():
                return _ask_holder_again(state, now_s)
            case StopRequest():
                return _stop(state, message)
            case TimerFired():
                return _timer(state, message, now_s)
            case _:
                msg = f"an EnvWorker was sent {type(message).__name__}, which is not for it"
                raise ActorProtocolError(msg)


def _with_slot(state: WorkerState, slot: Slot) -> WorkerState:
    return replace(state, slots={**state.slots, slot.env_id: slot})


def _drop(state: WorkerState) -> tuple[WorkerState, Effects]:
    return replace(state, dropped=state.dropped + 1), ()


def _next_phase(slot: Slot, message: object) -> Phase:
    phase = TRANSITIONS.get((slot.phase, type(message)))
    if phase is None:
        msg = f"environment {slot.env_id}: {type(message).__name__} while {slot.phase.value}"
        raise ActorProtocolError(msg)
    return phase


SlotMessage = PlayerConnected | PlayerReplied | PlayerFailed | PlayerClosed | ResetRequest


def _about_slot(state: WorkerState, message: SlotMessage, pid: int, now_s: float) -> tuple[WorkerState, Effects]:
    slot = state.slots.get(message.env_id)
    if slot is None or slot.assignment.incarnation != message.incarnation:
        return _drop(state)
    before, slot = slot, replace(slot, phase=_next_phase(slot, message))
    match message:
        case PlayerConnected():
            return _connected(state, slot, message, pid)
        case PlayerReplied():
            return _replied(state, before, slot, message, now_s)
        case PlayerFailed():
            return _failed(state, before, slot, message)
        case ResetRequest():
            return _reset(state, before, slot, message)
        case PlayerClosed():
            return _end_slots(_with_slot(state, slot))


def _connected(state: WorkerState, slot: Slot, message: PlayerConnected, pid: int) -> tuple[WorkerState, Effects]:
    if slot.phase is Phase.CLOSING:
        return _with_slot(state, slot), ()
    start = state.start
    ready = WorkerReady(
        run=start.run,
        worker=start.worker,
        env_id=slot.env_id,
        incarnation=slot.assignment.incarnation,
        pid=pid,
        player_pid=message.player_pid,
        reset_parameters=message.reset_parameters,
    )
    effects: Effects = (Send(CONTROLLER, ready), Send(SUPERVISOR, ready))
    return _with_slot(state, slot), (*effects, *_found(state, slot, message.brains))


def _found(state: WorkerState, slot: Slot, brains: tuple[BrainParameters, ...]) -> Effects:
    if not brains:
        return ()
    found = BrainsFound(
        run=state.start.run,
        worker=state.start.worker,
        env_id=slot.env_id,
        incarnation=slot.assignment.incarnation,
        brains=brains,
    )
    return (Send(CONTROLLER, found),)


def _replied(
    state: WorkerState, before: Slot, slot: Slot, message: PlayerReplied, now_s: float
) -> tuple[WorkerState, Effects]:
    effects = _found(state, slot, message.brains)
    slot = replace(slot, pending={**slot.pending, **message.pending})
    if before.phase is Phase.RESETTING:
        effects = (*effects, SendReset(slot.env_id, slot.assignment.incarnation))
        slot = replace(slot, until_step=slot.taken)
    elif before.phase is Phase.STEPPING:
        slot = replace(slot, taken=slot.taken + 1, open_steps=slot.open_steps + 1)
    if slot.phase is not Phase.IDLE:
        return _with_slot(state, slot), effects
    if state.stop is not None:
        state, more = _end_slots(_with_slot(state, slot))
        return state, (*effects, *more)
    if slot.wanted is not None:
        wanted, slot = slot.wanted, replace(slot, wanted=None, phase=Phase.RESETTING)
        after, more = _reset(state, replace(slot, phase=Phase.IDLE), slot, wanted)
        return after, (*effects, *more)
    state, more = _go_on(_with_slot(state, slot), (slot.env_id,), now_s)
    return state, (*effects, *more)


def _reset(state: WorkerState, before: Slot, slot: Slot, message: ResetRequest) -> tuple[WorkerState, Effects]:
    if message.reset_id <= slot.reset_id:
        return _drop(state)
    if before.phase in {Phase.STEPPING, Phase.RESETTING}:
        return _with_slot(state, replace(slot, wanted=message)), ()
    if slot.phase is not Phase.RESETTING:
        return _drop(state)
    flush: Effects = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
    slot = replace(slot, reset_id=message.reset_id, open_steps=0, pending={})
    ask = ResetPlayer(
        slot.env_id, slot.assignment.incarnation, message.reset_id, message.parameters, message.train_mode
    )
    return _with_slot(state, slot), (*flush, ask)


def _failed(state: WorkerState, before: Slot, slot: Slot, message: PlayerFailed) -> tuple[WorkerState, Effects]:
    if before.phase is Phase.LOST:
        return _drop(state)
    start = state.start
    lost = PlayerLost(
        run=start.run,
        worker=start.worker,
        env_id=slot.env_id,
        incarnation=slot.assignment.incarnation,
        phase=message.phase,
        kind=message.kind,
        cause=message.cause,
        unreported_steps=message.unreported_steps,
    )
    if slot.phase is not Phase.LOST:
        # It was being closed anyway: all that is left to say is what it may have counted.
        told: Effects = (Send(CONTROLLER, lost),) if message.unreported_steps else ()
        return _with_slot(state, slot), told
    flush: Effects = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
    slot = replace(slot, open_steps=0, wanted=None, pending={})
    close = ClosePlayer(slot.env_id, slot.assignment.incarnation)
    state, gathered = _send_gathered(_with_slot(state, slot))
    state, ended = _end_slots(state)
    return state, (*flush, Send(CONTROLLER, lost), Send(SUPERVISOR, lost), close, *gathered, *ended)


def _grant(state: WorkerState, message: StepGrant, now_s: float) -> tuple[WorkerState, Effects]:
    block_steps = max(1, min(message.block_steps, state.start.block_steps_max))
    versions = {**state.versions, **message.versions}
    state = replace(state, versions=versions, gathers=message.gathers, block_steps=block_steps)
    granted: list[EnvId] = []
    for each in message.grants:
        slot = state.slots.get(each.env_id)
        if slot is None or slot.assignment.incarnation != each.incarnation or slot.reset_id != each.reset_id:
            state, _ = _drop(state)
            continue
        slot = replace(slot, phase=_next_phase(slot, each), until_step=max(slot.until_step, each.until_step))
        state = _with_slot(state, slot)
        granted.append(each.env_id)
    return _go_on(state, tuple(granted), now_s)


def _missing_policies(state: WorkerState, slot: Slot) -> tuple[str, ...]:
    """Behaviors in sight of the slot whose granted version is not installed; in the order of names."""
    missing = []
    for name in sorted(slot.pending):
        version = state.versions.get(name)
        if version is None or version not in state.installed.get(name, ()):
            missing.append(name)
    return tuple(missing)


def _go_on(state: WorkerState, env_ids: tuple[EnvId, ...], now_s: float) -> tuple[WorkerState, Effects]:
    """Step every idle slot of `env_ids` that may step; ask for policies that are missing; send what is complete."""
    effects: list[object] = []
    for env_id in env_ids:
        slot = state.slots[env_id]
        if slot.phase is not Phase.IDLE or state.stop is not None:
            continue
        if slot.open_steps >= state.block_steps and slot.has_credit:
            effects.append(SendBlocks((env_id,)))
            slot = replace(slot, open_steps=0)
            state = _with_slot(state, slot)
        if not slot.has_credit:
            continue
        missing = _missing_policies(state, slot)
        if missing:
            state, more = _ask_for(state, missing, now_s)
            effects.extend(more)
            continue
        incarnation = slot.assignment.incarnation
        effects.append(StepPlayer(env_id, incarnation, slot.taken, {name: state.versions[name] for name in slot.pending}))
        state = _with_slot(state, replace(slot, phase=Phase.STEPPING))
    state, more = _send_gathered(state)
    return state, (*effects, *more)


def _ask_for(state: WorkerState, names: tuple[str, ...], now_s: float) -> tuple[WorkerState, Effects]:
    """Ask the PolicyHolder once for each granted version; a version not yet granted is the controller's to announce."""
    effects: list[object] = []
    asked = dict(state.asked)
    for name in names:
        version = state.versions.get(name)
        if version is None or asked.get(name, (-1, 0.0))[0] == version:
            continue
        asked[name] = (version, now_s)
        if name not in state.installed:
            # The first request also subscribes; later versions come by themselves, so they are given some time.
            effects.append(Send(HOLDER, _request(state, name, version)))
        effects.append(SetTimer(("policy", name), POLICY_ASK_AGAIN_S))
    return replace(state, asked=asked), tuple(effects)


def _request(state: WorkerState, name: str, version: int) -> PolicyRequest:
    return PolicyRequest(run=state.start.run, behavior=name, version=version, worker=state.start.worker)


def _send_gathered(state: WorkerState) -> tuple[WorkerState, Effects]:
    """Send open blocks of slots that have used up their credit, all together once no other slot is still stepping."""
    done = tuple(
        slot.env_id for slot in state.slots.values() if slot.open_steps and not slot.has_credit and slot.phase is Phase.IDLE
    )
    if not done:
        return state, ()
    runs_on = any(slot.phase is Phase.STEPPING and slot.has_credit for slot in state.slots.values())
    if state.gathers and runs_on and state.stop is None:
        return state, (SetTimer("gather", GATHER_S),)
    return _send_open(state, done)


def _send_open(state: WorkerState, env_ids: tuple[EnvId, ...] | None = None) -> tuple[WorkerState, Effects]:
    chosen = tuple(
        slot.env_id
        for slot in state.slots.values()
        if slot.open_steps and (env_ids is None or slot.env_id in env_ids)
    )
    if not chosen:
        return state, ()
    for env_id in chosen:
        state = _with_slot(state, replace(state.slots[env_id], open_steps=0))
    return state, (SendBlocks(chosen), CancelTimer("gather"))


def _install(state: WorkerState, message: PolicyUpdate, now_s: float) -> tuple[WorkerState, Effects]:
    have = state.installed.get(message.behavior, ())
    if message.version in have or (have and message.version < min(have)):
        return _drop(state)
    kept = tuple(sorted((*have, message.version)))[-VERSIONS_KEPT:]
    asked = {name: value for name, value in state.asked.items() if name != message.behavior or value[0] not in kept}
    state = replace(state, installed={**state.installed, message.behavior: kept}, asked=asked)
    state, effects = _go_on(state, tuple(state.slots), now_s)
    return state, (InstallPolicy(message), CancelTimer(("policy", message.behavior)), *effects)


def _start_player(state: WorkerState, message: StartPlayer) -> tuple[WorkerState, Effects]:
    new = message.environment
    old = state.slots.get(new.env_id)
    if old is not None and old.assignment.incarnation >= new.incarnation:
        return _drop(state)
    if state.stop is not None:
        return _drop(state)
    effects: list[object] = []
    if old is not None and old.phase not in {Phase.LOST, Phase.CLOSED}:
        if old.open_steps:
            effects.append(SendBlocks((old.env_id,)))
        effects.append(ClosePlayer(old.env_id, old.assignment.incarnation))
    return _with_slot(state, Slot(assignment=new)), (*effects, OpenPlayer(new))


def _ask_holder_again(state: WorkerState, now_s: float) -> tuple[WorkerState, Effects]:
    """A new PolicyHolder knows no subscriber: ask it for the versions that count, and it will send all that follow."""
    request = tuple(
        Send(HOLDER, _request(state, name, version))
        for name, version in sorted(state.versions.items())
    )
    return replace(state, asked={name: (version, now_s) for name, (version, _) in state.asked.items()}), request


def _stop(state: WorkerState, message: StopRequest) -> tuple[WorkerState, Effects]:
    """End at the next reply: a step under way is let finish (within the deadline), so that the counts agree."""
    if state.stop is not None:
        return _drop(state)
    state, effects = _end_slots(replace(state, stop=message))
    return state, (SetTimer("stop", message.deadline_s / 2), *effects)


def _end_slots(state: WorkerState) -> tuple[WorkerState, Effects]:
    """While stopping: send what is open, close what is at rest, and finish when nothing is open any more."""
    if state.stop is None:
        return state, ()
    at_rest = {Phase.OPENING, Phase.CONNECTED, Phase.RESETTING, Phase.IDLE}
    state, sent = _send_open(state, tuple(slot.env_id for slot in state.slots.values() if slot.phase in at_rest))
    effects: list[object] = [*sent]
    for slot in state.slots.values():
        if slot.phase in at_rest:
            effects.append(ClosePlayer(slot.env_id, slot.assignment.incarnation))
            state = _with_slot(state, replace(slot, phase=Phase.CLOSING))
    if any(slot.phase in {Phase.STEPPING, Phase.CLOSING} for slot in state.slots.values()):
        return state, tuple(effects)
    stopped = Stopped(run=state.start.run, part=f"worker {state.start.worker}")
    return state, (*effects, Send(CONTROLLER, stopped), Send(SUPERVISOR, stopped), Finish())


def _timer(state: WorkerState, message: TimerFired, now_s: float) -> tuple[WorkerState, Effects]:
    start = state.start
    match message.token:
        case "heartbeat":
            beat = Send(CONTROLLER, WorkerAlive(run=start.run, worker=start.worker))
            return state, (beat, SetTimer("heartbeat", HEARTBEAT_S))
        case "gather":
            done = tuple(slot.env_id for slot in state.slots.values() if not slot.has_credit)
            return _send_open(state, done)
        case "stop":
            return _stop_now(state)
        case ("policy", str(name)):
            return _policy_late(state, name, now_s)
        case _:
            return _drop(state)


def _stop_now(state: WorkerState) -> tuple[WorkerState, Effects]:
    """The deadline for steps under way has passed: close their players all the same."""
    effects: list[object] = []
    for slot in state.slots.values():
        if slot.phase is Phase.STEPPING:
            cause = f"environment {slot.env_id}: a step under way did not end in time; its player is closed"
            close = ClosePlayer(slot.env_id, slot.assignment.incarnation)
            flush = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
            effects.extend((Report("note", cause), *flush, close))
            state = _with_slot(state, replace(slot, phase=Phase.CLOSING, open_steps=0))
    return state, tuple(effects)


def _policy_late(state: WorkerState, name: str, now_s: float) -> tuple[WorkerState, Effects]:
    asked = state.asked.get(name)
    if asked is None:
        return _drop(state)
    version, since_s = asked
    start = state.start
    effects: list[object] = [
        Send(HOLDER, _request(state, name, version)),
        SetTimer(("policy", name), POLICY_ASK_AGAIN_S),
    ]
    waited_s = now_s - since_s
    if waited_s >= start.step_timeout_s:
        overdue = PolicyOverdue(
            run=start.run, worker=start.worker, behavior=name, version=version, waited_s=waited_s
        )
        effects.append(Send(SUPERVISOR, overdue))
        state = replace(state, asked={**state.asked, name: (version, now_s)})
    return state, tuple(effects)
