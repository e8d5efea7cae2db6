"""The folder of a run: who may use it, what becomes of an earlier run there, and where each file is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.errors import StorageError, UsageError
from runtime.folders import checkpoint_folders, sync_folder
from runtime.run_files import delete_ours
from runtime.run_lock import LOCK_NAME, RunLock, take_lock, this_process
from runtime.settings.faults import listed, nearest, shown
from runtime.settings.model import CheckpointSettings, RunSettings
from runtime.settings.names import clean_name

NUMBERED_IDS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where the files of a run are. Names of brains are made safe for files; `?team=N` is dropped."""

    root: Path

    @property
    def configuration(self) -> Path:
        """The resolved options."""
        return self.root / "configuration.yaml"

    @property
    def summary(self) -> Path:
        """The counters and outcomes."""
        return self.root / "summary.json"

    @property
    def training_summary(self) -> Path:
        """The summary that the training left, once the run has been used for inference."""
        return self.root / "training_summary.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.root / "checkpoints"

    @property
    def run_logs(self) -> Path:
        """The folder of logs."""
        return self.root / "run_logs"

    @property
    def timers(self) -> Path:
        """Where the time went."""
        return self.run_logs / "timers.json"

    @property
    def profile(self) -> Path:
        """The folder of samples of where the time went."""
        return self.run_logs / "profile"

    @property
    def training_status(self) -> Path:
        """The list of saved models."""
        return self.run_logs / "training_status.json"

    def metrics(self, brain: str) -> Path:
        """What every update of a behavior took and gave."""
        return self.run_logs / f"metrics-{clean_name(brain)}.csv"

    def player_log(self, env_id: int) -> Path:
        """The log that the player of an environment writes."""
        return self.run_logs / f"Player-{env_id}.log"

    def behavior_folder(self, brain: str) -> Path:
        """The folder of a behavior's events and step models."""
        return self.root / clean_name(brain)

    def model(self, brain: str) -> Path:
        """The newest model for Unity."""
        return self.root / f"{clean_name(brain)}.onnx"

    def step_model(self, brain: str, agent_steps: int) -> Path:
        """The model for Unity that belongs to a checkpoint."""
        return self.behavior_folder(brain) / f"{clean_name(brain)}-{agent_steps}.onnx"

    def checkpoint(self, agent_steps: int) -> Path:
        """The folder of one checkpoint."""
        return self.checkpoints / str(agent_steps)

    def checkpoint_folders(self) -> tuple[Path, ...]:
        """The folders of checkpoints, those with most steps first; whether each can be loaded is not known yet."""
        return checkpoint_folders(self.checkpoints)


class RunDirectory:
    """A run's folder, held by this process. notes: sentences for the user about what was found and done."""

    def __init__(self, paths: RunPaths, lock: RunLock, notes: tuple[str, ...]) -> None:
        self.paths = paths
        self.notes = notes
        self._lock = lock

    @property
    def run_id(self) -> str:
        """The id that was claimed, which may have got a number."""
        return self.paths.root.name

    def release(self) -> None:
        """Lets other processes use the folder; may be called twice."""
        self._lock.release()


def claim_run_directory(settings: RunSettings) -> RunDirectory:
    """The folder for the run that `settings` describe, locked.

    Raises UsageError when the id exists and neither `--resume` nor `--force` was given (nothing is touched then), when
    another process holds the folder, or when the run to initialize from does not exist; StorageError when there is no
    checkpoint to resume from, or the folder cannot be written.
    """
    saved = settings.checkpoints
    results = Path(saved.results_dir)
    if saved.initialize_from is not None:
        _check_source(results, saved.initialize_from)
    if saved.resume:
        root = results / saved.run_id
        _check_resumable(root)
    else:
        root = _make(results, saved, may_number=settings.bundled_scene is not None and not saved.run_id_given)
    lock = take_lock(root, this_process())
    try:
        notes = _prepare(root, saved, lock)
    except BaseException:
        lock.release()
        raise
    return RunDirectory(RunPaths(root), lock, notes)


def initial_checkpoints(settings: RunSettings) -> tuple[Path, ...]:
    """The checkpoints of the run to initialize from, newest first; none when there is no such run."""
    saved = settings.checkpoints
    if saved.initialize_from is None:
        return ()
    return RunPaths(Path(saved.results_dir) / saved.initialize_from).checkpoint_folders()


def _check_source(results: Path, run_id: str) -> None:
    if RunPaths(results / run_id).checkpoint_folders():
        return
    known = _known_runs(results, run_id)
    raise UsageError(f"--initialize-from: there is no run {shown(run_id)!r} with a checkpoint in {results}{known}")


def _check_resumable(root: Path) -> None:
    if RunPaths(root).checkpoint_folders():
        return
    if root.is_dir():
        take_lock(root, this_process()).release()  # a run that is just beginning is said to be held, not to be empty
        found, advice = f"the run {root} has no checkpoint", "Start it anew with --force instead of --resume."
    else:
        found, advice = f"there is no run {root}", "Leave --resume out to start a new run."
    raise StorageError(f"--resume: {found} to go on from{_known_runs(root.parent, root.name)} {advice}")


def _known_runs(results: Path, run_id: str) -> str:
    """The rest of a sentence that names the runs which have a checkpoint."""
    try:
        runs = sorted(path.name for path in results.iterdir() if RunPaths(path).checkpoint_folders())
    except OSError:
        runs = []
    close = nearest(run_id, runs)
    return f"; runs there: {listed(runs)}{f'; nearest: {close}' if close else ''}." if runs else "."


def _make(results: Path, saved: CheckpointSettings, *, may_number: bool) -> Path:
    """A new folder, or with `--force` the existing one. Making it is the claim: two runs never get the same."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        for count in range(1, NUMBERED_IDS_MAX + 1):
            root = results / (saved.run_id if count == 1 else f"{saved.run_id}-{count}")
            try:
                root.mkdir()
                sync_folder(results)
            except FileExistsError:
                if saved.force and root.is_dir():
                    return root
                if may_number:
                    continue
                raise UsageError(
                    f"the run id {shown(saved.run_id)!r} exists already: {root}. "
                    "Add --resume to go on with it, --force to delete it first, or choose another --run-id.",
                ) from None
            return root
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot make the run's folder in {results}: {reason}. Choose --results-dir.") from error
    raise UsageError(f"all of {saved.run_id}, {saved.run_id}-2, ... exist in {results}. Choose another --run-id.")


def _prepare(root: Path, saved: CheckpointSettings, lock: RunLock) -> tuple[str, ...]:
    notes = []
    if root.name != saved.run_id:
        notes.append(f"the run id {saved.run_id} exists already; this run is {root.name}")
    if lock.stale is not None:
        notes.append(f"took over the lock of {lock.stale}, which ended without giving it back")
    elif lock.unread:
        notes.append(f"took over a lock that names nobody and that nobody holds; {LOCK_NAME} had: {shown(lock.unread)}")
    try:
        if saved.force:
            foreign = delete_ours(root)
            if foreign:
                notes.append(f"--force left what this program did not write in {root}: {listed(foreign)}")
        RunPaths(root).run_logs.mkdir(exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write to {root}: {reason}. Check permissions, or choose --results-dir.") from error
    return tuple(notes)
