"""`python -m runtime.train`: the composition root, the one module that knows both the actors and the trainers."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import NoReturn

from runtime.decisions.supervisor import EXIT_CODES
from runtime.errors import TrainingError
from runtime.messages import Status
from runtime.progress import BrainView, Console, EnvironmentView, ProgressView
from runtime.reporting.lines import losses_text
from runtime.series import not_reached, series_of
from runtime.session import TrainingSession
from runtime.settings import RunSettings, Surroundings, parse_run_settings
from runtime.settings.model import Editor

POLL_S = 0.25
HURRY_S = 1.5
CLOSE_S = 5.0
LEAVE_S = 9.5


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and return the exit code of `interfaces`: 0 done, 2 usage, 3 environment, 4 trainer, 5 storage."""
    console = Console()
    # What actors log is in the run's log; where they run in this process, it would stand on the screen a second time.
    logging.getLogger("runtime").addHandler(logging.NullHandler())
    try:
        settings = _settings(sys.argv[1:] if argv is None else argv)
    except TrainingError as error:
        _say_error(console, str(error))
        return error.exit_code
    for warning in settings.warnings:
        console.warning(warning)
    if settings.num_runs == 1:
        return _run_one(settings, console)
    return _run_all(settings, console)


def _run_one(settings: RunSettings, console: Console) -> int:
    if _is_finished_already(settings, console):
        return 0
    return Training(settings, console).run()


def _run_all(settings: RunSettings, console: Console) -> int:
    """The runs of `--num-runs`, one after another; the first exit code that is not 0. An interrupt ends them all."""
    try:
        runs = series_of(settings)
    except TrainingError as error:
        _say_error(console, str(error))
        return error.exit_code
    worst = 0
    for number, each in enumerate(runs, 1):
        saved = each.checkpoints
        how = "resumed" if saved.resume else f"seed {each.environment.seed}"
        console.line(f"[INFO] Run {number} of {len(runs)}: {saved.run_id}, {how}")
        if _is_finished_already(each, console):
            continue
        training = Training(each, console)
        # Who interrupts a run in its last moment, or one that fails, means the series all the same.
        code = training.run() or training.asked_code
        worst = worst or code
        if training.asked_code:
            if number < len(runs):
                console.line(f"[INFO] {not_reached(runs, number)}")
            break
    return worst


def _say_error(console: Console, text: str) -> None:
    for line in text.splitlines():
        console.line(f"[ERROR] {line}")


