"""The lock of a run's folder: one process at a time, and a sentence about who holds it.

The kernel's lock on the open file decides, because it ends with the process that holds it, however that process ends.
The text in the file only tells people who it was, and whether the holder was on another computer, whose locks this
kernel may not see.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.errors import StorageError, UsageError

LOCK_NAME: Final = "run.lock"
OPENINGS_MAX: Final = 16
CONTENT_BYTES_MAX: Final = 4096
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock. boot_id: changes with each start of a computer; "" where the system does not tell."""

    pid: int
    host: str
    boot_id: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def is_elsewhere(self, other: Holder) -> bool:
        """True when the two may be on different computers: containers of one computer share its boot id."""
        return self.host != other.host and (self.boot_id != other.boot_id or not self.boot_id)


def this_process() -> Holder:
    """The process that asks."""
    try:
        boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        boot_id = ""
    return Holder(os.getpid(), socket.gethostname(), boot_id)


class RunLock:
    """A held lock.

    stale: who held it before and ended without giving it back; None when nobody did, or the file does not tell.
    unread: what stands in a file that does not tell.
    """

    def __init__(self, path: Path, descriptor: int, stale: Holder | None, unread: str = "") -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self.stale = stale
        self.unread = unread

    def release(self) -> None:
        """Gives the lock back and removes its file; may be called twice."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def take_lock(folder: Path, me: Holder) -> RunLock:
    """Takes the lock of a run's folder without waiting.

    Raises UsageError when another process holds it, StorageError when the file cannot be made.
    """
    path = folder / LOCK_NAME
    for _ in range(OPENINGS_MAX):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"cannot write to {folder}: {error.strerror}. Check permissions and space.") from error
        lock = _lock_opened(path, descriptor, me)
        if lock is not None:
            return lock
    raise UsageError(f"the lock {path} changes hands all the time; another program is using this run.")


def _lock_opened(path: Path, descriptor: int, me: Holder) -> RunLock | None:
    """The lock, or None when its file was removed by its last holder between opening and locking."""
    try:
        earlier = _read_holder(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = f"by {earlier}" if earlier else "by another process"
            raise UsageError(
                f"the run in {path.parent} is in use {who}. Wait until it ends, or choose another --run-id.",
            ) from error
        if not _is_same_file(path, descriptor):
            os.close(descriptor)
            return None
        earlier = _read_holder(descriptor)
        if earlier is not None and me.is_elsewhere(earlier):
            raise UsageError(
                f"the run in {path.parent} is in use by {earlier}, another computer. "
                f"If that run has ended, remove {path}; else choose another --run-id.",
            )
        unread = "" if earlier else os.pread(descriptor, CONTENT_BYTES_MAX, 0).decode(errors="backslashreplace")
        text = json.dumps({"pid": me.pid, "host": me.host, "boot_id": me.boot_id})
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
        os.fsync(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise StorageError(f"cannot lock {path}: {error.strerror}. Check permissions and space.") from error
    except UsageError:
        os.close(descriptor)
        raise
    return RunLock(path, descriptor, earlier, unread)


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        on_disk = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (on_disk.st_dev, on_disk.st_ino) == (opened.st_dev, opened.st_ino)


def _read_holder(descriptor: int) -> Holder | None:
    try:
        content = json.loads(os.pread(descriptor, CONTENT_BYTES_MAX, 0))
        return Holder(int(content["pid"]), str(content["host"]), str(content["boot_id"]))
    except (ValueError, KeyError, TypeError):
        return None
