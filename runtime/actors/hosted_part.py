"""Parts under Thespian: one actor class carries any part, and introduces the parts to each other.

The Supervisor creates every other part. A part that has started says so, with its pid; only then does its address
travel, because Thespian holds back messages that name a child which has not reported yet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from runtime.actors.composition import RunPlan, build_part, end_profile, name_of
from runtime.actors.hosting import Child, HostedActor, Start
from runtime.actors.parts import Part
from runtime.actors.scheduling import take_turns
from runtime.actors.spawning import is_run_process
from runtime.decisions.effects import CONTROLLER, SUPERVISOR, PartExited, PartReady, Role

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 1000
_BUSY_KINDS: Final = frozenset({"controller", "worker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartContext:
    """What a new part is told: who it is, and what it is made from."""

    role: Role
    generation: int
    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """part -> Supervisor: it runs and can be reached."""

    role: Role
    generation: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """code outside the actors -> Supervisor: its sender takes this role, and wants to be introduced."""

    role: Role


@dataclass(frozen=True, slots=True)
class Introduction:
    """Supervisor -> part: where the others are; `addresses` holds (role, actor address)."""

    addresses: tuple[tuple[Role, Any], ...]  # untyped ActorAddresses


class PartActor(HostedActor):
    """Carries one part."""

    def __init__(self) -> None:
        super().__init__()
        self._part: Part | None = None
        self._context: PartContext | None = None
        self._addresses: dict[Role, Any] = {}
        self._waiting: dict[Role, list[object]] = {}
        self._timers: dict[Hashable, int] = {}
        self._timer_count = 0
        self._children_of: dict[Role, tuple[int, Child]] = {}
        self._failures = 0

    # ---- the actor

    def start(self, context: Any) -> None:
        """Build the part and say hello."""
        self._context = context
        if context.role.kind in _BUSY_KINDS and is_run_process():
            take_turns()  # before the part has threads; the Supervisor and the PolicyHolder are to answer at once
        self._part = build_part(context.role, context.plan, _ThespianHost(self), self.report)
        if context.role != SUPERVISOR:
            hello = Hello(role=context.role, generation=context.generation, pid=os.getpid())
            self.send(self._addresses[SUPERVISOR], hello)
        self._part.begin()

    def receive(self, message: Any, sender: Any) -> None:
        """Introductions are for this shell, everything else is for the part."""
        assert self._part is not None
        match message:
            case Introduction(addresses):
                self._introduced(dict(addresses))
            case Hello():
                self._greeted(message, sender)
            case Join(role=role):
                self._introduce(role, sender)
            case _:
                self._part.receive(message, sender)

    def timer(self, token: Hashable) -> None:
        """Only the newest timer of a token counts: Thespian cannot cancel."""
        name, number = token if isinstance(token, tuple) else (token, -1)
        if self._timers.get(name) == number and self._part is not None:
            del self._timers[name]
            self._part.timer(name)

    def child_exited(self, address: Any) -> None:
        """A part has ended."""
        for role, (generation, child) in list(self._children_of.items()):
            if child.address == address:
                del self._children_of[role]
                self._addresses.pop(role, None)
                self._tell_part(PartExited(role, generation, _end_of(child)))

    def stopping(self) -> None:
        """The system ends."""
        if self._part is not None:
            self._part.close()
        if self._context is not None:
            end_profile(self._context.plan)

    def on_failure(self, error: BaseException, message: object) -> None:
        """A bug in a part: the controller ends the run with its models saved, anybody else is started afresh."""
        super().on_failure(error, message)
        self._failures += 1
        fail = getattr(self._part, "fail", None)
        if fail is not None and self._failures == 1:
            fail(error)
            return
        logging.shutdown()
        os._exit(70)

    def _tell_part(self, fact: object) -> None:
        if self._part is not None:
            self._part.receive(fact, None)

    # ---- introductions

    def _deliver(self, message: Any, sender: Any) -> None:
        if (
            isinstance(message, Start)
            and isinstance(message.context, PartContext)
            and message.context.role != SUPERVISOR
        ):
            self._addresses[SUPERVISOR] = sender
        super()._deliver(message, sender)

    def _greeted(self, hello: Hello, sender: Any) -> None:
        held = self._children_of.get(hello.role)
        if held is None or held[0] != hello.generation:
            return
        self._introduce(hello.role, sender)
        self._tell_part(PartReady(hello.role, hello.generation, hello.pid))

    def _introduce(self, newcomer: Role, address: Any) -> None:
        """Tell everybody of the newcomer, and the newcomer of everybody."""
        self._introduced({newcomer: address})
        everybody = Introduction(tuple(self._addresses.items()))
        for role, known in list(self._addresses.items()):
            self.send(known, everybody if role == newcomer else Introduction(((newcomer, address),)))

    def _introduced(self, addresses: dict[Role, Any]) -> None:
        self._addresses.update(addresses)
        for role in addresses:
            for message in self._waiting.pop(role, []):
                self.send(self._addresses[role], message)

    # ---- what the part's host asks for

    def send_to_role(self, role: Role, message: object) -> None:
        """Send to a part, or keep the message until the part is introduced."""
        address = self._addresses.get(role)
        if address is not None:
            self.send(address, message)
            return
        waiting = self._waiting.setdefault(role, [])
        if len(waiting) >= WAITING_MAX:
            logger.error("a message for %s was dropped: it has not been introduced", role)
            return
        waiting.append(message)

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """As in `Host`."""
        self._timer_count += 1
        self._timers[token] = self._timer_count
        self.call_later(delay_s, (token, self._timer_count))

    def cancel_timer(self, token: Hashable) -> None:
        """As in `Host`."""
        self._timers.pop(token, None)

    def report(self, level: str, text: str) -> None:
        """A line for the operator, into the run's log."""
        logger.warning("%s", text, extra={"level_of_line": level})

    def spawn(self, role: Role, generation: int) -> None:
        """Create a part's actor; its end is seen even before it has said hello."""
        assert self._context is not None
        plan = self._context.plan if role == CONTROLLER else self._context.plan.without_controller()
        context = PartContext(role=role, generation=generation, plan=plan)
        self._addresses.pop(role, None)
        child = self.create(PartActor, Start(role=name_of(role), context=context))
        self._children_of[role] = (generation, child)

    def kill(self, role: Role, generation: int) -> None:
        """SIGKILL; its players go with it."""
        held = self._children_of.get(role)
        if held is not None and held[0] == generation and held[1].pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(held[1].pid, signal.SIGKILL)


def _end_of(child: Child) -> str:
    if child.pid is None:
        return "its process could not be started, or ended before it ran"
    return f"its process (pid {child.pid}) has ended"


class _ThespianHost:
    """The `Host` that a part under Thespian sees."""

    def __init__(self, actor: PartActor) -> None:
        self._actor = actor

    def now_s(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def send(self, to: Role, message: object) -> None:
        """Send to a part, or keep the message until the part is introduced."""
        self._actor.send_to_role(to, message)

    def reply(self, to: Any, message: object) -> None:
        """Send to whoever sent a message before."""
        self._actor.send(to, message)

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """As in `Host`."""
        self._actor.set_timer(token, delay_s)

    def cancel_timer(self, token: Hashable) -> None:
        """As in `Host`."""
        self._actor.cancel_timer(token)

    def post(self, function: Callable[[], object]) -> None:
        """As in `Host`."""
        self._actor.post(function)

    def finish(self) -> None:
        """The process stays until the system ends, so that late messages find somebody."""

    def spawn(self, role: Role, generation: int) -> None:
        """Create a part's actor."""
        self._actor.spawn(role, generation)

    def kill(self, role: Role, generation: int) -> None:
        """SIGKILL; its players go with it."""
        self._actor.kill(role, generation)
