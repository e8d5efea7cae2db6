"""The runs of `--num-runs`: their names and seeds, and which of them are begun and which go on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from runtime.errors import StorageError, UsageError
from runtime.run_directory import RunPaths
from runtime.run_lock import take_lock, this_process
from runtime.settings.blocks import SEED_MAX
from runtime.settings.faults import listed, shown
from runtime.settings.model import RunSettings
from runtime.settings.writing import recorded_seed


def series_of(settings: RunSettings) -> tuple[RunSettings, ...]:
    """The settings of each run: run i (from 0) is called ID-i and has the seed + i, or 0 and on after 2^31 - 1.

    So the seeds of a series are distinct, and a series with the same seed is the same series. With `--resume` a run
    without a folder is begun as the series would have begun it; without `--seed`, its seed follows from what the folder
    of another tells.

    Raises UsageError when a folder of one exists already and neither `--resume` nor `--force` was given, or when one is
    in use; StorageError with `--resume` when none exists, or one holds no checkpoint. None is begun then.
    """
    saved = settings.checkpoints
    roots = [Path(saved.results_dir) / f"{saved.run_id}-{number}" for number in range(settings.num_runs)]
    there = {root.name for root in roots if root.exists()}
    if saved.resume:
        _check_resumable(settings, roots, there)
    elif there and not saved.force:
        raise UsageError(
            f"the runs {_listed(roots, there)} of {shown(saved.run_id)!r} exist already in {saved.results_dir}. Add "
            "--resume to go on with them, --force to delete them first, or choose another --run-id.",
        )
    first = _first_seed(settings, roots)
    return tuple(
        replace(
            settings,
            checkpoints=replace(saved, run_id=root.name, run_id_given=True, resume=saved.resume and root.name in there),
            environment=replace(settings.environment, seed=(first + number) % (SEED_MAX + 1)),
            num_runs=1,
        )
        for number, root in enumerate(roots)
    )


def not_reached(runs: Sequence[RunSettings], stopped: int) -> str:
    """Which runs of a series were not begun, and how to go on; stopped: the number, from 1, of the one that was."""
    saved = runs[stopped - 1].checkpoints
    root = Path(saved.results_dir) / saved.run_id
    if RunPaths(root).checkpoint_folders():
        again = "the same command with --resume goes on with the whole series"
    elif stopped == 1:
        again = f"{saved.run_id} saved nothing; the same command with --force begins the series anew"
    else:
        again = f"{saved.run_id} saved nothing; delete the folder {root}, then the same command with --resume goes on"
    return f"Not reached: {', '.join(each.checkpoints.run_id for each in runs[stopped:])}; {again}."


def _check_resumable(settings: RunSettings, roots: list[Path], there: Collection[str]) -> None:
    saved = settings.checkpoints
    missing = {root.name for root in roots} - set(there)
    if not there or (missing and saved.inference and saved.initialize_from is None):
        raise StorageError(
            f"--resume: there is no run {_listed(roots, missing)} in {saved.results_dir} to go on from. "
            + ("Train it first." if saved.inference else "Leave --resume out to start new runs.")
        )
    for root in roots:
        if root.name in there and not RunPaths(root).checkpoint_folders():
            if root.is_dir():
                take_lock(root, this_process()).release()  # one that is just beginning is said to be held
            raise StorageError(
                f"--resume: the run {root} has no checkpoint to go on from; none of the {len(roots)} runs was started. "
                f"Delete the folder {root} to begin that run again."
            )


def _first_seed(settings: RunSettings, roots: list[Path]) -> int:
    """The seed of run 0. One that was drawn is known only by those of the runs that were begun with it."""
    env = settings.environment
    if not settings.checkpoints.resume or env.seed_given:
        return env.seed
    seeds = (
        (number, recorded_seed(configuration))
        for number, configuration in enumerate(RunPaths(root).configuration for root in roots)
    )
    return next(((seed - number) % (SEED_MAX + 1) for number, seed in seeds if seed is not None), env.seed)


def _listed(roots: list[Path], names: Collection[str]) -> str:
    return listed([root.name for root in roots if root.name in names])
