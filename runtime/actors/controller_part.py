"""The TrainerController as a part: carries out what its machine decides about learning and storage.

Learning runs on one thread and saving on another, so that messages are answered meanwhile; their outcomes come back as
facts through `Host.post`. This module never imports a learning library: the learner arrives through a factory.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cloudpickle

from runtime.actors.controller_start import ControllerStart
from runtime.actors.parts import Host, perform_common
from runtime.actors.status import status_from
from runtime.decisions import effects as fx
from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerPhase
from runtime.errors import InternalError, PlayerError, ShapeError, TrainingError
from runtime.experience.brains import EnvId
from runtime.learner import Learner, LearnerOptions, UpdateJob
from runtime.messages import Status
from runtime.recording import RunRecorder
from runtime.reporting.timers import TimeBook
from runtime.results import ExitReason

logger = logging.getLogger(__name__)

IDLE_CHECK_ENV_STEPS = 1000
LEAVE_S = 30.0
# How often the same is said again: while everything starts, nothing changes.
SAME_STATUS_S = 1.0


@dataclass(frozen=True, slots=True)
class _Job:
    what: str
    job: Callable[[], object]
    done: Callable[[object, float], None]


class Background:
    """One thread that runs jobs in order and hands their outcomes to the part's thread, and their times to `times`."""

    def __init__(self, name: str, host: Host, times: TimeBook) -> None:
        self._host = host
        self._name = f"{name} thread"
        self._times = times
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _working.add(self)

    def submit(self, what: str, job: Callable[[], object], done: Callable[[object, float], None]) -> None:
        """Run `job`, known to the timers as `what`.

        `done` gets its result, or the exception that it raised, and its seconds, on the part's thread.
        """
        self._jobs.put(_Job(what, job, done))

    def end(self) -> None:
        """No more jobs; the one that runs is not waited for."""
        self._jobs.put(None)

    def await_end(self, timeout_s: float) -> None:
        """No more jobs; wait for the one that runs."""
        self.end()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            began_s = time.monotonic()
            try:
                result: object = entry.job()
            except Exception as error:  # noqa: BLE001 - it crosses threads as data and is reported there
                result = error
            took_s = time.monotonic() - began_s
            self._times.add(self._name, entry.what, seconds=took_s)
            self._host.post(lambda e=entry, r=result, t=took_s: e.done(r, t))  # type: ignore[misc]


# Those of this process, for its end.
_working: weakref.WeakSet[Background] = weakref.WeakSet()


def await_jobs() -> None:
    """Let jobs end before the interpreter does: one that is cut off in native code takes the process down with it."""
    until_s = time.monotonic() + LEAVE_S
    for each in list(_working):
        each.await_end(max(0.0, until_s - time.monotonic()))


