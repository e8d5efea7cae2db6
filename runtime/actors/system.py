"""Opens and closes the actor system of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from thespian.actors import ActorSystem, ActorSystemMessage

from runtime.actors.deathwatch import Life, life_of
from runtime.actors.envelopes import Envelope
from runtime.actors.hosting import Child, HostedActor, Start, Started
from runtime.actors.rltcp import CLOSE_S_MAX, START_S_MAX, ActorSystemBase, ActorSystemError, new_settings
from runtime.actors.sweep import run_processes, sweep_run

__all__ = ["ActorSystemError", "SystemHandle", "open_actor_system"]


def open_actor_system(
    *,
    run_id: str,
    log_file: Path | None,
    watch_pid: int | None = None,
    key: bytes | None = None,
    deadline_s: float = START_S_MAX,
) -> SystemHandle:
    """A running actor system on our own base, which ends with process `watch_pid` (None: this one).

    log_file: receives what the run's processes print and log; None discards it. Thespian's own notes go beside it, to
    `<log_file>` with the suffix `.thespian.log`. key: at least 32 bytes, random if None. Nothing in this process
    changes: neither its environment nor Thespian's globals. Raises ActorSystemError if the system does not answer
    within `deadline_s` seconds or `watch_pid` has ended; ValueError for a short key.
    """
    launcher = life_of(os.getpid() if watch_pid is None else watch_pid)
    if launcher.started is None:
        raise ActorSystemError(f"the process to depend on, pid {launcher.pid}, has ended; expected a running one")
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        log_file = log_file.resolve()
    extra = {} if key is None else {"key": key}
    settings = new_settings(run_id, launcher=launcher, log_file=log_file, **extra)
    stub = SimpleNamespace(capabilities={})
    try:
        base = ActorSystemBase(stub, _log_defs(log_file), settings=settings, start_s_max=deadline_s)
    except BaseException:
        sweep_run(settings.marker)  # also what a half-started admin has started
        raise
    system = ActorSystem(base, capabilities=stub.capabilities, transientUnique=True)
    return SystemHandle(system, base)


class _Talk:
    """What can be said to actors from the outside."""

    def __init__(self, system: Any) -> None:
        self.system = system  # an untyped ActorSystem, or a private context of one

    def tell(self, address: Any, message: object) -> None:
        """Send a message. Raises UnsendableError, naming type and field, if it cannot be pickled."""
        self.system.tell(address, _packed(message))

    def ask(self, address: Any, message: object, timeout_s: float) -> Any:
        """Send a message; the next message that comes from anybody, None if none comes in time."""
        return _unpacked(self.system.ask(address, _packed(message), timeout_s))

    def listen(self, timeout_s: float) -> Any:
        """The next message from anybody, None if none comes in time."""
        return _unpacked(self.system.listen(timeout_s))


class PrivateHandle(_Talk):
    """A mailbox of one thread; made by `SystemHandle.private`."""


class SystemHandle(_Talk):
    """The launcher's hold on a running actor system; also a context manager that closes it."""

    def __init__(self, system: Any, base: ActorSystemBase) -> None:
        super().__init__(system)
        self._base = base
        self._is_closed = False
        self._lives: dict[int, Life] = {}

    @property
    def marker(self) -> str:
        """The value of UNITY_RL_RUN in every process of this system; unique to it."""
        return self._base.mpcontext.settings.marker

    @property
    def admin_pid(self) -> int:
        """The pid of the admin."""
        pid = self._base.admin_process.pid
        assert pid is not None
        return pid

    @property
    def admin_sentinel(self) -> int:
        """A descriptor that becomes readable when the admin has ended: the actor system is lost then."""
        return self._base.admin_process.sentinel

    @property
    def lost_loggers(self) -> int:
        """How many loggers have ended and been replaced by the admin, as far as was heard while waiting for answers."""
        return max(0, self._base.loggers - 1)

    def is_alive(self) -> bool:
        """Whether the admin runs; without it nothing of the system stays."""
        return not self._is_closed and self._base.admin_process.is_alive()

    def create(self, actor_class: type[HostedActor], start: Start, timeout_s: float = START_S_MAX) -> Child:
        """A new actor that has got `start`, and its pid; messages that come meanwhile are dropped.

        Raises ActorSystemError if it does not answer in time. Nobody else is told of its end: ask `has_ended`.
        """
        deadline = time.monotonic() + timeout_s
        address = self.system.createActor(actor_class)
        answer = self.ask(address, replace(start, is_answered=True), max(0.0, deadline - time.monotonic()))
        while not isinstance(answer, Started):
            if (left := deadline - time.monotonic()) <= 0:
                raise ActorSystemError(
                    f"{start.role} did not answer within {timeout_s:g} s; the log of the run says why"
                )
            answer = self.listen(left)
        self._lives[answer.pid] = life_of(answer.pid)
        return Child(address, answer.pid)

    def has_ended(self, child: Child) -> bool:
        """Whether the process of an actor made by `create` has ended."""
        assert child.pid is not None
        life = self._lives[child.pid]
        return life.started is None or life_of(life.pid) != life

    def pids(self) -> tuple[int, ...]:
        """All living processes of the system: admin, logger, actors, and what they started (players)."""
        return tuple(sorted(life.pid for life in run_processes(self.marker)))

    @contextmanager
    def private(self) -> Iterator[PrivateHandle]:
        """A way into the system with a mailbox of its own, for one other thread."""
        with self.system.private() as context:
            yield PrivateHandle(context)

    def close(self, deadline_s: float = CLOSE_S_MAX) -> None:
        """End every process of the system within `deadline_s`: in order as long as that works, then by SIGKILL.

        Returns when they are gone. May be called again, also when the admin is already dead.
        """
        if not self._is_closed:
            self._is_closed = True
            self._base.shutdown(deadline_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _packed(message: object) -> object:
    return message if isinstance(message, ActorSystemMessage) else Envelope.of(message)


def _unpacked(message: Any) -> Any:
    return message.open() if isinstance(message, Envelope) else message


def _log_defs(log_file: Path | None) -> dict[str, Any]:
    """Where Thespian's logger process writes; never to stderr."""
    handler = (
        {"class": "logging.NullHandler"}
        if log_file is None
        else {"class": "logging.FileHandler", "filename": str(log_file), "delay": True, "formatter": "plain"}
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "format": "%(asctime)s %(actorAddress)s %(levelname)s %(name)s: %(message)s",
                "defaults": {"actorAddress": "-"},
            }
        },
        "handlers": {"file": handler},
        "root": {"level": "WARNING", "handlers": ["file"]},
    }
