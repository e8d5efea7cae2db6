"""What an EnvWorker decides: when each of its players is opened, reset, stepped, and when its blocks are sent.

Every environment is a slot with a phase of its own; nothing that happens to one delays another. A slot takes env steps
while it has credit (`until_step`) and every behavior in sight has its granted policy version installed. Whatever breaks
in a slot is told once (`PlayerLost`), after the steps taken before it, and the slot then waits for the Supervisor.

TRANSITIONS holds all legality: (phase, fact or message about one environment) -> next phase. Replies may be under way
when a slot changes, so stale ones (another incarnation) are dropped and counted before the table is consulted.
"""

from __future__ import annotations

from typing import assert_never

from runtime.decisions.effects import (
    CONTROLLER,
    SUPERVISOR,
    ClosePlayer,
    Finish,
    OpenPlayer,
    PlayerClosed,
    PlayerConnected,
    PlayerFailed,
    PlayerReplied,
    PlayerStepped,
    Report,
    ResetPlayer,
    Send,
    SendBlocks,
    SendReset,
    SetTimer,
    TimerFired,
)
from runtime.decisions.env_worker_state import Effects, Phase, Slot, WorkerState, drop, next_phase, with_slot
from runtime.decisions.frozen import replace
from runtime.decisions.stepping import (
    ask_holder_again,
    go_on,
    policy_late,
    send_gathered,
    send_late,
    send_open,
    take_grant,
    take_policy,
)
from runtime.errors import ActorProtocolError
from runtime.experience.brains import BrainParameters
from runtime.messages import (
    BrainsFound,
    HolderRestarted,
    PlayerLost,
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

HEARTBEAT_S = 1.0


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
            case (
                PlayerReplied() | PlayerStepped() | PlayerConnected() | PlayerFailed() | PlayerClosed() | ResetRequest()
            ):
                return _about_slot(state, message, self._pid, now_s)
            case StepGrant():
                return take_grant(state, message, now_s)
            case PolicyUpdate():
                return take_policy(state, message, now_s)
            case StartPlayer():
                return _start_player(state, message)
            case HolderRestarted():
                return ask_holder_again(state, now_s)
            case StopRequest():
                return _stop(state, message)
            case TimerFired():
                return _timer(state, message, now_s)
            case _:
                msg = f"an EnvWorker was sent {type(message).__name__}, which is not for it"
                raise ActorProtocolError(msg)


SlotMessage = PlayerConnected | PlayerReplied | PlayerStepped | PlayerFailed | PlayerClosed | ResetRequest


def _about_slot(state: WorkerState, message: SlotMessage, pid: int, now_s: float) -> tuple[WorkerState, Effects]:
    slot = state.slots.get(message.env_id)
    if slot is None or slot.assignment.incarnation != message.incarnation:
        return drop(state)
    before, slot = slot, replace(slot, phase=next_phase(slot, message))
    match message:
        case PlayerConnected():
            return _connected(state, slot, message, pid)
        case PlayerReplied():
            return _replied(state, before, slot, message, now_s)
        case PlayerStepped(steps=steps):
            return with_slot(state, replace(slot, taken=slot.taken + steps, open_steps=slot.open_steps + steps)), ()
        case PlayerFailed():
            return _failed(state, slot, message)
        case ResetRequest():
            return _reset(state, before, slot, message)
        case PlayerClosed():
            return _end_slots(with_slot(state, slot))
    assert_never(message)


def _connected(state: WorkerState, slot: Slot, message: PlayerConnected, pid: int) -> tuple[WorkerState, Effects]:
    if slot.phase is Phase.CLOSING:
        return with_slot(state, slot), ()
    start = state.start
    ready = WorkerReady(
        run=start.run,
        worker=start.worker,
        env_id=slot.env_id,
        incarnation=slot.assignment.incarnation,
        pid=pid,
        player_pid=message.player_pid,
        reset_parameters=message.reset_parameters,
        takes_parameters=message.takes_parameters,
    )
    effects: Effects = (Send(SUPERVISOR, ready),)
    return with_slot(state, slot), (*effects, *_found(state, slot, message.brains))


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
    pending = {**slot.pending, **message.pending}
    agents = sum(pending.values())
    if before.phase is Phase.RESETTING:
        effects = (*effects, SendReset(slot.env_id, slot.assignment.incarnation))
        slot = replace(slot, pending=pending, until_step=slot.taken, agents_told=max(slot.agents_told, agents))
    elif before.phase is Phase.STEPPING:
        slot = replace(slot, pending=pending, taken=slot.taken + 1, open_steps=slot.open_steps + 1)
        if agents > slot.agents_told:
            # What this worker may have done unseen is bounded by the most agents known: more must be known before
            # they act, and a grant says that they are.
            effects = (*effects, SendBlocks((slot.env_id,)))
            slot = replace(slot, open_steps=0, agents_told=agents, told_step=slot.taken)
    else:
        slot = replace(slot, pending=pending)
    if slot.phase is not Phase.IDLE:
        return with_slot(state, slot), effects
    if state.stop is not None:
        state, more = _end_slots(with_slot(state, slot))
        return state, (*effects, *more)
    if slot.wanted is not None:
        wanted, slot = slot.wanted, replace(slot, wanted=None, phase=Phase.RESETTING)
        after, more = _reset(state, replace(slot, phase=Phase.IDLE), slot, wanted)
        return after, (*effects, *more)
    state, more = go_on(with_slot(state, slot), (slot.env_id,), now_s)
    return state, (*effects, *more)


def _reset(state: WorkerState, before: Slot, slot: Slot, message: ResetRequest) -> tuple[WorkerState, Effects]:
    newest = slot.reset_id if slot.wanted is None else slot.wanted.reset_id
    if message.reset_id <= newest:
        return drop(state)
    if before.phase in {Phase.STEPPING, Phase.RESETTING}:
        return with_slot(state, replace(slot, wanted=message)), ()
    if slot.phase is not Phase.RESETTING:
        return drop(state)
    flush: Effects = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
    slot = replace(slot, reset_id=message.reset_id, open_steps=0, pending={})
    slot = replace(slot, told=message.parameters, parameters_id=message.parameters_id)
    ask = ResetPlayer(
        slot.env_id, slot.assignment.incarnation, message.reset_id, message.parameters, message.train_mode
    )
    return with_slot(state, slot), (*flush, ask)


def _failed(state: WorkerState, slot: Slot, message: PlayerFailed) -> tuple[WorkerState, Effects]:
    if slot.is_loss_told:
        return drop(state)
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
        if not message.unreported_steps:
            return with_slot(state, slot), ()
        return with_slot(state, replace(slot, is_loss_told=True)), (Send(CONTROLLER, lost),)
    flush: Effects = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
    slot = replace(slot, open_steps=0, wanted=None, pending={}, is_loss_told=True)
    close = ClosePlayer(slot.env_id, slot.assignment.incarnation)
    state, gathered = send_gathered(with_slot(state, slot))
    state, ended = _end_slots(state)
    return state, (*flush, Send(CONTROLLER, lost), Send(SUPERVISOR, lost), close, *gathered, *ended)


def _start_player(state: WorkerState, message: StartPlayer) -> tuple[WorkerState, Effects]:
    new = message.environment
    old = state.slots.get(new.env_id)
    if old is not None and old.assignment.incarnation >= new.incarnation:
        return drop(state)
    if state.stop is not None:
        return drop(state)
    effects: list[object] = []
    if old is not None and old.phase not in {Phase.LOST, Phase.CLOSED}:
        if old.open_steps:
            effects.append(SendBlocks((old.env_id,)))
        effects.append(ClosePlayer(old.env_id, old.assignment.incarnation))
    return with_slot(state, Slot(assignment=new)), (*effects, OpenPlayer(new))


def _stop(state: WorkerState, message: StopRequest) -> tuple[WorkerState, Effects]:
    """End at the next reply: a step under way is let finish (within the deadline), so that the counts agree."""
    if state.stop is not None:
        return drop(state)
    state, effects = _end_slots(replace(state, stop=message))
    return state, (SetTimer("stop", message.deadline_s / 2), *effects)


def _end_slots(state: WorkerState) -> tuple[WorkerState, Effects]:
    """While stopping: send what is open, close what is at rest, and finish when nothing is open any more."""
    if state.stop is None or state.is_finished:
        return state, ()
    at_rest = {Phase.OPENING, Phase.CONNECTED, Phase.RESETTING, Phase.IDLE}
    state, sent = send_open(state, tuple(slot.env_id for slot in state.slots.values() if slot.phase in at_rest))
    effects: list[object] = [*sent]
    for slot in state.slots.values():
        if slot.phase in at_rest:
            effects.append(ClosePlayer(slot.env_id, slot.assignment.incarnation))
            state = with_slot(state, replace(slot, phase=Phase.CLOSING))
    if any(slot.phase in {Phase.STEPPING, Phase.CLOSING} for slot in state.slots.values()):
        return state, tuple(effects)
    stopped = Stopped(run=state.start.run, part=f"worker {state.start.worker}")
    state = replace(state, is_finished=True)
    return state, (*effects, Send(CONTROLLER, stopped), Send(SUPERVISOR, stopped), Finish())


def _timer(state: WorkerState, message: TimerFired, now_s: float) -> tuple[WorkerState, Effects]:
    start = state.start
    match message.token:
        case "heartbeat":
            beat = Send(SUPERVISOR, WorkerAlive(run=start.run, worker=start.worker))
            return state, (beat, SetTimer("heartbeat", HEARTBEAT_S))
        case "gather":
            return send_late(state)
        case "stop":
            return _stop_now(state)
        case ("policy", str(name)):
            return policy_late(state, name, now_s)
        case _:
            return drop(state)


def _stop_now(state: WorkerState) -> tuple[WorkerState, Effects]:
    """The deadline for steps under way has passed: close their players all the same."""
    effects: list[object] = []
    for slot in state.slots.values():
        if slot.phase is Phase.STEPPING:
            cause = f"environment {slot.env_id}: a step under way did not end in time; its player is closed"
            close = ClosePlayer(slot.env_id, slot.assignment.incarnation)
            flush = (SendBlocks((slot.env_id,)),) if slot.open_steps else ()
            effects.extend((Report("note", cause), *flush, close))
            state = with_slot(state, replace(slot, phase=Phase.CLOSING, open_steps=0))
    return state, tuple(effects)
