"""First code of every process of a run: `python childmain.py PIPE SENTINEL PID STARTED PARENT`, started by `spawning`.

It is a script of its own, and not `multiprocessing`'s, for three reasons. The process watches the launcher before it
imports anything slow. The launcher's main module is not imported again, so a program that embeds us needs no
`__name__` guard and its heavy imports stay where they are. Nothing of what it is told is visible on the command line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process, stopped or not, when the thread that started it ends (Linux only)."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - costs about 10 ms, only where it is used

    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(70)


def main(arguments: list[str]) -> int:
    """Watch, then run what the pipe brings; the exit code of the process."""
    # A terminal's Ctrl-C is for the launcher, which stops the actors in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe, sentinel, watched, started, parent = (int(argument) for argument in arguments)
    os.set_inheritable(sentinel, False)
    os.set_inheritable(pipe, False)
    if parent:
        die_with_parent(parent)
    # The folder of this script must not be where modules are looked for: its names are not meant to be top-level.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from runtime.actors import deathwatch  # noqa: PLC0415 - importable only now

    deathwatch.watch(watched, "the launcher", started=started)
    from multiprocessing import spawn  # noqa: PLC0415

    return spawn._main(pipe, os.dup(pipe))  # noqa: SLF001 - the half of spawn_main that does not need its command line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
