"""What the TrainerController decides: resets, grants, updates, saves, and the end of the run.

Synchronous collection goes in rounds. A round grants every ready environment the same number of env steps with the
newest policies; it ends when all of them have delivered, or were lost. Then blocks are accepted in (env_id, first_step)
order, updates that are due run one after another, and the next round begins. The first round waits for every
environment; later an environment that was lost joins the round after it is back.

Asynchronous collection accepts blocks as they come and lets every environment run two blocks ahead; collecting pauses
only while an update runs and the next buffer is full already, so that no step is older than two versions.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.decisions import controller_end as end
from runtime.decisions.collecting import accept, admit, flush_lost, go_on_collecting, grant_again
from runtime.decisions.controller_state import (
    BehaviorRecord,
    ControllerOptions,
    ControllerPhase,
    ControllerState,
    Ending,
)
from runtime.decisions.curricula import newest_given, parameter_refusal, reset_request, shortened_lessons
from runtime.decisions.effects import (
    HOLDER,
    AddBrain,
    BlocksAccepted,
    BrainAdded,
    LearnerFailed,
    PushStatus,
    RecordStats,
    SaveFinished,
    Send,
    SetTimer,
    TimerFired,
    UpdateFinished,
    WarmUp,
    WriteSummary,
    worker_role,
)
from runtime.decisions.frozen import replace
from runtime.decisions.ledger import (
    EnvRecord,
    behaviors_of,
    heard_restarts,
    seen_incarnation,
    unreported_bound,
)
from runtime.decisions.riding import grant_riders, ride
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.lessons import first_lessons, with_returns
from runtime.learner import BrainProgress, PolicyRelease
from runtime.messages import (
    BrainsFound,
    EnvReset,
    HolderFailed,
    HolderRestarted,
    PlayerLost,
    PolicyUpdate,
    RestartDenied,
    StartPlayer,
    StatsReported,
    StepsTaken,
    Stopped,
    StopRequest,
    WorkerFailed,
    WorkerReady,
)

Effects = tuple[object, ...]
Decision = tuple[ControllerState, Effects]

STATUS_S = 0.25


def publish(run: str, release: PolicyRelease) -> Effects:
    """The effect that brings a release to everybody who acts."""
    update = PolicyUpdate(run=run, behavior=release.behavior, version=release.version, kind="onnx", body=release.body)
    return (Send(HOLDER, update),)


class ControllerCore:
    """The machine of the TrainerController: `handle` takes a message or fact and returns effects.

    resumed: the `run_state` that the run goes on from; progress: of the behaviors that come with it.
    """

    def __init__(
        self,
        options: ControllerOptions,
        resumed: Mapping[str, object] | None = None,
        progress: Mapping[str, BrainProgress] | None = None,
    ) -> None:
        first = options.first_incarnation
        envs = {
            EnvId(each): EnvRecord(env_id=EnvId(each), incarnation=Incarnation(first - 1))
            for each in range(options.environments)
        }
        lessons = first_lessons(options.lessons, options.first_lesson or 0)
        self.state = ControllerState(options=options, envs=envs, progress=progress or {}, lessons=lessons)
        if resumed is not None:
            self.state = end.restore_run_state(self.state, resumed)
        self._told_first = shortened_lessons(self.state, resumed or {})

    def begin(self) -> Effects:
        """The first effects. The status says that there is somebody now who can save."""
        return (*self._told_first, PushStatus(), SetTimer("status", STATUS_S))

    def handle(self, message: object, now_s: float) -> Effects:
        """The effects of `message`. If this raises, the machine is unchanged."""
        run = getattr(message, "run", self.state.options.run)
        if run != self.state.options.run:
            self.state = replace(self.state, counters=self.state.counters.drop("other run"))
            return ()
        del now_s  # the Supervisor watches the time
        after, effects = _decide(self.state, message)
        self.state = after
        return effects


def _decide(state: ControllerState, message: object) -> Decision:
    if state.phase is ControllerPhase.ENDED:
        return replace(state, counters=state.counters.drop(type(message).__name__)), ()
    match message:
        case WorkerReady():
            return _worker_ready(state, message)
        case BrainsFound():
            return _brains_found(state, message)
        case BrainAdded():
            return _brain_added(state, message)
        case EnvReset():
            return _env_reset(state, message)
        case StepsTaken():
            return _steps_taken(state, message)
        case BlocksAccepted():
            return _blocks_accepted(state, message)
        case UpdateFinished():
            return _update_finished(state, message)
        case SaveFinished():
            return end.save_finished(state, message)
        case StatsReported(stats=stats, replaced_numbers=replaced, times=times):
            return replace(state, counters=state.counters.replace_numbers(replaced)), (RecordStats(stats, times),)
        case PlayerLost():
            return _player_lost(state, message)
        case StartPlayer():
            return _player_restarted(state, message)
        case WorkerFailed():
            return _worker_failed(state, message)
        case TimerFired():
            return _timer(state, message)
        case _:
            return _about_the_end(state, message)


def _about_the_end(state: ControllerState, message: object) -> Decision:
    match message:
        case LearnerFailed():
            reason = {3: "environment_failure", 5: "storage_failure"}.get(message.exit_code, "trainer_failure")
            state = replace(state, updating=tuple(each for each in state.updating if each != message.behavior))
            return end.begin_end(state, Ending(reason=reason, exit_code=message.exit_code, cause=message.cause))
        case RestartDenied():
            return end.begin_end(state, Ending(reason="environment_failure", exit_code=3, cause=message.cause))
        case StopRequest():
            exit_code = {"interrupted": 130, "terminated": 143}.get(message.reason, 0)
            ending = Ending(reason=message.reason, exit_code=exit_code, saves=message.saves)
            return end.begin_end(state, ending)
        case Stopped():
            return end.worker_stopped(state, message)
        case HolderFailed():
            return _holder_failed(state, message)
        case HolderRestarted():
            return _holder_restarted(state)
        case _:
            msg = f"the TrainerController was sent {type(message).__name__}, which is not for it"
            raise ActorProtocolError(msg)


def _with_env(state: ControllerState, record: EnvRecord) -> ControllerState:
    return replace(state, envs={**state.envs, record.env_id: record})


def _stale(state: ControllerState, message: object) -> Decision:
    return replace(state, counters=state.counters.drop(type(message).__name__)), ()


def _worker_ready(state: ControllerState, message: WorkerReady) -> Decision:
    record = state.envs.get(message.env_id)
    if record is None or message.incarnation <= record.incarnation:
        return _stale(state, message)
    state, record = _successor(state, record, message)
    record = replace(record, state="resetting", reset_id=0, player_pid=message.player_pid)
    record = replace(record, takes_parameters=message.takes_parameters, given=newest_given(state))
    request = reset_request(state, record)
    if state.ending is not None:
        # It was not known when the others were asked.
        return _with_env(state, record), (end.ask_to_stop(state, state.ending, message.worker),)
    state = _with_env(replace(state, stopped=state.stopped - {message.worker}), record)
    refusal = parameter_refusal(state, message)
    if refusal is not None:
        return end.begin_end(state, refusal)
    # The round may have waited for nobody but its predecessor.
    state, effects = go_on_collecting(state)
    return state, (Send(worker_role(message.worker), request), *effects)


def _successor(
    state: ControllerState, record: EnvRecord, message: WorkerReady | PlayerLost
) -> tuple[ControllerState, EnvRecord]:
    """The record once its incarnation in `message` is known; of a newer one nothing has been told yet."""
    if message.incarnation > record.incarnation and record.state not in {"launching", "lost"}:
        # The news of the loss before is still under way, by another road; until it comes, its numbers are bounded.
        bound = unreported_bound(record, state.agents_max)
        state = _lose(state, record, bound)
        state = replace(state, bounded={**state.bounded, (record.env_id, record.incarnation): bound})
    return state, seen_incarnation(state.envs[record.env_id], message.incarnation, message.worker)


def _brains_found(state: ControllerState, message: BrainsFound) -> Decision:
    # Brains known already go to the learner too: it refuses one that comes back in another shape. So do those that
    # appear while the run ends: steps that are still accepted may hold rows of them.
    return state, tuple(AddBrain(each) for each in message.brains)


def _brain_added(state: ControllerState, message: BrainAdded) -> Decision:
    state = replace(state, progress=message.progress)
    if message.release is None:
        return state, ()
    name, release = message.release.behavior, message.release
    record = BehaviorRecord(
        release=release, agents_seen_at=state.seen_at(name), checkpoint_interval=message.checkpoint_interval
    )
    steps = message.progress[name].steps if name in message.progress else 0
    next_save = (steps // message.checkpoint_interval + 1) * message.checkpoint_interval
    state = replace(
        state,
        behaviors={**state.behaviors, name: record},
        next_save={**state.next_save, name: next_save},
    )
    warm: Effects = (WarmUp(name),) if state.options.is_training and state.ending is None else ()
    return state, (*publish(state.options.run, release), *warm, *grant_again(state))


def _blocks_accepted(state: ControllerState, message: BlocksAccepted) -> Decision:
    lessons = with_returns(state.lessons, state.options.lessons, message.returns)
    state = replace(state, progress=message.progress, accepting=state.accepting - 1, lessons=lessons)
    summary: Effects = (WriteSummary(),) if message.has_summaries else ()
    state, effects = end.go_on_ending(state) if state.ending is not None else go_on_collecting(state)
    return state, (*summary, *effects)


def _env_reset(state: ControllerState, message: EnvReset) -> Decision:
    first = message.first
    record = state.envs.get(first.env_id)
    known = None if record is None else (record.incarnation, record.reset_id, record.state)
    if record is None or (first.incarnation, first.reset_id, "resetting") != known:
        return _stale(state, message)
    state, flushed = flush_lost(state, record.env_id)
    pending = behaviors_of(first.pending)
    agents = sum(pending.values())
    record = replace(record, state="ready", pending=pending, until=record.received, agents=max(record.agents, agents))
    record = replace(record, unanswered=0)
    state = _with_env(state, record)
    state = replace(state, agents_max=max(state.agents_max, agents))
    state, accepted = accept(state, (first,))
    return state, (*flushed, *accepted)


def _steps_taken(state: ControllerState, message: StepsTaken) -> Decision:
    effects: Effects = ()
    for block in message.blocks:
        state, more = admit(state, block)
        effects = (*effects, *more)
    state, more = go_on_collecting(state)
    return state, (*effects, *more)


def _player_lost(state: ControllerState, message: PlayerLost) -> Decision:
    record = state.envs.get(message.env_id)
    if record is None or message.incarnation < record.incarnation:
        return _lost_before(state, message)
    asked: Effects = ()
    if state.ending is not None and message.worker not in state.workers:
        # It was not known when the others were asked.
        asked = (end.ask_to_stop(state, state.ending, message.worker),)
    state, record = _successor(state, record, message)
    if record.state == "lost":
        return _with_env(state, record), asked
    state = _lose(state, record, message.unreported_steps)
    state, effects = go_on_collecting(state)
    return state, (PushStatus(), *asked, *effects)


def _lost_before(state: ControllerState, message: PlayerLost) -> Decision:
    """News of a loss that its successor has overtaken: what was bounded is known now, as all its blocks came before."""
    key = message.env_id, message.incarnation
    if key not in state.bounded:
        return _stale(state, message)
    more = max(message.unreported_steps - state.bounded[key], -state.counters.unreported_max)
    bounded = {each: bound for each, bound in state.bounded.items() if each != key}
    return replace(state, counters=state.counters.leave_unreported(more), bounded=bounded), (PushStatus(),)


def _player_restarted(state: ControllerState, message: StartPlayer) -> Decision:
    """A lost player is started again: counted now, since the run may end before it is back."""
    record = state.envs.get(message.environment.env_id)
    if record is None:
        return _stale(state, message)
    return _with_env(state, heard_restarts(record, message.environment.restarts)), (PushStatus(),)


def _lose(state: ControllerState, record: EnvRecord, unreported: int) -> ControllerState:
    """One environment's player is gone: its trajectories end once its delivered blocks are accepted.

    Those that a planned restart or an earlier loss has ended do not go on with what comes late.
    """
    has_open = state.envs[record.env_id].state not in {"launching", "lost"}
    counters = state.counters.leave_unreported(unreported)
    record = replace(record, state="lost", until=record.received, pending={}, player_pid=0)
    cuts = state.cuts | {record.env_id} if has_open else state.cuts
    return _with_env(replace(state, counters=counters, cuts=cuts), record)


def _worker_failed(state: ControllerState, message: WorkerFailed) -> Decision:
    # Every failure raises all its incarnations: one that does not is the same news again.
    newest = max((incarnation for _, incarnation in message.environments), default=-1)
    if newest <= state.failed_at.get(message.worker, -1):
        return _stale(state, message)
    if state.ending is not None and not message.is_restarted and message.worker in state.stopped:
        return _stale(state, message)  # it had told its end, after its last steps
    state = replace(state, failed_at={**state.failed_at, message.worker: newest})
    for env_id, incarnation in message.environments:
        record = state.envs.get(env_id)
        if record is None:
            continue
        record = heard_restarts(record, message.restarts.get(env_id, 0))
        if incarnation < record.incarnation:
            # News of its successor came first, by another road.
            state = _with_env(state, record)
            continue
        # Of what it held last: its loss may never have been told.
        unreported = unreported_bound(record, state.agents_max)
        record = seen_incarnation(record, incarnation, message.worker)
        state = _lose(state, record, unreported)
    count = state.worker_restarts.get(message.worker, 0) + message.is_restarted
    restarts = {**state.worker_restarts, message.worker: count}
    # Until a new one has players, nobody waits for it at the end of the run.
    state = replace(state, worker_restarts=restarts, stopped=state.stopped | {message.worker})
    state, effects = end.go_on_ending(state) if state.ending is not None else go_on_collecting(state)
    return state, (PushStatus(), *effects)


def _holder_failed(state: ControllerState, message: HolderFailed) -> Decision:
    if message.incarnation <= state.holder_failed_at:
        return _stale(state, message)  # the same news again
    restarts = state.holder_restarts + message.is_restarted
    return replace(state, holder_restarts=restarts, holder_failed_at=message.incarnation), ()


def _holder_restarted(state: ControllerState) -> Decision:
    effects: list[object] = []
    for name in sorted(state.behaviors):
        effects.extend(publish(state.options.run, state.behaviors[name].release))
    # The PolicyHolder before may have taken grants with it.
    state, again = grant_riders(state)
    return state, (*effects, *again)


def _update_finished(state: ControllerState, message: UpdateFinished) -> Decision:
    name = message.release.behavior
    record = replace(state.behaviors[name], release=message.release)
    state = replace(
        state,
        behaviors={**state.behaviors, name: record},
        progress=message.progress,
        updating=tuple(each for each in state.updating if each != name),
    )
    published = publish(state.options.run, message.release)
    if state.ending is not None:
        state, effects = end.go_on_ending(state)
        return state, (*published, *effects)
    state, effects = go_on_collecting(state)
    # Who runs on acts with the new policy from the next step; the holder will send no older one any more.
    again = () if state.options.is_sync else grant_again(state)
    return ride(state, (*published, *effects, *again))


def _timer(state: ControllerState, message: TimerFired) -> Decision:
    match message.token:
        case "status":
            state, again = grant_riders(state, waited_periods=1)
            return state, (*again, PushStatus(), SetTimer("status", STATUS_S))
        case "stop" | "update":
            return end.stop_late(state, str(message.token))
        case _:
            return _stale(state, message)
