"""What an actor of ours derives from: one place for the rules that Thespian leaves to each actor.

- A handler's exception never reaches Thespian, which would run the handler again; it becomes `on_failure`.
- Watched descriptors are returned from every branch; Thespian forgets them after any message that does not repeat them.
- Other threads hand over work with `post`; nothing but that is safe to call from them, `send` least of all.
- A child's end is seen through a descriptor that the kernel closes, so it is noticed while the child starts, too; there
  Thespian says nothing. It is told once, whichever way it was noticed first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from setproctitle import setproctitle
from thespian.actors import (
    Actor,
    ActorExitRequest,
    ActorSystemMessage,
    ChildActorExited,
    PoisonMessage,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from runtime.actors.envelopes import Envelope, UnsendableError, check_sendable
from runtime.actors.spawning import is_run_process, restore_logging
from runtime.profiling.traffic import TRAFFIC

__all__ = ["Child", "Envelope", "HostedActor", "Start", "Started", "UnsendableError", "check_sendable"]

EARLY_MESSAGES_MAX: Final = 1000
# Thespian catches every signal in Python. For these the handler would return into the faulting instruction, for ever.
_FATAL: Final = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Creator -> new actor, before anything else: who it is, and what `HostedActor.start` is given.

    role: how `ps` and logs show the process, such as "EnvWorker 0". context: anything that can be pickled.
    is_answered: whether a `Started` is to be sent back before `HostedActor.start` is called.
    """

    role: str
    context: object = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """New actor -> creator, if the Start asked for it: the pid of its process."""

    pid: int


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """An actor created by this one. address: where to send. pid: None if its process could not be started."""

    address: Any  # an untyped ActorAddress
    pid: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Watched:
    child: Child
    process: Any  # RunProcess, held so that its sentinel stays open
    number: int


