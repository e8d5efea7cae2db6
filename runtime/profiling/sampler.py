"""Looks at what every thread of a process does, many times a second, and writes it down for the launcher.

Nothing in the code that is looked at is changed or slowed down but by the looks themselves: a thread that waits is seen
waiting, one that runs C code without the interpreter's lock is seen in the Python function that called it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import psutil

from runtime.profiling.traffic import TRAFFIC

PERIOD_S = 0.01
WRITE_S = 1.0
CLOSE_S = 2.0
# Threads hand over the interpreter after this time. With Python's 5 ms most looks would come where a thread lets go by
# itself, which is where it begins to wait.
SWITCH_S = 1e-4
DEPTH_MAX = 100
SUFFIX = ".json"

Stack = tuple[str, ...]
"""Functions from the outermost to the innermost, each as `module:function`."""


class Sampler:
    """Samples this process until it ends; `write` puts what was seen into a file, and so does a second's end.

    role: what the process is called in the report.
    """

    def __init__(self, role: str, folder: Path) -> None:
        self._role = role
        self._file = folder / f"{role.replace(' ', '-')}-{os.getpid()}{SUFFIX}"
        self._seen: Counter[tuple[str, Stack]] = Counter()
        self._names: dict[CodeType, str] = {}
        self._began_s = time.monotonic()
        self._looks = 0
        self._threads: dict[str, float] = {}
        self._switch_s = sys.getswitchinterval()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="profiler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        sys.setswitchinterval(SWITCH_S)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def close(self) -> None:
        """Write a last time, and look no more."""
        self._stop.set()
        self._thread.join(CLOSE_S)
        sys.setswitchinterval(self._switch_s)
        self.write()

    def write(self) -> None:
        """Replace the file by what was seen so far. A folder that is gone or full is not this run's trouble."""
        self._threads |= _cpu_seconds_of_threads()  # those that have ended since stay as they were
        document = {
            "role": self._role,
            "pid": os.getpid(),
            "seconds": time.monotonic() - self._began_s,
            "cpu_seconds": time.process_time(),
            "looks": self._looks,
            "threads": self._threads,
            "sent": {name: list(sent) for name, sent in TRAFFIC.sent().items()},
            "stacks": [[thread, list(stack), count] for (thread, stack), count in list(self._seen.items())],
        }
        other = self._file.with_suffix(".tmp")
        try:
            other.write_text(json.dumps(document), encoding="utf-8")
            other.replace(self._file)
        except OSError:
            return

    def _run(self) -> None:
        written_s = time.monotonic()
        while not self._stop.wait(PERIOD_S):
            self._look()
            if time.monotonic() - written_s >= WRITE_S:
                self.write()
                written_s = time.monotonic()

    def _look(self) -> None:
        me = threading.get_ident()
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        self._looks += 1
        for ident in sys._current_frames():  # noqa: SLF001 - documented, for exactly this
            if ident != me and (frames := frames_of(ident)):
                self._seen[names.get(ident, "foreign thread"), self._stack(frames)] += 1

    def _stack(self, frames: Iterable[FrameType]) -> Stack:
        found: list[str] = []
        for frame in frames:
            code = frame.f_code
            name = self._names.get(code)
            if name is None:
                name = self._names[code] = f"{frame.f_globals.get('__name__', '?')}:{code.co_qualname}"
            found.append(name)
        return tuple(reversed(found))


def frames_of(ident: int) -> Sequence[FrameType]:
    """The frames of a thread, the innermost first, DEPTH_MAX of them at most; none of one that has ended.

    Taken in one call into C, so that no thread runs meanwhile. Between two lines of Python it could go on, and what
    CPython 3.11 takes for the caller of a frame that it has left may be anything (a dict has been seen).
    """
    found: deque[Any] = deque()
    latest = map(itemgetter(ident), iter(sys._current_frames, None))  # noqa: SLF001 - as above
    callers = accumulate(chain(islice(latest, 1), repeat("f_back", DEPTH_MAX - 1)), getattr)
    # It ends with what has no caller, at the latest with None.
    with contextlib.suppress(KeyError, AttributeError):
        found.extend(callers)
    return [each for each in found if each is not None]


def _cpu_seconds_of_threads() -> dict[str, float]:
    """What each of Python's threads has spent on a core, by name; empty where the system does not tell."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: dict[str, float] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.Process().threads():
            if each.id in names:
                name = names[each.id]
                spent[name] = spent.get(name, 0.0) + each.user_time + each.system_time
    return spent


_OF_THIS_PROCESS: list[Sampler] = []


def begin(role: str, folder: str) -> None:
    """Look at this process from now on; the first role that asks gives it its name."""
    if not _OF_THIS_PROCESS:
        sampler = Sampler(role, Path(folder))
        _OF_THIS_PROCESS.append(sampler)
        sampler.start()


def end() -> None:
    """Write what is left to write, if this process was looked at."""
    while _OF_THIS_PROCESS:
        _OF_THIS_PROCESS.pop().close()
