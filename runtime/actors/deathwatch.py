"""The dead-man's thread: a process of a run ends when one of the processes it depends on is gone.

Thespian's processes are made to outlive whoever started them. Ours must not: when the launcher (or the admin) is
killed, however it happened, nobody may stay. One daemon thread per process waits on pidfds, which the kernel makes
readable when the process behind them ends and which no later process of the same number can inherit. Where there are
no pidfds it looks a few times a second for the pair (pid, start time), which a reused pid cannot fake either.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

EXIT_CODE: Final = 70
CALLBACK_S_MAX: Final = 2.0
POLL_S: Final = 0.25

DeathCallback = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Life:
    """A process told apart from a later one with the same pid by its start time (None: unknown, or already gone)."""

    pid: int
    started: int | None


def life_of(pid: int) -> Life:
    """The life of `pid` now; `started` is None if there is no such process or it has ended (a zombie)."""
    if sys.platform == "linux":
        try:
            # The name in parentheses may hold anything; the fields after the last ')' begin with the state.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return Life(pid, None)
        return Life(pid, None if fields[0] in (b"Z", b"X") else int(fields[19]))
    import psutil  # noqa: PLC0415 - not needed on Linux, where starting quickly matters

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return Life(pid, None)
        return Life(pid, int(process.create_time() * 1000))
    except psutil.Error:
        return Life(pid, None)


class _DeadMan:
    """What one process watches and does when a watched process is gone."""

    def __init__(self, *, use_pidfds: bool | None = None) -> None:
        """use_pidfds: None for "if the system has them"."""
        self._lock = threading.Lock()
        self._by_fd: dict[int, tuple[Life, str]] = {}
        self._polled: list[tuple[Life, str]] = []
        self._callbacks: list[DeathCallback] = []
        self._epoll = select.epoll() if (_has_pidfds() if use_pidfds is None else use_pidfds) else None
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, life: Life, why: str) -> None:
        with self._lock:
            if any(known == life for known, _ in [*self._by_fd.values(), *self._polled]):
                return
        fd = None
        if self._epoll is not None:
            try:
                fd = os.pidfd_open(life.pid)
            except ProcessLookupError:
                self.die(life, why)
        if life_of(life.pid).started != life.started or life.started is None:
            self.die(life, why)
        with self._lock:
            if fd is None:
                self._polled.append((life, why))
            else:
                self._by_fd[fd] = (life, why)
        if fd is not None and self._epoll is not None:
            self._epoll.register(fd, select.EPOLLIN)
        self._changed.set()
        self.start()

    def start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._wait, name="dead-man", daemon=True)
                self._thread.start()

    def restart_after_fork(self) -> None:
        """A forked child has this object but not the thread; it depends on the same processes."""
        self._lock = threading.Lock()
        self._thread = None
        if self._epoll is not None:
            # What it adds to an inherited one, its parent would be told.
            self._epoll.close()
            self._epoll = select.epoll()
            for fd in self._by_fd:
                self._epoll.register(fd, select.EPOLLIN)
        if self._by_fd or self._polled:
            self.start()

    def add_callback(self, callback: DeathCallback) -> None:
        with self._lock:
            self._callbacks.append(callback)

    def remove_callback(self, callback: DeathCallback) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._callbacks.remove(callback)

    def _wait(self) -> None:
        while True:
            with self._lock:
                polled = list(self._polled)
            for life, why in polled:
                if life_of(life.pid).started != life.started:
                    self.die(life, why)
            if self._epoll is None:
                self._changed.wait(POLL_S)
                self._changed.clear()
                continue
            for fd, _ in self._epoll.poll():
                with self._lock:
                    life, why = self._by_fd[fd]
                self.die(life, why)

    def die(self, life: Life, why: str) -> NoReturn:
        """Run the callbacks for at most CALLBACK_S_MAX seconds, then leave without any further clean-up."""
        with contextlib.suppress(OSError):
            os.write(2, f"process {os.getpid()} ends: {why} (pid {life.pid}) is gone\n".encode())
        helper = threading.Thread(target=self._call_back, name="last-rites", daemon=True)
        helper.start()
        helper.join(CALLBACK_S_MAX)
        os._exit(EXIT_CODE)

    def _call_back(self) -> None:
        for callback in list(self._callbacks):
            # One failing callback must not keep the others, and nobody is left to tell.
            with contextlib.suppress(Exception):
                callback()


def _has_pidfds() -> bool:
    if not hasattr(os, "pidfd_open") or not hasattr(select, "epoll"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an older kernel, or a sandbox that does not allow it
        return False
    return True


_dead_man: _DeadMan | None = None
_guard = threading.Lock()


def _instance() -> _DeadMan:
    global _dead_man  # noqa: PLW0603 - one per process, made on first use so that an import starts nothing
    with _guard:
        if _dead_man is None:
            _dead_man = _DeadMan()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_dead_man.restart_after_fork)
        return _dead_man


def watch(pid: int, why: str, *, started: int | None = None) -> None:
    """End this process with exit code 70 as soon as process `pid` has ended; at once if it has ended already.

    why: words for the log, such as "the launcher". started: the start time from `life_of`, taken when the pid was
    known to be right; with it a process that got the number later is not mistaken for the one meant.
    """
    _instance().watch(Life(pid, started) if started is not None else life_of(pid), why)


def on_death(callback: DeathCallback) -> None:
    """Have `callback` called (on a thread of its own, 2 s for all of them) before this process follows a dead one."""
    _instance().add_callback(callback)


def forget_on_death(callback: DeathCallback) -> None:
    """Undo `on_death(callback)`; nothing happens if it was not registered."""
    _instance().remove_callback(callback)