def _settings(argv: Sequence[str]) -> RunSettings:
    from fakeunity.scenes.catalogue import SCENES
    from fakeunity.spec import REPLAY, parse_url

    around = Surroundings(
        scenes=frozenset((*SCENES, REPLAY)),
        rng=random.SystemRandom(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        check_scene_url=parse_url,
    )
    return parse_run_settings(argv, around, version=_version())


def _version() -> str:
    try:
        return version("actor-ml-runtime")
    except PackageNotFoundError:
        return "not installed"


def peek_run_state(folders: Sequence[Path]) -> Mapping[str, object]:
    """The `run_state` of the first loadable checkpoint, with the steps of each behavior under `steps`."""
    from trainers.checkpoints import first_loadable

    _, checkpoint, _ = first_loadable(folders)
    run_state = checkpoint.state.get("run_state") if isinstance(checkpoint.state, Mapping) else None
    return run_state if isinstance(run_state, Mapping) else {}


def make_learner(options: object) -> object:
    """The learner of `trainers`; a function of its own so that it travels by name."""
    from trainers.learner import create_learner

    return create_learner(options)  # type: ignore[arg-type] # cloudpickled LearnerOptions


def _is_finished_already(settings: RunSettings, console: Console) -> bool:
    """Whether `--resume` was asked for a run whose every behavior has taken its `max_steps`, or beyond `--stop-at`."""
    saved = settings.checkpoints
    if not saved.resume or saved.inference:
        return False
    from runtime.run_directory import RunPaths

    paths = RunPaths(Path(saved.results_dir) / saved.run_id)
    try:
        run_state = peek_run_state(paths.checkpoint_folders())
        steps, taken = run_state.get("steps"), run_state.get("agent_steps")
        if not isinstance(steps, Mapping) or not steps:
            return False
        done = all(int(count) >= settings.settings_for(name).max_steps for name, count in steps.items())
    except TrainingError:
        return False  # said properly when the run is started
    if done:
        told = ", ".join(f"{name} at step {count}" for name, count in steps.items())
        console.line(f"[INFO] The run {saved.run_id} is finished already ({told}). Raise max_steps to go on.")
        return True
    if settings.stop_at is not None and isinstance(taken, int) and taken >= settings.stop_at:
        console.line(f"[INFO] The run {saved.run_id} has taken {taken} agent steps already. Raise --stop-at to go on.")
        return True
    return False


class Training:
    """One run on a terminal: progress, signals, exit code."""

    def __init__(self, settings: RunSettings, console: Console) -> None:
        self._console = console
        self._session = TrainingSession(settings, make_learner, peek=peek_run_state)  # type: ignore[arg-type]
        self._signals: list[str] = []
        self._wake_read, self._wake_write = os.pipe()
        self._printed = -1
        self._asked_s: float | None = None
        self._faults: list[str] = []

    @property
    def asked_code(self) -> int:
        """The exit code of who was asked to stop; 0 while nobody has asked."""
        return EXIT_CODES[self._signals[0]] if self._signals else 0

    def run(self) -> int:
        """Start, watch and end the run; its exit code."""
        before = {each: signal.signal(each, self._on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._run()
        finally:
            self._console.close()
            for each, handler in before.items():
                signal.signal(each, handler)
            for end in (self._wake_read, self._wake_write):
                os.close(end)

    def _run(self) -> int:
        try:
            self._session.start()
        except TrainingError as error:
            _say_error(self._console, str(error))
            return error.exit_code
        try:
            self._announce()
            status = self._watch()
            if status is not None:
                self._say_end(status)  # first: until all parts are gone may take seconds
        finally:
            self._session.close(self._close_s())
        code = self._ended(status)
        for line in self._session.profile().splitlines():
            self._console.line(f"[PROFILE] {line}")
        return code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append("terminated" if number == signal.SIGTERM else "interrupted")
        os.write(self._wake_write, b"\0")

    def _announce(self) -> None:
        session, env = self._session, self._session.settings.environment
        for note in session.notes:
            self._console.line(f"[INFO] {note}")
        where = "the Unity Editor: press Play" if isinstance(env.target, Editor) else f"{env.num_envs} player(s)"
        self._console.line(
            f"[INFO] Run {session.run_id}: {where}, {session.settings.workers} EnvWorker(s), seed {env.seed}, "
            f"results in {session.folder}"
        )

    def _watch(self) -> Status | None:
        """Follow the run to its end; None when it was left in a hurry."""
        while True:
            status = self._session.poll(POLL_S)
            for text in self._session.warnings():
                self._faults.append(text)
                self._console.warning(text)
            if status is not None:
                self._print_lines(status)
                if status.exit_reason:
                    return status
                self._console.show(self._view(status))
            if len(self._signals) > 1:
                return None
            if self._signals and self._asked_s is None:
                self._asked_s = time.monotonic()
                self._console.line("[INFO] Stopping: the models are saved first. Once more leaves at once.")
                self._session.request_stop(self._signals[0])
            if self._asked_s is not None and time.monotonic() - self._asked_s > LEAVE_S - HURRY_S:
                return None
            if status is not None:
                select.select([self._wake_read], [], [], POLL_S)

    def _close_s(self) -> float:
        """How long the end may take: who asked once waits ten seconds in all, who asked twice does not wait."""
        if len(self._signals) > 1:
            return HURRY_S
        spent_s = 0.0 if self._asked_s is None else time.monotonic() - self._asked_s
        return min(CLOSE_S, max(HURRY_S, LEAVE_S - spent_s))

    def _print_lines(self, status: Status) -> None:
        for number, text in status.lines:
            if number > self._printed:
                self._printed = number
                self._console.line(text)
                if text.startswith("[WARNING]"):
                    self._faults.append(text)

    def _view(self, status: Status) -> ProgressView:
        elapsed_s = time.monotonic() - self._session.launched_s
        working_s = elapsed_s - (status.first_step_s or 0.0)
        return ProgressView(
            run_id=self._session.run_id,
            elapsed_s=elapsed_s,
            env_steps=status.env_steps,
            agent_steps=status.agent_steps,
            decisions=status.decisions,
            steps_per_s=status.agent_steps / working_s if status.first_step_s and working_s > 0 else 0.0,
            brains=[
                BrainView(
                    name=each.behavior,
                    step=each.steps,
                    max_steps=each.max_steps,
                    mean_reward=each.mean_reward,
                    std_reward=None,
                    policy_version=each.policy_version,
                    acted_version=each.acted_version,
                )
                for each in status.brains
            ],
            environments=[
                EnvironmentView(
                    env_id=each.env_id,
                    state=each.state,
                    incarnation=each.incarnation,
                    pid=each.player_pid or None,
                    restarts=each.restarts,
                )
                for each in status.environments
            ],
            faults=self._faults,
            lost_steps=status.lost_steps,
            unreported_steps_max=status.unreported_steps_max,
        )

    def _say_end(self, status: Status) -> None:
        if status.exit_code in (0, *EXIT_CODES.values()):
            self._console.line(
                f"[INFO] Run {self._session.run_id} ended: {status.exit_reason}. {status.cause}".rstrip()
            )
        else:
            _say_error(self._console, f"Run {self._session.run_id} ended: {status.exit_reason}. {status.cause}")

    def _ended(self, status: Status | None) -> int:
        if status is None:
            # Only now nothing is written any more.
            kept = "the last checkpoint stands" if self._session.has_checkpoint() else "nothing was saved"
            self._console.line(f"[WARNING] Left without waiting for the save; {kept}.")
            self._session.record_exit(self._signals[0])
            return self.asked_code
        self._session.record_exit(status.exit_reason)
        if status.exit_reason in EXIT_CODES and not self._session.has_checkpoint():
            self._console.line("[INFO] Nothing was saved: the run had not begun.")
        if status.replaced_numbers:
            self._console.warning(
                f"{status.replaced_numbers} numbers of players were not finite and became 0 (--not-finite zero)."
            )
        losses = losses_text(status.lost_steps, status.unreported_steps_max)
        if losses:
            self._console.warning(f"{losses} (summary.json: lost_steps, unreported_steps_max).")
        for each in status.brains:
            mean = "no episode finished" if each.mean_reward is None else f"mean reward {each.mean_reward:.3f}"
            self._console.line(
                f"[INFO] {each.behavior}: {each.steps} steps, {each.episodes} episodes, {mean}, "
                f"policy version {each.policy_version}"
            )
        return status.exit_code


def command() -> NoReturn:
    """The command line's entrance: `main`, and out.

    The process is left without the interpreter's clean-up: a learner thread inside TensorFlow would be ended by it in
    the middle of native code, which aborts the process and loses the exit code.
    """
    try:
        code = main()
    except SystemExit as leave:  # --help and --version
        code = leave.code if isinstance(leave.code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever read it has gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    command()
