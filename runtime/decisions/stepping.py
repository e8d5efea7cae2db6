"""Credit, policies and blocks: the part of an EnvWorker's decisions that moves its players on.

An idle environment steps while it has credit and every behavior in sight has its granted version installed. Blocks
leave when they are full or their credit is used up, if possible together with those of the worker's other environments.
"""

from __future__ import annotations

from runtime.decisions.effects import (
    HOLDER,
    SUPERVISOR,
    CancelTimer,
    InstallPolicy,
    Send,
    SendBlocks,
    SetTimer,
    StepPlayer,
)
from runtime.decisions.env_worker_state import Effects, Phase, Slot, WorkerState, drop, next_phase, with_slot
from runtime.decisions.frozen import replace
from runtime.experience.brains import EnvId
from runtime.experience.parameters import ParameterValue
from runtime.messages import PolicyOverdue, PolicyRequest, PolicyUpdate, StepGrant, WorkerAlive

POLICY_ASK_AGAIN_S = 0.5
GATHER_S = 0.1
GATHER_ASYNC_S = 0.02
VERSIONS_KEPT = 3
# What installing a graph takes at most, by its size, on a machine that is busy with others; small ones need no word.
INSTALL_S_PER_BYTE = 1e-6
INSTALL_S_MIN = 5.0
NOT_ASKED = (-1, 0.0, 0)


def take_grant(state: WorkerState, message: StepGrant, now_s: float) -> tuple[WorkerState, Effects]:
    """Credit and versions from the controller; grants for another incarnation or reset are dropped and counted."""
    block_steps = max(1, min(message.block_steps, state.start.block_steps_max))
    # Versions only rise: a grant that comes twice must not bring an old one back.
    versions = {
        **state.versions,
        **{name: max(version, state.versions.get(name, version)) for name, version in message.versions.items()},
    }
    state = replace(state, versions=versions)
    if message.parameters_id > state.parameters_id:
        state = replace(state, parameters=message.parameters, parameters_id=message.parameters_id)
    for each in message.grants:
        slot = state.slots.get(each.env_id)
        if slot is None or slot.assignment.incarnation != each.incarnation or slot.reset_id != each.reset_id:
            state, _ = drop(state)
            continue
        if each.until_step > slot.until_step:
            # One that comes twice, or late, must not change how the steps of a newer one are cut into blocks.
            state = replace(state, gathers=message.gathers, block_steps=block_steps)
        slot = replace(
            slot,
            phase=next_phase(slot, each),
            until_step=max(slot.until_step, each.until_step),
            arrived_step=max(slot.arrived_step, each.accepted_step),
        )
        state = with_slot(state, slot)
    # Versions are the whole worker's: whoever waits for one may be another environment.
    return go_on(state, tuple(state.slots), now_s)


def take_policy(state: WorkerState, message: PolicyUpdate, now_s: float) -> tuple[WorkerState, Effects]:
    """A policy version has come, and with it perhaps a grant to act with it."""
    state, effects = _install(state, message, now_s)
    grant = message.grants.get(state.start.worker)
    if grant is None:
        return state, effects
    state, more = take_grant(state, grant, now_s)
    return state, (*effects, *more)


def _install(state: WorkerState, message: PolicyUpdate, now_s: float) -> tuple[WorkerState, Effects]:
    """A policy version has come: keep the newest few, and step whoever waited for it."""
    have = state.installed.get(message.behavior, ())
    if message.version in have or (have and message.version < min(have)):
        return drop(state)
    kept = tuple(sorted((*have, message.version)))[-VERSIONS_KEPT:]
    # The holder sends no older one any more: who was granted an older version gets another grant.
    asked = {name: value for name, value in state.asked.items() if name != message.behavior or value[0] > kept[-1]}
    state = replace(state, installed={**state.installed, message.behavior: kept}, asked=asked)
    # What was asked for may be newer than what has come: then its timer goes on.
    cancel: Effects = () if message.behavior in asked else (CancelTimer(("policy", message.behavior)),)
    state, effects = go_on(state, tuple(state.slots), now_s)
    return state, (*_announced(state, message), InstallPolicy(message), *cancel, *effects)


