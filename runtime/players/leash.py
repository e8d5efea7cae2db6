"""Ties a player to the process that started it: `python -I -S leash.py PARENT_PID COMMAND...` (Linux).

The script asks the kernel to kill this process when its parent ends, and then becomes the command: the wish survives
`exec` (unless the program is setuid), so a player dies with its EnvWorker even if that was killed or is stopped. To the
kernel the parent is the *thread* that started the process: start players from a thread that lives as long as they may,
such as the main thread or a loop's thread, never from a short-lived helper.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

EXIT_NOT_STARTED = 127
EXIT_PARENT_GONE = 70
_PR_SET_PDEATHSIG = 1


def leashed_command(command: Sequence[str], parent_pid: int) -> list[str]:
    """The command that runs `command` so that it is killed when `parent_pid`, which must start it, ends.

    On Linux it costs about 30 ms per start; on other systems the command is returned as it is.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(parent_pid), *command]


def main(arguments: list[str]) -> int:
    """Tie this process to its parent and become the command; returns an exit code only if that fails."""
    import ctypes  # noqa: PLC0415 - only the script needs it, and it is slow to load

    parent_pid, command = int(arguments[0]), arguments[1:]
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return _refuse(command, os.strerror(ctypes.get_errno()))
    if os.getppid() != parent_pid:
        return EXIT_PARENT_GONE  # it ended before the wish was heard
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is what our caller wants to run, without a shell
    except OSError as error:
        return _refuse(command, error.strerror or str(error))


def _refuse(command: list[str], reason: str) -> int:
    sys.stderr.write(f"cannot start {command[0]!r}: {reason}\n")
    return EXIT_NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
