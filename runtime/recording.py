"""Writes the files of a run: summary, events, models, checkpoints. Owned by the TrainerController's process."""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.decisions.controller_state import ControllerState
from runtime.decisions.ledger import Counters
from runtime.experience.stats import Stat
from runtime.learner import BehaviorSettings, BrainProgress, SaveJob, Summary
from runtime.recording_options import RecordingOptions
from runtime.reporting.hyperparameters import hyperparameter_rows
from runtime.reporting.lines import progress_line
from runtime.reporting.metrics import UpdateMetrics
from runtime.reporting.player_stats import StatsBook
from runtime.reporting.spells import Say, Spells
from runtime.reporting.timers import Gauge, TimeBook, TimerNode, timers_document, widened
from runtime.reporting.training_status import SavedBehavior, SavedModel, saved_models, training_status_document
from runtime.results import ExitReason, RunSummary, write_atomically, write_json_atomically
from runtime.run_directory import RunPaths

if TYPE_CHECKING:
    from runtime.reporting.tensorboard import EventWriter

LINES_MAX = 200


class RunRecorder:
    """The files of one run. `warn` takes one sentence about a file that could not be written, `note` when it was.

    lessons: of each parameter that has some, its lesson now; kept up to date by the owner. times: what all actors
    measured; threads of the owner may add to it. metrics: of updates.
    """

    def __init__(self, options: RecordingOptions, warn: Say, note: Say | None = None) -> None:
        self._options = options
        self._warn = warn
        self._note = note
        self._spells = Spells(warn, note, "the run's reports are written again")
        self._paths = RunPaths(Path(options.root))
        self._events: dict[str, EventWriter] = {}
        # A run that goes on keeps the list of what its earlier parts saved.
        self._models = saved_models(self._paths.training_status)
        self._sha256: dict[str, str] = {}
        self._lines: list[tuple[int, str]] = []
        self._count = 0
        self._first_step_s: float | None = None
        self._stats = StatsBook()
        self._gauges: dict[str, Gauge] = {}
        self._settings: dict[str, BehaviorSettings] = {}
        self._began_s = time.monotonic()
        self.times = TimeBook()
        self.times.add("launcher", "start of parts", seconds=self.elapsed_s())
        self.metrics = UpdateMetrics(self._paths.metrics, warn, note)
        self.lessons: Mapping[str, int] = {}

    @property
    def lines(self) -> tuple[tuple[int, str], ...]:
        """Numbered lines for the screen, the newest `LINES_MAX`."""
        return tuple(self._lines)

    @property
    def first_step_s(self) -> float | None:
        """Seconds from launch to the first accepted agent step."""
        return self._first_step_s

    def sha256(self, behavior: str) -> str:
        """Of the behavior's model file, which an earlier part of the run may have written; empty without one."""
        if behavior not in self._sha256:
            try:
                body = self._paths.model(behavior).read_bytes()
            except OSError:
                return ""
            self._sha256[behavior] = hashlib.sha256(body).hexdigest()
        return self._sha256[behavior]

    def elapsed_s(self) -> float:
        """Seconds since the run was launched."""
        return time.monotonic() - self._options.launched_s

    def say(self, text: str) -> None:
        """Keep one more line for the screen."""
        self._lines.append((self._count, text))
        self._count += 1
        del self._lines[:-LINES_MAX]

    def note_first_step(self) -> None:
        """The first agent step was accepted now."""
        if self._first_step_s is None:
            self._first_step_s = self.elapsed_s()
            self.metrics.start(time.monotonic())

    def describe(self, behavior: str, settings: BehaviorSettings) -> None:
        """The settings of a behavior, which its events begin with."""
        self._settings[behavior] = settings

    def add_summaries(self, summaries: Sequence[Summary], counters: Counters) -> None:
        """Events for each, and progress lines. counters: of the whole run, as of now.

        Where steps that were accepted together cross several summaries, those without an episode say nothing new.
        """
        told = _worth_telling(summaries)
        for each in summaries:
            line = progress_line(
                each.behavior,
                step=each.step,
                elapsed_s=self.elapsed_s(),
                mean_reward=each.mean_reward,
                std_reward=each.std_reward,
                mean_group_reward=each.mean_group_reward,
                is_training=self._options.is_training,
            )
            if each in told:
                self.say(line)
            if self._options.is_training:
                self._write_events(each, totals(counters))
            for tag, value in each.values.items():
                name = f"{each.behavior}.{tag.replace('/', '.').replace(' ', '')}.mean"
                self._gauges[name] = widened(self._gauges.get(name), value)

    def add_stats(self, stats: Sequence[Stat]) -> None:
        """What players reported: it goes into the next events of every behavior."""
        self._stats.add(stats)

    def _write_events(self, summary: Summary, lost: Mapping[str, float]) -> None:
        told = self._stats.take(summary.behavior)
        writer = self._writer(summary.behavior)
        values = {**told.scalars, **summary.values, **lost, **self._lesson_values(summary.behavior)}
        writer.add(summary.step, values, now_s=time.time(), histograms=told.histograms)

    def _lesson_values(self, behavior: str) -> dict[str, float]:
        """The lessons under the tags of today, and that of the behavior under the one of 2019."""
        values = {f"Environment/Lesson Number/{name}": float(number) for name, number in self.lessons.items()}
        own = [number for name, number in self.lessons.items() if self._options.lesson_brains.get(name) == behavior]
        return {**values, "Environment/Lesson": float(own[0])} if own else values

    def _writer(self, behavior: str) -> EventWriter:
        if behavior not in self._events:
            folder = self._paths.behavior_folder(behavior)
            # Its library takes long to load, and nobody needs it before the first summary.
            from runtime.reporting.tensorboard import EventWriter  # noqa: PLC0415

            writer = EventWriter(folder, started_s=self._options.launched_at, warn=self._warn, note=self._note)
            self._events[behavior] = writer
            if settings := self._settings.get(behavior):
                try:
                    writer.add_table("Hyperparameters", hyperparameter_rows(settings), now_s=time.time())
                except Exception as error:  # noqa: BLE001 - as in `_try`, but nothing will write it later
                    self._warn(_unwritten(error))
        return self._events[behavior]

    def save(
        self, job: SaveJob, models: Mapping[str, bytes], progress: Mapping[str, BrainProgress], agent_steps: int
    ) -> None:
        """A checkpoint, then the models; older ones beyond the limit go. Raises StorageError or OSError."""
        target = self._paths.checkpoint(agent_steps)
        target.parent.mkdir(parents=True, exist_ok=True)
        job(target)
        for behavior, body in models.items():
            step_model = self._paths.step_model(behavior, progress[behavior].steps)
            step_model.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(step_model, body)
            write_atomically(self._paths.model(behavior), body)
            self._sha256[behavior] = hashlib.sha256(body).hexdigest()
            self._note_model(progress[behavior], step_model, target)
        self._prune(agent_steps)

    def _note_model(self, progress: BrainProgress, path: Path, checkpoint: Path) -> None:
        model = SavedModel(
            steps=progress.steps,
            file_path=str(path),
            reward=progress.mean_reward,
            creation_time=time.time(),
            other_files=(str(checkpoint),),
        )
        others = [each for each in self._models.get(progress.behavior, []) if each.steps != progress.steps]
        self._models[progress.behavior] = [*others, model]

    def _prune(self, agent_steps: int) -> None:
        # One with more steps than now was damaged and passed over on --resume; it counts for none that can be loaded.
        folders = [each for each in self._paths.checkpoint_folders() if int(each.name) <= agent_steps]
        for folder in folders[self._options.keeps :]:
            shutil.rmtree(folder, ignore_errors=True)
        for behavior in self._models:
            folder = self._paths.behavior_folder(behavior)
            prefix = f"{folder.name}-"
            found = [path for path in folder.glob("*.onnx") if path.stem.removeprefix(prefix).isdecimal()]
            for path in sorted(found, key=lambda each: int(each.stem.removeprefix(prefix)))[: -self._options.keeps]:
                path.unlink(missing_ok=True)
            self._models[behavior] = [each for each in self._models[behavior] if Path(each.file_path).exists()]

    def write_summary(self, state: ControllerState, exit_reason: ExitReason | None) -> RunSummary:
        """Write summary.json as of now; a full disk is said once, and training goes on."""
        summary = self.summary(state, exit_reason)
        self._try("summary", lambda: write_json_atomically(self._paths.summary, summary.to_json()))
        return summary

    def summary(self, state: ControllerState, exit_reason: ExitReason | None) -> RunSummary:
        """The document as of now."""
        counters, elapsed_s = state.counters, self.elapsed_s()
        progress = state.progress
        working_s = elapsed_s - (self._first_step_s or 0.0)
        return RunSummary(
            run_id=self._options.run_id,
            seed=self._options.seed,
            elapsed_s=elapsed_s,
            exit_reason=exit_reason,
            env_steps=counters.env_steps,
            agent_steps=counters.agent_steps,
            decisions=counters.decisions,
            steps_per_s=counters.agent_steps / working_s if self._first_step_s is not None and working_s > 0 else 0.0,
            mean_reward={name: each.mean_reward for name, each in progress.items()},
            mean_episode_length={name: each.mean_episode_length for name, each in progress.items()},
            episodes={name: each.episodes for name, each in progress.items()},
            policy_version={name: each.version for name, each in progress.items()},
            policy_sha256={name: self.sha256(name) or None for name in progress},
            lost_steps=dict(counters.lost),
            unreported_steps_max=counters.unreported_max,
            replaced_numbers=counters.replaced_numbers,
            restarts={int(env_id): each.restarts for env_id, each in state.envs.items()},
            workers={each: state.worker_restarts.get(each, 0) for each in range(self._options.workers)},
            holder=state.holder_restarts,
            lessons=dict(state.lessons.numbers),
        )

    def write_logs(self, *, is_final: bool) -> None:
        """run_logs/training_status.json and timers.json."""
        versions = {"runtime_version": _version("actor-ml-runtime"), "onnxruntime_version": _version("onnxruntime")}
        behaviors = {
            name: SavedBehavior(checkpoints=models, final=models[-1] if is_final and models else None)
            for name, models in self._models.items()
        }
        status = training_status_document(behaviors, versions=versions, lessons=self.lessons)
        self._try("status", lambda: write_json_atomically(self._paths.training_status, status))
        root = TimerNode(total_s=self.elapsed_s(), count=1, children=self._time_tree())
        metadata = {
            "start_time_seconds": str(int(self._options.launched_at)),
            "end_time_seconds": str(int(time.time())),
            "python_version": platform.python_version(),
            **versions,
        }
        gauges = dict(self._gauges)
        timers = timers_document(root, gauges, metadata)
        self._try("timers", lambda: write_json_atomically(self._paths.timers, timers))

    def _time_tree(self) -> dict[str, TimerNode]:
        tree = self.times.tree()
        controller = tree.get("TrainerController", TimerNode())
        tree["TrainerController"] = replace(controller, total_s=time.monotonic() - self._began_s, count=1)
        if "EnvWorkers" in tree:
            tree["EnvWorkers"] = replace(tree["EnvWorkers"], count=self._options.workers)
        return tree

    def close(self) -> None:
        """Close the event files."""
        for writer in self._events.values():
            writer.close()

    def _try(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - reports must not end a run that can still save its models
            self._spells.failed(name, _unwritten(error))
        else:
            self._spells.written(name)


def _unwritten(error: Exception) -> str:
    return f"cannot write the run's reports: {error}"


def _worth_telling(summaries: Sequence[Summary]) -> list[Summary]:
    """Of each behavior those with an episode; where there is none, the newest."""
    newest = {each.behavior: each for each in summaries}
    with_episodes = {each.behavior for each in summaries if each.mean_reward is not None}
    return [
        each
        for each in summaries
        if each.mean_reward is not None or (each.behavior not in with_episodes and each is newest[each.behavior])
    ]


def totals(counters: Counters) -> dict[str, float]:
    """What the whole run has counted and lost so far, by the tags that TensorBoard shows; nothing that is 0."""
    counts = {
        "Runtime/Env Steps": counters.env_steps,
        "Runtime/Agent Steps": counters.agent_steps,
        "Runtime/Decisions": counters.decisions,
        **{f"Runtime/Lost Steps/{reason}": count for reason, count in counters.lost.items()},
        "Runtime/Unreported Steps Max": counters.unreported_max,
    }
    return {tag: float(count) for tag, count in counts.items() if count}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