def _announced(state: WorkerState, message: PolicyUpdate) -> Effects:
    """The loop stands still while a large graph is installed: who listens for its heartbeats must know."""
    busy_s = len(message.body) * INSTALL_S_PER_BYTE
    if busy_s < INSTALL_S_MIN:
        return ()
    return (Send(SUPERVISOR, WorkerAlive(run=state.start.run, worker=state.start.worker, busy_s=busy_s)),)


def _missing_policies(state: WorkerState, slot: Slot) -> tuple[str, ...]:
    """Behaviors in sight of the slot whose granted version is not installed; in the order of names."""
    missing = []
    for name in sorted(slot.pending):
        version = state.versions.get(name)
        if version is None or version not in state.installed.get(name, ()):
            missing.append(name)
    return tuple(missing)


def go_on(state: WorkerState, env_ids: tuple[EnvId, ...], now_s: float) -> tuple[WorkerState, Effects]:
    """Step every idle slot of `env_ids` that may step; ask for policies that are missing; send what is complete."""
    effects: list[object] = []
    for env_id in env_ids:
        slot = state.slots[env_id]
        if slot.phase is not Phase.IDLE or state.stop is not None:
            continue
        if not slot.has_credit or slot.is_untold:
            continue
        missing = _missing_policies(state, slot)
        if missing:
            state, more = _ask_for(state, missing, now_s)
            effects.extend(more)
            continue
        versions = {name: state.versions[name] for name in slot.pending}
        given = _untold(state, slot)
        changed = any(slot.versions.get(name, version) != version for name, version in versions.items())
        is_cut = slot.is_cut or (changed and slot.open_steps > 0)
        own = 0 if is_cut else _own_steps(state, slot)
        effects.append(StepPlayer(env_id, slot.assignment.incarnation, slot.taken, versions, given, changed, own))
        told = {**slot.told, **given} if given else slot.told
        known = max(slot.parameters_id, state.parameters_id)
        state = with_slot(
            state,
            replace(slot, phase=Phase.STEPPING, versions=versions, is_cut=is_cut, told=told, parameters_id=known),
        )
    state, more = send_gathered(state)
    return state, (*effects, *more)


def _own_steps(state: WorkerState, slot: Slot) -> int:
    """After how many replies nothing is to be decided: those before a block is full, and before its credit is used up.

    Whoever waits for this environment waits as long as it neither fills its block nor uses up its credit.
    """
    return max(0, min(state.block_steps - slot.open_steps, slot.until_step - slot.taken) - 1)


def _untold(state: WorkerState, slot: Slot) -> dict[str, ParameterValue]:
    """Parameters that have changed since the player was told last; a sampler told again would begin anew."""
    if state.parameters_id <= slot.parameters_id:
        return {}
    return {name: value for name, value in state.parameters.items() if slot.told.get(name) != value}


def _ask_for(state: WorkerState, names: tuple[str, ...], now_s: float) -> tuple[WorkerState, Effects]:
    """Ask the PolicyHolder once for each granted version; a version not yet granted is the controller's to announce."""
    effects: list[object] = []
    asked = dict(state.asked)
    for name in names:
        version = state.versions.get(name)
        if version is None or asked.get(name, NOT_ASKED)[0] == version:
            continue
        if version < max(state.installed.get(name, ()), default=-1):
            continue  # overtaken: the grant of the newer one is under way
        asked[name] = (version, now_s, 0)
        if name not in state.installed:
            # The first request also subscribes; later versions come by themselves, so they are given some time.
            effects.append(Send(HOLDER, _request(state, name, version)))
        effects.append(SetTimer(("policy", name), POLICY_ASK_AGAIN_S))
    return replace(state, asked=asked), tuple(effects)


