"""Finds processes of a run that outlived the tests that started them."""

import os
import uuid
from collections.abc import Mapping

import psutil

# The runtime sets this in the environment of each process of a run.
RUN_MARKER = "UNITY_RL_RUN"
# Set once for a whole test session, and inherited by all that it starts: other sessions on the machine are not ours.
SESSION_MARKER = "UNITY_RL_TEST_SESSION"


def mark_session() -> str:
    """This session's token; made and put into the environment by the first caller, inherited by xdist's workers."""
    # setproctitle would otherwise write titles over the environment, and with it over the markers.
    os.environ.setdefault("SPT_NOENV", "1")
    return os.environ.setdefault(SESSION_MARKER, uuid.uuid4().hex)


def left_processes(token: str) -> tuple[psutil.Process, ...]:
    """Processes, this one aside, that belong to a run and descend from the test session `token`; zombies are gone."""
    return tuple(process for process in psutil.process_iter() if _is_left(process, token))


def end_processes(processes: tuple[psutil.Process, ...], *, grace_s: float) -> tuple[str, ...]:
    """Waits up to `grace_s` for `processes` to end, kills the others, and describes each that was killed."""
    _, alive = psutil.wait_procs(list(processes), timeout=grace_s)
    described = tuple(_describe(process) for process in alive)
    for process in alive:
        _kill(process)
    return described


def _is_left(process: psutil.Process, token: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        environment: Mapping[str, str] = process.environ()
        is_alive = process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False  # it has just ended, or is another user's
    return is_alive and environment.get(SESSION_MARKER) == token and RUN_MARKER in environment


def _describe(process: psutil.Process) -> str:
    try:
        return f"pid {process.pid}, run {process.environ().get(RUN_MARKER, '?')}: {' '.join(process.cmdline())[:200]}"
    except (psutil.Error, OSError):
        return f"pid {process.pid}"


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return  # it ended by itself meanwhile
