"""Folders of checkpoints by their names, for who writes them and for who reads them, and what makes a name durable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TEMPORARY_PREFIX: Final = ".saving-"
"""Before the name of a checkpoint that is being written."""
ASIDE_PREFIX: Final = f"{TEMPORARY_PREFIX}old-"
"""Before the name of a checkpoint that steps aside while its successor takes its place."""


def checkpoint_folders(parent: Path) -> tuple[Path, ...]:
    """The checkpoints in a folder, those with most steps first; whether each can be loaded is not known yet.

    One that stepped aside for a successor which never came counts as being in its place, and is read as if it was.
    """
    try:
        names = {path.name.removeprefix(ASIDE_PREFIX) for path in parent.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return ()
    found = [name for name in names if name.isascii() and name.isdecimal()]
    return tuple(parent / name for name in sorted(found, key=int, reverse=True))


def sync_folder(folder: Path) -> None:
    """Makes new, renamed and deleted entries of a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
