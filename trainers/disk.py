"""What a save asks of a disk: few operations, so that tests can put one in its place that loses power anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from runtime.folders import sync_folder


class DiskFile(Protocol):
    """A new file, open for writing."""

    def write(self, piece: bytes | memoryview) -> None:
        """Appends bytes; they are durable after `sync`. Raises OSError."""

    def sync(self) -> None:
        """Returns when what was written would survive a loss of power. Raises OSError."""


class Disk(Protocol):
    """Files and folders. All methods raise OSError as the functions of `os` do."""

    def make_folder(self, folder: Path) -> None:
        """Makes one folder, which must be new."""

    def create(self, path: Path) -> AbstractContextManager[DiskFile]:
        """A new file; leaving the context closes it."""

    def sync_folder(self, folder: Path) -> None:
        """Returns when new, renamed and deleted entries of a folder would survive a loss of power."""

    def rename(self, old: Path, new: Path) -> None:
        """Gives a folder another name, which must be free."""

    def remove(self, folder: Path) -> None:
        """Deletes a folder with all that is in it, as far as that is possible: it raises nothing."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder of that name."""

    def names(self, folder: Path) -> Sequence[str]:
        """The names in a folder, sorted."""


class _RealFile:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, piece: bytes | memoryview) -> None:
        self._file.write(piece)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class RealDisk:
    """The operating system's."""

    def make_folder(self, folder: Path) -> None:
        """One new folder."""
        folder.mkdir()

    def create(self, path: Path) -> _RealFile:
        """A new file."""
        return _RealFile(path.open("xb"))

    def sync_folder(self, folder: Path) -> None:
        """The entries of a folder, durable."""
        sync_folder(folder)

    def rename(self, old: Path, new: Path) -> None:
        """Another name for a folder."""
        old.rename(new)

    def remove(self, folder: Path) -> None:
        """A folder deleted, as far as possible."""
        shutil.rmtree(folder, ignore_errors=True)

    def exists(self, path: Path) -> bool:
        """Whether the name is taken."""
        return path.exists()

    def names(self, folder: Path) -> Sequence[str]:
        """What is in a folder."""
        return sorted(path.name for path in folder.iterdir())