class ControllerPart:
    """The TrainerController: its machine, its learner and its recorder."""

    def __init__(self, host: Host, start: ControllerStart) -> None:
        self._host = host
        self._start = start
        self._facts: deque[object] = deque()
        self._is_handling = False
        warn, note = (lambda text: self._report("fault", text)), (lambda text: self._report("note", text))
        self._recorder = RunRecorder(start.recording, warn, note)
        self._learning = Background("learner", host, self._recorder.times)
        self._storage = Background("storage", host, self._recorder.times)
        self._options: LearnerOptions | None = None
        self._learner: Learner | None = None
        self._core: ControllerCore | None = None
        self._idle_checked_at = 0
        self._is_restored = False
        self._told: Status | None = None
        self._told_s = 0.0

    # ---- as a part

    def begin(self) -> None:
        """Make the learner, restore what is to be resumed, and begin; whatever fails there ends the run."""
        resumed: Mapping[str, object] | None = None
        failure: fx.LearnerFailed | None = None
        try:
            resumed = self._make_learner()
        except TrainingError as error:
            failure = fx.LearnerFailed(str(error), error.exit_code)
        except Exception as error:  # of foreign code too, such as a library that cannot be loaded
            logger.exception("the learner could not be made")
            failure = fx.LearnerFailed(_failure("making the learner", error), 4)
        progress = {} if resumed is None else self._the_learner.progress()
        self._core = ControllerCore(self._start.options, resumed, progress)
        self._perform_all(self._core.begin())
        if failure is not None:
            self._feed(failure)

    def _make_learner(self) -> Mapping[str, object] | None:
        """Make the learner; the `run_state` of the run that it goes on with, None for a new one."""
        factory, self._options = cloudpickle.loads(self._start.learner)
        learner: Learner = factory(self._options)
        self._learner = learner
        resumed: Mapping[str, object] | None = None
        if self._start.resume:
            resumed = learner.load([Path(each) for each in self._start.resume])
            self._is_restored = True
            for damaged in _texts(resumed.get("damaged")):
                self._report("fault", f"a damaged checkpoint was passed over: {damaged}")
        if self._start.initialize:
            learner.initialize_from([Path(each) for each in self._start.initialize])
        return resumed

    def receive(self, message: object, sender: object) -> None:
        """A message from another part."""
        del sender  # the controller answers parts by their roles
        self._feed(message)

    def timer(self, token: Hashable) -> None:
        """A timer of the machine's."""
        self._feed(fx.TimerFired(token))

    def fail(self, error: BaseException) -> None:
        """A handler of this part failed, which is a bug: end the run with the models saved."""
        self._is_handling = False
        self._facts.clear()
        self._feed(fx.LearnerFailed(f"the TrainerController failed: {type(error).__name__}: {error}", 4))

    def close(self) -> None:
        """Nothing of this part has a process of its own."""
        self._learning.end()
        self._storage.end()
        self._recorder.close()

    # ---- the machine

    def _feed(self, fact: object) -> None:
        """Handle a fact, and those that its effects bring about, one after another."""
        self._facts.append(fact)
        if self._is_handling or self._core is None:
            return
        self._is_handling = True
        try:
            while self._facts:
                effects = self._core.handle(self._facts.popleft(), self._host.now_s())
                self._recorder.lessons = self._core.state.lessons.numbers
                self._perform_all(effects)
        finally:
            self._is_handling = False

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            if not perform_common(self._host, effect, self._report):
                self._perform(effect)

    def _perform(self, effect: object) -> None:
        match effect:
            case fx.AcceptBlocks():
                self._accept(effect)
            case fx.StartUpdate(behavior):
                self._update(behavior)
            case fx.AddBrain():
                self._add_brain(effect)
            case fx.WarmUp(behavior):
                warm_up = partial(self._the_learner.warm_up, behavior)
                self._learning.submit(f"prepare {behavior}", warm_up, self._warmed_up)
            case fx.CutTrajectories(env_id):
                if self._learner is not None:  # a run whose learner could not be made ends too
                    self._learner.cut(env_id)
            case fx.StartSave(run_state, is_final):
                self._save(run_state, is_final=is_final)
            case fx.WriteSummary(exit_reason):
                self._write_summary(exit_reason)
            case fx.RecordStats(stats, times):
                self._recorder.add_stats(stats)
                for name, (seconds, count) in times.items():
                    self._recorder.times.add("EnvWorkers", name, seconds=seconds, count=count)
            case fx.PushStatus():
                self._push_status()
            case _:
                msg = f"a TrainerController cannot perform {type(effect).__name__}"
                raise InternalError(msg)

    @property
    def _the_learner(self) -> Learner:
        assert self._learner is not None
        return self._learner

    @property
    def _the_options(self) -> LearnerOptions:
        assert self._options is not None
        return self._options

    @property
    def _the_core(self) -> ControllerCore:
        assert self._core is not None
        return self._core

    # ---- learning

    def _add_brain(self, effect: fx.AddBrain) -> None:
        brain = effect.brain
        try:
            release = self._the_learner.add_brain(brain)
        except ShapeError as error:
            self._facts.append(fx.LearnerFailed(str(error), 3))
            return
        except TrainingError as error:
            self._facts.append(fx.LearnerFailed(str(error), error.exit_code))
            return
        if release is not None and release.warning:
            self._report("fault", release.warning)
        if release is not None and (note := self._the_options.note_for(brain.behavior_name)):
            self._report("note", note)
        self._recorder.describe(brain.behavior_name, self._the_options.settings_for(brain.behavior_name))
        interval = checkpoint_interval(self._the_options, brain.behavior_name)
        self._facts.append(fx.BrainAdded(brain, release, self._the_learner.progress(), interval))

    def _accept(self, effect: fx.AcceptBlocks) -> None:
        learner, began_s = self._the_learner, time.monotonic()
        try:
            for block in effect.blocks:
                learner.accept(block)
                if block.agent_steps:
                    self._recorder.note_first_step()
        except TrainingError as error:
            self._facts.append(fx.LearnerFailed(str(error), 3 if isinstance(error, PlayerError) else error.exit_code))
        self._cut_idle()
        summaries = learner.take_summaries()
        self._recorder.add_summaries(summaries, self._the_core.state.counters)
        returns = learner.take_returns() if self._start.options.lessons else {}
        self._facts.append(fx.BlocksAccepted(learner.progress(), bool(summaries), returns))
        self._recorder.times.add("TrainerController", "accept blocks", seconds=time.monotonic() - began_s)

    def _cut_idle(self) -> None:
        state = self._the_core.state
        if state.counters.env_steps - self._idle_checked_at < IDLE_CHECK_ENV_STEPS:
            return
        self._idle_checked_at = state.counters.env_steps
        for env_id in state.envs:
            cut = self._the_learner.cut_idle(EnvId(env_id), self._start.agent_idle_steps_max)
            if cut:
                limit = self._start.agent_idle_steps_max
                text = f"environment {env_id}: {cut} agents were silent for more than {limit} env steps and are cut off"
                self._report("note", text)

    def _warmed_up(self, result: object, took_s: float) -> None:
        del took_s
        if isinstance(result, Exception):
            self._feed(fx.LearnerFailed(_failure("preparing the update", result), 4))

    def _update(self, behavior: str) -> None:
        began_s = time.monotonic()
        experiences = self._the_learner.progress()[behavior].buffered
        try:
            job: UpdateJob = self._the_learner.begin_update(behavior)
        except TrainingError as error:
            self._facts.append(fx.LearnerFailed(str(error), error.exit_code, behavior))
            return
        self._recorder.metrics.begin_update(behavior, experiences, began_s)
        self._recorder.times.add("TrainerController", "begin update", seconds=time.monotonic() - began_s)
        self._learning.submit(f"update {behavior}", job, partial(self._updated, behavior))

    def _updated(self, behavior: str, outcome: object, took_s: float) -> None:
        began_s = time.monotonic()
        if isinstance(outcome, Exception):
            code = outcome.exit_code if isinstance(outcome, TrainingError) else 4
            self._feed(fx.LearnerFailed(_failure(f"the update of {behavior!r}", outcome), code, behavior))
            return
        try:
            release = self._the_learner.finish_update(outcome)  # type: ignore[arg-type] # the job's own result
        except TrainingError as error:
            self._feed(fx.LearnerFailed(str(error), error.exit_code, behavior))
            return
        progress, now_s = self._the_learner.progress(), time.monotonic()
        self._recorder.times.add("TrainerController", "finish update", seconds=now_s - began_s)
        mean = progress[behavior].mean_reward
        # Taken now, as feeding may begin the next update; written when players have their policy.
        row = self._recorder.metrics.finish_update(behavior, update_s=took_s, mean_return=mean, now_s=now_s)
        self._feed(fx.UpdateFinished(release, progress))
        self._recorder.metrics.write(row)

    # ---- storage

    def _save(self, run_state: Mapping[str, object], *, is_final: bool) -> None:
        learner, state, began_s = self._the_learner, self._the_core.state, time.monotonic()
        progress = learner.progress()
        try:
            job = learner.begin_save(run_state)
            models = {name: learner.unity_model(name) for name in progress}
        except Exception as error:  # noqa: BLE001 - reported as a failed save; training goes on
            self._facts.append(fx.SaveFinished(is_final, f"{type(error).__name__}: {error}"))
            return
        agent_steps = state.counters.agent_steps
        self._recorder.times.add("TrainerController", "begin save", seconds=time.monotonic() - began_s)

        def save() -> None:
            self._recorder.save(job, models, progress, agent_steps)
            self._recorder.write_logs(is_final=is_final)

        def done(result: object, took_s: float) -> None:
            del took_s
            error = str(result) if isinstance(result, Exception) else ""
            self._feed(fx.SaveFinished(is_final, error))

        self._storage.submit("save", save, done)

    def _write_summary(self, exit_reason: str) -> None:
        if self._start.resume and not self._is_restored:
            return  # what the earlier part of the run wrote stands; the launcher adds how this one ended
        reason: ExitReason | None = exit_reason or None  # type: ignore[assignment] # the reasons that the summary knows
        self._recorder.write_summary(self._the_core.state, reason)

    # ---- the screen

    def _report(self, level: str, text: str) -> None:
        logger.info("%s", text, extra={"level_of_line": level})
        prefix = "[WARNING] " if level == "fault" else "[INFO] "
        for line in text.splitlines():
            self._recorder.say(prefix + line)

    def _push_status(self) -> None:
        state, now_s = self._the_core.state, self._host.now_s()
        status = status_from(state, self._recorder)
        if status != self._told or now_s - self._told_s >= SAME_STATUS_S:
            self._told, self._told_s = status, now_s
            self._host.send(fx.SUPERVISOR, status)
        if state.phase is ControllerPhase.ENDED:
            self._recorder.write_logs(is_final=True)


def checkpoint_interval(options: LearnerOptions, behavior: str) -> int:
    """Agent steps between checkpoints of a behavior; `even_checkpoints` spreads `keep_checkpoints` over the run."""
    settings = options.settings_for(behavior)
    if settings.even_checkpoints:
        return max(1, settings.max_steps // max(1, settings.keep_checkpoints))
    return settings.checkpoint_interval


def _failure(what: str, error: Exception) -> str:
    if isinstance(error, TrainingError):
        return str(error)
    return f"{what} failed: {type(error).__name__}: {error}"


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else ()
