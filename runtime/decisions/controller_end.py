"""Saves, planned restarts, and every way a run ends; the end itself always runs through the same states.

Ending: workers are asked to stop (a step under way is let finish, so that the counts agree with the players'), what
they deliver is still accepted, an update under way is awaited, then the models are saved and the Supervisor is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.decisions.controller_state import ControllerPhase, ControllerState, Ending
from runtime.decisions.curricula import lessons_refusal, look_at_lessons, reset_players
from runtime.decisions.effects import (
    SUPERVISOR,
    AcceptBlocks,
    CancelTimer,
    CutTrajectories,
    Finish,
    PushStatus,
    Report,
    SaveFinished,
    Send,
    SetTimer,
    StartSave,
    WriteSummary,
    worker_role,
)
from runtime.decisions.frozen import replace
from runtime.decisions.ledger import Counters, EnvRecord, unreported_bound
from runtime.experience.brains import EnvId
from runtime.experience.lessons import from_json, to_json
from runtime.messages import RestartPlayersRequest, Stopped, StopRequest

Effects = tuple[object, ...]
Decision = tuple[ControllerState, Effects]

UPDATE_WAIT_SHARE = 0.7
ORDERLY = frozenset({"interrupted", "terminated"})


def after_round(state: ControllerState) -> Decision:
    """What is due between rounds: a look at the lessons, then the end, a planned restart, a checkpoint, resets."""
    options, agent_steps = state.options, state.counters.agent_steps
    state, told = look_at_lessons(state)
    ending = due_end(state)
    if ending is not None:
        state, effects = begin_end(state, ending)
        return state, (*told, *effects)
    if options.restart_envs_at is not None and agent_steps >= options.restart_envs_at and not state.has_restarted_envs:
        state, effects = _restart_players(replace(state, is_reset_due=False))
        return state, (*told, *effects)
    state, effects = _save_if_due(state)
    if state.is_reset_due and options.is_sync:
        state, resets = reset_players(state)
        effects = (*effects, *resets)
    return state, (*told, *effects)


def due_end(state: ControllerState) -> Ending | None:
    """The end that what was accepted has brought about, if it has."""
    stop_at = state.options.stop_at
    if stop_at is not None and state.counters.agent_steps >= stop_at:
        return _natural_end(state) or Ending(reason="stop_at", exit_code=0)
    return _natural_end(state) or lessons_refusal(state)


def _natural_end(state: ControllerState) -> Ending | None:
    """The end, once every behavior that still has agents has taken its `max_steps`."""
    if not state.progress or not state.behaviors:
        return None
    idle_since = state.counters.env_steps - state.options.idle_steps * max(1, state.options.environments)
    idle = sorted(
        name for name, each in state.progress.items() if not each.is_finished and state.seen_at(name) < idle_since
    )
    finished = [name for name, each in state.progress.items() if each.is_finished]
    if not finished or len(finished) + len(idle) < len(state.progress):
        return None
    cause = f"without agents when the run ended: {', '.join(idle)}" if idle else ""
    return Ending(reason="max_steps", exit_code=0, cause=cause)


def _restart_players(state: ControllerState) -> Decision:
    envs, counters = {}, state.counters
    for env_id, each in state.envs.items():
        counters = counters.leave_unreported(unreported_bound(each, state.agents_max))
        envs[env_id] = replace(each, state="launching", until=each.received, pending={})
    state = replace(state, envs=envs, counters=counters, cuts=frozenset())
    state = replace(state, has_restarted_envs=True, waits_for_all=True, phase=ControllerPhase.GATHERING)
    request = RestartPlayersRequest(run=state.options.run)
    return state, (CutTrajectories(None), Send(SUPERVISOR, request))


def _save_if_due(state: ControllerState) -> Decision:
    if not state.options.is_training:
        return state, ()
    due = [
        name
        for name, each in state.progress.items()
        if name in state.next_save and each.steps >= state.next_save[name] and not each.is_finished
    ]
    if not due:
        return state, ()
    next_save = dict(state.next_save)
    for name in due:
        interval = state.behaviors[name].checkpoint_interval
        next_save[name] = (state.progress[name].steps // interval + 1) * interval
    state = replace(state, next_save=next_save)
    if state.is_saving:
        return state, (Report("note", "a checkpoint is due while the last one is still being written; skipped"),)
    return replace(state, is_saving=True), (StartSave(run_state(state), is_final=False),)


def begin_end(state: ControllerState, ending: Ending) -> Decision:
    """Begin to end the run; the first cause stays, and a second request only hurries."""
    if state.ending is not None:
        return state, ()
    deadline_s = state.options.stop_deadline_s
    state = replace(state, ending=ending, phase=ControllerPhase.STOPPING)
    asked = tuple(ask_to_stop(state, ending, worker) for worker in sorted(state.workers))
    # What made a run fail is shown with its end, once.
    told: Effects = (Report("note", ending.cause),) if ending.cause and not ending.exit_code else ()
    blocks = tuple(block for env_id in sorted(state.round_blocks) for block in state.round_blocks[env_id])
    accepted: Effects = ()
    if blocks:
        counters = state.counters
        for block in blocks:
            counters = counters.accept(block)
        state = replace(state, counters=counters, accepting=state.accepting + 1, round_blocks={})
        accepted = (AcceptBlocks(blocks),)
    timers: Effects = (
        SetTimer("stop", deadline_s / 2 + 1.0),
        SetTimer("update", deadline_s * UPDATE_WAIT_SHARE),
    )
    state, effects = go_on_ending(state)
    return state, (*told, *asked, *accepted, *timers, *effects)


def ask_to_stop(state: ControllerState, ending: Ending, worker: int) -> Send:
    """The effect that asks one EnvWorker to end."""
    deadline_s = state.options.stop_deadline_s / 2
    stop = StopRequest(run=state.options.run, reason=ending.reason, saves=ending.saves, deadline_s=deadline_s)
    return Send(worker_role(worker), stop)


def worker_stopped(state: ControllerState, message: Stopped) -> Decision:
    """One EnvWorker has ended."""
    kind, _, number = message.part.partition(" ")
    if kind != "worker" or not number.isdecimal():
        return state, ()
    state = replace(state, stopped=state.stopped | {int(number)})
    return go_on_ending(state) if state.ending is not None else (state, ())


def stop_late(state: ControllerState, token: str) -> Decision:
    """A deadline of the end has passed: go on without what is missing."""
    if state.ending is None or state.phase is not ControllerPhase.STOPPING:
        return state, ()
    if token == "stop":  # noqa: S105 - a timer's name
        missing = sorted(state.workers - state.stopped)
        told: Effects = (Report("note", f"EnvWorkers {missing} did not stop in time"),) if missing else ()
        state = replace(state, stopped=state.stopped | state.workers, overdue=frozenset(missing))
        state, effects = go_on_ending(state)
        return state, (*told, *effects)
    told = (Report("note", "an update under way was given up at the end"),) if state.updating else ()
    state, effects = go_on_ending(replace(state, updating=()))
    return state, (*told, *effects)


def go_on_ending(state: ControllerState) -> Decision:
    """Save once nothing is missing any more; a save under way comes first."""
    ending = state.ending
    if ending is None or state.phase is not ControllerPhase.STOPPING:
        return state, ()
    if state.accepting or state.updating or state.is_saving or state.workers - state.stopped:
        return state, ()
    counters = _bound_what_is_missing(state)
    state = replace(state, counters=counters, phase=ControllerPhase.SAVING)
    cut: Effects = (CutTrajectories(None),)
    if not ending.saves or not state.behaviors or not state.options.is_training:
        state, effects = save_finished(state, SaveFinished(is_final=True))
        return state, (*cut, *effects)
    state = replace(state, is_saving=True)
    return state, (*cut, StartSave(run_state(state), is_final=True))


def _bound_what_is_missing(state: ControllerState) -> Counters:
    """A worker that did not stop in time may have used the rest of its grants."""
    counters = state.counters
    for each in state.envs.values():
        if each.state == "stepping" and each.worker in state.overdue:
            counters = counters.leave_unreported(max(0, each.until - each.received) * state.agents_max)
    return counters


def save_finished(state: ControllerState, message: SaveFinished) -> Decision:
    """A save has ended; the final one ends the run. What fails again and again is said once, and so is its end."""
    told: Effects = ()
    if message.error and (message.is_final or not state.is_save_failing):
        told = (Report("fault", f"the models could not be saved: {message.error}"),)
    elif state.is_save_failing and state.is_saving and not message.error:
        told = (Report("note", "the models could be saved again"),)
    state = replace(state, is_saving=False, is_save_failing=bool(message.error))
    ending = state.ending
    if not message.is_final or ending is None:
        state, effects = go_on_ending(state)
        return state, (*told, *effects)
    # What was asked for in order is not done without its save; of what made a run fail the first cause stays.
    if message.error and (ending.exit_code == 0 or ending.reason in ORDERLY):
        ending = Ending(reason="storage_failure", exit_code=5, cause=message.error)
    state = replace(state, ending=ending, phase=ControllerPhase.ENDED)
    stopped = Stopped(
        run=state.options.run,
        part="controller",
        exit_reason=ending.reason,
        exit_code=ending.exit_code,
        cause=ending.cause,
    )
    effects = (
        WriteSummary(ending.reason),
        PushStatus(),
        Send(SUPERVISOR, stopped),
        CancelTimer("stop"),
        CancelTimer("update"),
        Finish(),
    )
    return state, (*told, *effects)


def run_state(state: ControllerState) -> dict[str, object]:
    """What a later run needs to go on exactly here; JSON."""
    counters = state.counters
    return {
        "env_steps": counters.env_steps,
        "agent_steps": counters.agent_steps,
        "decisions": counters.decisions,
        "lost": dict(counters.lost),
        "unreported_max": counters.unreported_max,
        "replaced_numbers": counters.replaced_numbers,
        "incarnations": {str(env_id): int(each.incarnation) for env_id, each in sorted(state.envs.items())},
        "restarts": {str(env_id): each.restarts for env_id, each in sorted(state.envs.items())},
        "worker_restarts": {str(worker): count for worker, count in sorted(state.worker_restarts.items())},
        "holder_restarts": state.holder_restarts,
        "agents_max": state.agents_max,
        "steps": {name: each.steps for name, each in sorted(state.progress.items())},
        "agents_seen_at": {name: state.seen_at(name) for name in sorted(state.progress)},
        "lessons": to_json(state.lessons),
        "resampled": state.resampled,
    }


def restore_run_state(state: ControllerState, saved: Mapping[str, object]) -> ControllerState:
    """The state of a run that goes on from `saved`."""

    def number(key: str) -> int:
        value = saved.get(key, 0)
        return value if isinstance(value, int) else 0

    def numbers(key: str) -> dict[str, int]:
        value = saved.get(key, {})
        return {str(name): int(count) for name, count in value.items()} if isinstance(value, Mapping) else {}

    counters = Counters(
        env_steps=number("env_steps"),
        agent_steps=number("agent_steps"),
        decisions=number("decisions"),
        lost=numbers("lost"),
        unreported_max=number("unreported_max"),
        replaced_numbers=number("replaced_numbers"),
    )
    restarts = numbers("restarts")
    envs: dict[EnvId, EnvRecord] = {
        env_id: replace(each, restarts=restarts.get(str(env_id), 0)) for env_id, each in state.envs.items()
    }
    workers = {int(worker): count for worker, count in numbers("worker_restarts").items()}
    restart_at = state.options.restart_envs_at
    return replace(
        state,
        counters=counters,
        has_restarted_envs=restart_at is not None and counters.agent_steps >= restart_at,
        envs=envs,
        worker_restarts=workers,
        holder_restarts=number("holder_restarts"),
        agents_max=number("agents_max"),
        seen_before=numbers("agents_seen_at"),
        lessons=from_json(saved.get("lessons"), state.options.lessons, number=state.options.first_lesson),
        resampled=number("resampled"),
    )
