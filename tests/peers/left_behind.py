"""What a client of any release notes of a run that goes wrong, in plain Python for the interpreter of each."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Play = Callable[[dict[str, Any]], None]  # fills the document with where it is and what it saw


def left_behind(mark: str) -> int:
    """How many processes have this in their command line; each is ended."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and mark.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                count += 1
    return count


def print_outcome(play: Play, mark: str) -> None:
    """Prints, as JSON, what the run noted, the error that it ended with, and how many processes it left behind."""
    noted: dict[str, Any] = {"at": "", "seen": [], "error": "", "message": ""}
    try:
        play(noted)
    # Any error at all is the outcome that the test asks for; one client takes a lost player for a pressed key.
    except BaseException as error:  # noqa: BLE001 - see above
        noted["error"], noted["message"] = type(error).__name__, str(error)
    noted["left"] = left_behind(mark) if mark else 0
    sys.stdout.write("\n" + json.dumps(noted) + "\n")
    sys.stdout.flush()
    # A client whose opening failed would wait for its player again when the interpreter ends.
    os._exit(0)
