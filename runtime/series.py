"""The runs of `--num-runs`: their names and seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runtime.errors import UsageError
from runtime.settings.blocks import SEED_MAX
from runtime.settings.faults import listed, shown
from runtime.settings.model import RunSettings


def series_of(settings: RunSettings) -> tuple[RunSettings, ...]:
    """The settings of each run: run i (from 0) is called ID-i and has the seed + i, or 0 and on after 2^31 - 1.

    So the seeds of a series are distinct, and a series with the same seed is the same series. Raises UsageError when a
    folder of one exists already and neither `--resume` nor `--force` was given: none is begun then.
    """
    saved, env = settings.checkpoints, settings.environment
    if not (saved.resume or saved.force):
        taken = [name for name in _names(settings) if (Path(saved.results_dir) / name).exists()]
        if taken:
            raise UsageError(
                f"the runs {listed(taken)} of {shown(saved.run_id)!r} exist already in {saved.results_dir}. Add "
                "--resume to go on with them, --force to delete them first, or choose another --run-id.",
            )
    return tuple(
        replace(
            settings,
            checkpoints=replace(saved, run_id=name, run_id_given=True),
            environment=replace(env, seed=(env.seed + number) % (SEED_MAX + 1)),
            num_runs=1,
        )
        for number, name in enumerate(_names(settings))
    )


def _names(settings: RunSettings) -> list[str]:
    return [f"{settings.checkpoints.run_id}-{number}" for number in range(settings.num_runs)]