def _request(state: WorkerState, name: str, version: int) -> PolicyRequest:
    start = state.start
    only_acts = start.carries == "columns"  # the learner judges what it is sent; steps of 2019 come with values
    return PolicyRequest(run=start.run, behavior=name, version=version, worker=start.worker, only_acts=only_acts)


def send_gathered(state: WorkerState) -> tuple[WorkerState, Effects]:
    """Send blocks that are full, or whose credit is used up, together with those of the worker's other environments.

    While others still fill theirs, those that are done wait a little: in a round (`gathers`) whatever happens,
    otherwise only as long as half a block of credit is left to go on with.
    """
    done = _done(state)
    if not done:
        return state, ()
    fills = any(
        slot.phase is Phase.STEPPING and slot.has_credit and slot.open_steps < state.block_steps
        for slot in state.slots.values()
    )
    has_time = state.gathers or all(2 * (slot.until_step - slot.taken) > state.block_steps for slot in done)
    if fills and has_time and state.stop is None:
        # Set once: a neighbour that goes on stepping must not put it off again and again.
        wait_s = GATHER_S if state.gathers else GATHER_ASYNC_S
        timer: Effects = () if state.is_gathering else (SetTimer("gather", wait_s),)
        return replace(state, is_gathering=True), timer
    return send_late(state)


def send_late(state: WorkerState) -> tuple[WorkerState, Effects]:
    """The time to wait for others is over: send the blocks that are done."""
    return send_open(replace(state, is_gathering=False), tuple(slot.env_id for slot in _done(state)))


def _done(state: WorkerState) -> tuple[Slot, ...]:
    return tuple(slot for slot in state.slots.values() if _is_done(slot, state.block_steps))


def _is_done(slot: Slot, block_steps: int) -> bool:
    """True when a slot holds a whole block, or one of an older version, or may not go on without sending it."""
    has_ended = not slot.has_credit and slot.phase is Phase.IDLE
    return slot.open_steps > 0 and (has_ended or slot.is_cut or slot.open_steps >= block_steps)


def send_open(state: WorkerState, env_ids: tuple[EnvId, ...] | None = None) -> tuple[WorkerState, Effects]:
    """Send what is open of these environments (all when None) in one message."""
    chosen = tuple(
        slot.env_id for slot in state.slots.values() if slot.open_steps and (env_ids is None or slot.env_id in env_ids)
    )
    if not chosen:
        return state, ()
    for env_id in chosen:
        state = with_slot(state, replace(state.slots[env_id], open_steps=0, is_cut=False))
    return replace(state, is_gathering=False), (SendBlocks(chosen), CancelTimer("gather"))


def ask_holder_again(state: WorkerState, now_s: float) -> tuple[WorkerState, Effects]:
    """A new PolicyHolder knows no subscriber: ask it for the versions that count, and it will send all that follow."""
    request = tuple(Send(HOLDER, _request(state, name, version)) for name, version in sorted(state.versions.items()))
    return replace(state, asked={name: (each[0], now_s, 0) for name, each in state.asked.items()}), request


def policy_late(state: WorkerState, name: str, now_s: float) -> tuple[WorkerState, Effects]:
    """A policy that was granted is missing: ask again, and tell the Supervisor once it is overdue."""
    asked = state.asked.get(name)
    if asked is None:
        return drop(state)
    version, since_s, times = asked
    start = state.start
    effects: list[object] = [
        Send(HOLDER, _request(state, name, version)),
        SetTimer(("policy", name), POLICY_ASK_AGAIN_S),
    ]
    waited_s, asked = now_s - since_s, (version, since_s, times + 1)
    # After a pause of this process its clock says that it waited, but the holder may never have been asked.
    if waited_s >= start.step_timeout_s and times:
        overdue = PolicyOverdue(run=start.run, worker=start.worker, behavior=name, version=version, waited_s=waited_s)
        effects.append(Send(SUPERVISOR, overdue))
        asked = (version, now_s, 0)
    return replace(state, asked={**state.asked, name: asked}), tuple(effects)
