"""Finds and kills the processes of a run by the marker in their environment, however they lost their parents."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from runtime.actors.deathwatch import Life, life_of
from runtime.actors.spawning import RUN_VARIABLE

ROUNDS_MAX: Final = 5
POLL_S: Final = 0.02


def run_processes(marker: str) -> list[Life]:
    """The living processes, this one aside, whose environment has UNITY_RL_RUN=`marker`."""
    return [life for pid in _pids_with(marker) if (life := life_of(pid)).started is not None]


def sweep_run(marker: str) -> list[int]:
    """Kill (SIGKILL) every process of the run `marker` except this one, and those they start meanwhile; their pids."""
    killed: dict[int, None] = {}
    for _ in range(ROUNDS_MAX):
        found = run_processes(marker)
        if not found:
            break
        for life in found:
            kill_life(life)
            killed[life.pid] = None
        wait_until_gone(found, 1.0)
    return list(killed)


def kill_life(life: Life) -> None:
    """SIGKILL to the process meant, never to a later one with its pid."""
    fd = _pidfd(life.pid)
    try:
        if not _lives(life):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if fd is not None:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            else:
                os.kill(life.pid, signal.SIGKILL)
    finally:
        if fd is not None:
            os.close(fd)


def wait_until_gone(lives: Iterable[Life], timeout_s: float) -> list[Life]:
    """Wait up to `timeout_s` for the processes to end; those that still live."""
    deadline = time.monotonic() + timeout_s
    left = [life for life in lives if _lives(life)]
    for life in left:
        fd = _pidfd(life.pid)
        try:
            while _lives(life) and (remaining := deadline - time.monotonic()) > 0:
                # Readable when the process ends; without a pidfd this only waits a moment.
                select.select([] if fd is None else [fd], [], [], remaining if fd is not None else POLL_S)
        finally:
            if fd is not None:
                os.close(fd)
    return [life for life in left if _lives(life)]


def _lives(life: Life) -> bool:
    return life.started is not None and life_of(life.pid) == life


def _pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _pids_with(marker: str) -> list[int]:
    if sys.platform == "linux":
        return _pids_by_proc(f"{RUN_VARIABLE}={marker}".encode())
    import psutil  # noqa: PLC0415 - not needed on Linux

    found: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(RUN_VARIABLE) == marker:
                found.append(process.pid)
    return found


def _pids_by_proc(entry: bytes) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        # Other users' processes may not be read, and any may end while we look.
        with contextlib.suppress(OSError):
            if entry in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
