"""Ties a player to the process that started it: `python -I -S leash.py PARENT_PID TELL_FD COMMAND...` (Linux).

The script asks the kernel to kill this process when its parent ends, and then becomes the command: the wish survives
`exec` (unless the program is setuid), so a player dies with its EnvWorker even if that was killed or is stopped. To the
kernel the parent is the *thread* that started the process: start players from a thread that lives as long as they may,
such as the main thread or a loop's thread, never from a short-lived helper.

A command that cannot be run is told through the descriptor TELL_FD, which the command itself does not get.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

EXIT_NOT_STARTED = 127
EXIT_PARENT_GONE = 70
LEASHES = sys.platform == "linux"
"""Whether commands are leashed on this system."""
_PR_SET_PDEATHSIG = 1


def leashed_command(command: Sequence[str], parent_pid: int, tell_fd: int) -> list[str]:
    """The command that runs `command` so that it is killed when `parent_pid`, which must start it, ends.

    tell_fd: a descriptor that the process inherits; the reason is written there if `command` cannot be run.
    On Linux it costs about 30 ms per start; on other systems the command is returned as it is.
    """
    if not LEASHES:
        return list(command)
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(parent_pid), str(tell_fd), *command]


def main(arguments: list[str]) -> int:
    """Tie this process to its parent and become the command; returns an exit code only if that fails."""
    import ctypes  # noqa: PLC0415 - only the script needs it, and it is slow to load

    parent_pid, tell_fd, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    os.set_inheritable(tell_fd, False)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return _refuse(tell_fd, os.strerror(ctypes.get_errno()))
    if os.getppid() != parent_pid:
        return EXIT_PARENT_GONE  # it ended before the wish was heard
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is what our caller wants to run, without a shell
    except OSError as error:
        return _refuse(tell_fd, error.strerror or str(error))


def _refuse(tell_fd: int, reason: str) -> int:
    os.write(tell_fd, reason.encode())
    return EXIT_NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