class HostedActor(Actor):  # type: ignore[misc,unused-ignore]
    """Base of our actors. Subclasses override the callbacks, which all run on the actor thread."""

    def __init__(self) -> None:
        self.role = type(self).__name__
        self._is_started = False
        self._early: list[tuple[Any, Any]] = []
        self._posted: deque[Callable[[], object]] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._descriptors: dict[int, Callable[[int], object]] = {}
        self._children: dict[int, _Watched] = {}
        self._unstarted: list[Child] = []
        if is_run_process():
            _settle_process()

    # ---- to be overridden

    def start(self, context: Any) -> None:
        """Called first, once, with the context of the Start message."""

    def receive(self, message: Any, sender: Any) -> None:
        """Called with each message after `start`."""

    def timer(self, token: Hashable) -> None:
        """Called when a `call_later` is due. It cannot be cancelled: a token that no longer matters is ignored here."""

    def child_exited(self, address: Any) -> None:
        """Called once for each created actor that has ended, also while starting; `address` is that of its Child."""

    def stopping(self) -> None:
        """Called when this actor was told to exit; its process ends after that."""

    def undelivered(self, message: Any, reason: str) -> None:
        """Called with a message that waited for a child which ended before it was ready. Logs by default."""
        _logger.info("%s: a message of type %s came back: %s", self.role, type(message).__name__, reason)

    def on_failure(self, error: BaseException, message: object) -> None:
        """Called with what a callback raised; it is not run again. Logs by default."""
        _logger.error("%s failed at a message of type %s", self.role, type(message).__name__, exc_info=error)

    # ---- to be used

    def send(self, targetAddr: Any, msg: object) -> None:
        """Send a message. Raises UnsendableError at once, naming type and field, if it cannot be pickled."""
        if not isinstance(msg, ActorSystemMessage | Envelope):
            envelope = Envelope.of(msg)
            TRAFFIC.note(msg, envelope.payload)
            msg = envelope
        super().send(targetAddr, msg)

    def create(self, actor_class: type[HostedActor], start: Start) -> Child:
        """Start a child process with an actor and send it `start`; the pid is known at once, its end is watched."""
        address = self.createActor(actor_class)
        processes = getattr(self._myRef, "_child_procs", [])
        if not processes or processes[-1].childAddr is not address:
            unstarted = Child(address, None)
            self._unstarted.append(unstarted)  # Thespian reports its end as the next message
            return unstarted
        process = processes[-1].childProc
        child = Child(address, process.pid)
        self._children[process.sentinel] = _Watched(child, process, address.addressDetails.addressInstanceNum)
        self.send(address, start)
        return child

    def post(self, function: Callable[[], object]) -> None:
        """Have `function` called on the actor thread, in order of posting; safe on any thread."""
        self._posted.append(function)
        with contextlib.suppress(BlockingIOError):  # full of wake-ups already
            self._wake_write.send(b"\0")

    def call_later(self, delay_s: float, token: Hashable) -> None:
        """Have `timer(token)` called after `delay_s` seconds; granularity about 1 ms."""
        self.wakeupAfter(timedelta(seconds=delay_s), token)

    def watch_descriptor(self, descriptor: int, ready: Callable[[int], object]) -> None:
        """Call `ready(descriptor)` whenever it is readable, until `unwatch_descriptor`; it must be drained there."""
        self._descriptors[descriptor] = ready

    def unwatch_descriptor(self, descriptor: int) -> None:
        """Stop watching; call it before the descriptor is closed."""
        self._descriptors.pop(descriptor, None)

    def exit(self) -> None:
        """End this actor, and with it its children, after the messages that are already waiting."""
        super().send(self.myAddress, ActorExitRequest())

    # ---- Thespian's side

    def receiveMessage(self, msg: Any, sender: Any) -> Any:  # noqa: N802
        """Thespian's entrance: whatever happens inside, the descriptors stay watched."""
        self._guarded(lambda: self._dispatch(msg, sender), msg)
        return ThespianWatch([self._wake_read.fileno(), *self._descriptors, *self._children])

    def _guarded(self, call: Callable[[], object], message: object) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - also SystemExit of foreign code; Thespian would run it again
            try:
                self.on_failure(error, message)
            except BaseException:
                _logger.exception("%s: on_failure itself failed", self.role)

    def _dispatch(self, msg: Any, sender: Any) -> None:
        match msg:
            case Envelope():
                self._deliver(msg.open(), sender)
            case WatchMessage():
                for descriptor in msg.ready:
                    self._ready(descriptor)
            case WakeupMessage():
                self.timer(msg.payload)
            case ChildActorExited():
                self._child_gone(msg.childAddress)
            case ActorExitRequest():
                self.stopping()
            case PoisonMessage():
                self._undelivered(msg.poisonMessage, msg.details)
            case ActorSystemMessage():
                pass  # conventions and dead letters, which we do not use
            case _:
                self._deliver(msg, sender)

    def _deliver(self, message: Any, sender: Any) -> None:
        if isinstance(message, Start) and not self._is_started:
            self._is_started = True
            if message.is_answered:
                self.send(sender, Started(pid=os.getpid()))
            self._begin(message)
            early, self._early = self._early, []
            for earlier, its_sender in early:
                self._guarded(lambda m=earlier, s=its_sender: self.receive(m, s), earlier)  # type: ignore[misc]
        elif self._is_started:
            self.receive(message, sender)
        elif len(self._early) < EARLY_MESSAGES_MAX:
            self._early.append((message, sender))
        else:
            _logger.error("%s: more than %d messages before Start, one dropped", self.role, EARLY_MESSAGES_MAX)

    def _begin(self, start: Start) -> None:
        self.role = start.role
        settings = getattr(getattr(self._myRef, "mpcontext", None), "settings", None)
        if settings is not None:
            setproctitle(f"unity-rl {start.role} (run {settings.run_id})")
        self._guarded(lambda: self.start(start.context), start)

    def _ready(self, descriptor: int) -> None:
        if descriptor == self._wake_read.fileno():
            self._run_posted()
        elif descriptor in self._children:
            self._child_ended(descriptor)
        elif descriptor in self._descriptors:
            ready = self._descriptors[descriptor]
            self._guarded(lambda: ready(descriptor), ready)

    def _run_posted(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_read.recv(4096):
                pass
        for _ in range(len(self._posted)):
            function = self._posted.popleft()
            self._guarded(function, function)

    def _child_ended(self, sentinel: int) -> None:
        watched = self._children.pop(sentinel)
        watched.process.join(0)
        infos = [info for info in self._myRef._child_procs if info.childProc is watched.process]  # noqa: SLF001
        if not infos or not hasattr(infos[0], "childRealAddr"):
            # It never reported. Thespian would keep what is queued for it for ever; this is how it gives a child up.
            self._myRef._retryPendingChildOperations(watched.number, None)  # noqa: SLF001
        self._guarded(lambda: self.child_exited(watched.child.address), watched.child)

    def _child_gone(self, address: Any) -> None:
        """Thespian says that a child has ended: news if the descriptor has not told it before."""
        for sentinel, watched in self._children.items():
            if watched.child.address == address:
                if watched.process.is_alive():
                    return  # it says goodbye first and ends then; the descriptor will tell
                self._child_ended(sentinel)
                return
        for child in self._unstarted:
            if child.address == address:
                self._unstarted.remove(child)
                self.child_exited(child.address)
                return

    def _undelivered(self, message: Any, details: str) -> None:
        with contextlib.suppress(Exception):
            message = message.open() if isinstance(message, Envelope) else message
        self._guarded(lambda: self.undelivered(message, details), message)


def _settle_process() -> None:
    """Take back what Thespian did to this process: its signal handlers and its logging tree."""
    for name in _FATAL:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    restore_logging()
