"""Which files of a run's folder are ours: `--force` deletes those, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Paths below the run's folder, with `/` between parts. A behavior's files stand in a folder of its name.
_OURS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"configuration\.yaml|(training_)?summary\.json|run\.lock",
        r"(.*/)?\.[^/]+\.\d+\.tmp",
        r"(?P<brain>[^/]+)/(?P=brain)-\d+\.onnx",
        r"[^/]+/events\.out\.tfevents\.[^/]+",
        # A checkpoint is made under a hidden name and renamed; one that was interrupted has that name still.
        r"checkpoints/(\.saving-(old-)?)?\d+/(arrays\.safetensors|(state|manifest)\.json)",
        r"run_logs/(timers|training_status)\.json",
        r"run_logs/metrics-[^/]+\.csv",
        r"run_logs/profile\.(txt|folded|svg)",
        r"run_logs/profile/[A-Za-z]+(-\d+)+\.(json|tmp)",
        r"run_logs/Player-\d+[^/]*\.log",
        r"(run_logs/)?actors(\.thespian)?\.log(\.old)?",
    )
)
_MODEL: Final = re.compile(r"(?P<brain>[^/]+)\.onnx")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files of a folder, as paths below it with `/` between parts, sorted: those we wrote, and all others."""

    ours: tuple[str, ...]
    foreign: tuple[str, ...]


def inventory(folder: Path) -> Inventory:
    """Sorts the files of a run's folder. Links are not followed. Raises OSError."""
    names = sorted(_files(folder))
    brains = {name.partition("/")[0] for name in names if "/" in name}
    ours = tuple(name for name in names if _is_ours(name, brains))
    known = set(ours)
    return Inventory(ours, tuple(name for name in names if name not in known))


def delete_ours(folder: Path) -> tuple[str, ...]:
    """Deletes what we wrote in a run's folder, but not its lock, and folders that are empty then.

    Returns the foreign files, which stay. Raises OSError.
    """
    found = inventory(folder)
    for name in found.ours:
        if name != "run.lock":
            (folder / name).unlink(missing_ok=True)
    for inner, _, _ in os.walk(folder, topdown=False):
        path = Path(inner)
        if path != folder and not any(path.iterdir()):
            path.rmdir()
    return found.foreign


def _is_ours(name: str, brains: set[str]) -> bool:
    if any(pattern.fullmatch(name) for pattern in _OURS):
        return True
    # A model at the top is ours when its behavior has a folder; a model that somebody put there has none.
    model = _MODEL.fullmatch(name)
    return model is not None and model["brain"] in brains


def _files(folder: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    for inner, folders, files in os.walk(folder, onerror=fail):
        links = [name for name in folders if Path(inner, name).is_symlink()]
        for name in [*files, *links]:
            yield Path(inner, name).relative_to(folder).as_posix()
