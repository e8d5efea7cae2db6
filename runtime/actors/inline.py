"""The one-process system: the same parts on one queue, for debugging, tests, and where processes are not wanted.

Messages between two parts keep their order, timers fire in order of their times, and a handler that raises is treated
as under Thespian. EnvWorkers keep a thread each for their players; everything else happens on the system's thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import heapq
import itertools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from runtime.actors.composition import RunPlan, begin_profile, build_part
from runtime.actors.parts import Part
from runtime.decisions.effects import CONTROLLER, SUPERVISOR, PartExited, PartReady, Role
from runtime.messages import Status, StatusRequest, StopRequest

logger = logging.getLogger(__name__)

IDLE_S: Final = 0.5


@dataclass(slots=True)
class _Place:
    """Where a part lives in this system. timers: the number of the newest timer of each token."""

    generation: int
    part: Part | None = None
    timers: dict[Hashable, int] = field(default_factory=dict)


class InlineSystem:
    """Runs the parts of one run on a thread of its own."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._places: dict[Role, _Place] = {}
        self._due: list[tuple[float, int, Role, Hashable, _Place]] = []
        self._numbers = itertools.count()
        self._is_over = threading.Event()
        self._outside: queue.SimpleQueue[object] | None = None
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name=f"run {plan.run}", daemon=True)
        begin_profile(plan, "all actors in one process")
        if plan.controller is None:
            self.join()
        else:
            from runtime.actors.controller_part import await_jobs  # noqa: PLC0415 - only where there is a controller

            before_libraries_end(await_jobs)
        self._spawn(SUPERVISOR, 0)
        self._thread.start()

    # ---- for the launcher

    def status(self, timeout_s: float) -> Status | None:
        """As in `RunSystem`."""
        answers: queue.SimpleQueue[Status] = queue.SimpleQueue()
        request = StatusRequest(run=self._plan.run, request_id=next(self._numbers))
        self._inbox.put(lambda: self._deliver(SUPERVISOR, request, answers.put))
        with contextlib.suppress(queue.Empty):
            return answers.get(timeout=timeout_s)
        return None

    def request_stop(self, request: StopRequest) -> None:
        """As in `RunSystem`."""
        self._inbox.put(lambda: self._deliver(SUPERVISOR, request, None))

    def warnings(self) -> tuple[str, ...]:
        """As in `RunSystem`; nothing of this system can be lost alone."""
        return ()

    def lost(self) -> str:
        """As in `RunSystem`."""
        return self._failure or ("" if self._thread.is_alive() else "the run's thread has ended")

    def join(self) -> None:
        """Take the TrainerController's place: its messages come to `listen`, from the first one on."""
        # Without a TrainerController the place is taken before the first part begins, which may have spoken by now.
        if self._outside is None:
            self._outside = queue.SimpleQueue()

    def listen(self, timeout_s: float) -> object | None:
        """The next message to the place that was joined; None when none comes in time."""
        assert self._outside is not None
        with contextlib.suppress(queue.Empty):
            return self._outside.get(timeout=max(timeout_s, 0.001))
        return None

    def send_from_outside(self, to: Role, message: object) -> None:
        """Send to a part from outside."""
        self.send(CONTROLLER, to, message)

    def close(self, deadline_s: float) -> None:
        """As in `RunSystem`."""
        self._is_over.set()
        self._inbox.put(lambda: None)
        self._thread.join(deadline_s)

    # ---- for hosts

    def post(self, role: Role, function: Callable[[], object]) -> None:
        """Run a function of a part on the system's thread; safe on any thread."""
        self._inbox.put(lambda: self._posted(role, function))

    def send(self, source: Role, to: Role, message: object) -> None:
        """Queue a message."""
        self._inbox.put(lambda: self._deliver(to, message, lambda answer: self.send(to, source, answer)))

    def set_timer(self, role: Role, token: Hashable, delay_s: float) -> None:
        """Queue a timer."""
        place = self._places[role]
        number = next(self._numbers)
        place.timers[token] = number
        heapq.heappush(self._due, (time.monotonic() + delay_s, number, role, token, place))

    def cancel_timer(self, role: Role, token: Hashable) -> None:
        """Forget a timer."""
        self._places[role].timers.pop(token, None)

    def spawn(self, role: Role, generation: int) -> None:
        """Start a part; said like a process would."""
        self._spawn(role, generation)
        self.send(role, SUPERVISOR, PartReady(role, generation, os.getpid()))

    def kill(self, role: Role, generation: int) -> None:
        """End a part at once, as far as that is possible in one process."""
        place = self._places.get(role)
        if place is None or place.generation != generation or place.part is None:
            return
        place.part.close()
        del self._places[role]
        self.send(role, SUPERVISOR, PartExited(role, generation, "it was ended"))

    # ---- the thread

    def _spawn(self, role: Role, generation: int) -> None:
        place = self._places[role] = _Place(generation)
        host = InlineHost(self, role)
        self._inbox.put(lambda: self._begin(role, place, host))

    def _begin(self, role: Role, place: _Place, host: InlineHost) -> None:
        place.part = build_part(role, self._plan, host, _log)
        self._guarded(role, place, place.part.begin)

    def _deliver(self, role: Role, message: object, sender: object) -> None:
        if role == CONTROLLER and self._outside is not None:
            self._outside.put(message)
            return
        place = self._places.get(role)
        if place is not None and place.part is not None:
            part = place.part
            self._guarded(role, place, lambda: part.receive(message, sender))

    def _posted(self, role: Role, function: Callable[[], object]) -> None:
        place = self._places.get(role)
        if place is not None:
            self._guarded(role, place, function)

    def _guarded(self, role: Role, place: _Place, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            logger.exception("%s failed", role)
            fail = getattr(place.part, "fail", None)
            if fail is not None:
                fail(error)
            elif role == SUPERVISOR:
                self._failure = f"the Supervisor failed: {type(error).__name__}: {error}"
            else:
                self.kill(role, place.generation)

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._fire_timers()
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else IDLE_S
            with contextlib.suppress(queue.Empty):
                self._inbox.get(timeout=min(wait_s, IDLE_S))()
        for place in self._places.values():
            if place.part is not None:
                place.part.close()

    def _fire_timers(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, number, role, token, place = heapq.heappop(self._due)
            if self._places.get(role) is place and place.timers.get(token) == number and place.part is not None:
                del place.timers[token]
                part = place.part
                self._guarded(role, place, lambda part=part, token=token: part.timer(token))  # type: ignore[misc]


class InlineHost:
    """The `Host` of one part in an InlineSystem."""

    def __init__(self, system: InlineSystem, role: Role) -> None:
        self._system = system
        self._role = role

    def now_s(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def send(self, to: Role, message: object) -> None:
        """As in `Host`."""
        self._system.send(self._role, to, message)

    def reply(self, to: object, message: object) -> None:
        """As in `Host`; an address here is a function that takes the answer."""
        if callable(to):
            to(message)

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """As in `Host`."""
        self._system.set_timer(self._role, token, delay_s)

    def cancel_timer(self, token: Hashable) -> None:
        """As in `Host`."""
        self._system.cancel_timer(self._role, token)

    def post(self, function: Callable[[], object]) -> None:
        """As in `Host`."""
        self._system.post(self._role, function)

    def finish(self) -> None:
        """The part stays until the system ends."""

    def spawn(self, role: Role, generation: int) -> None:
        """As in `Host`."""
        self._system.spawn(role, generation)

    def kill(self, role: Role, generation: int) -> None:
        """As in `Host`."""
        self._system.kill(role, generation)


@functools.cache
def before_libraries_end(function: Callable[[], None]) -> None:
    """Call a function once when this program ends, before the libraries that a job may be inside of clean up.

    `atexit` calls the newest first, and such a library is loaded later than we are; what the standard library's own
    pools of threads use comes before all of that, where there is it.
    """
    getattr(threading, "_register_atexit", atexit.register)(function)


def _log(level: str, text: str) -> None:
    logger.warning("%s", text, extra={"level_of_line": level})
