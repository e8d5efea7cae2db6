"""Where the parts of a run live: in processes of their own, or all in this one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final, Protocol

from runtime.actors.composition import RunPlan
from runtime.actors.hosted_part import Introduction, Join, PartActor, PartContext
from runtime.actors.hosting import Start
from runtime.actors.system import SystemHandle
from runtime.decisions.effects import CONTROLLER, SUPERVISOR, Role
from runtime.messages import Status, StatusRequest, StopRequest

LOGGER_LOST: Final = (
    "the logger of the actor system was lost and is started again; run_logs/actors.log may miss lines. The run goes on."
)


class RunSystem(Protocol):
    """A running set of parts, as the launcher sees it."""

    def status(self, timeout_s: float) -> Status | None:
        """How the run is; None when nobody answers in time."""

    def request_stop(self, request: StopRequest) -> None:
        """Ask the run to end."""

    def lost(self) -> str:
        """Why the system cannot go on (the Supervisor or the actor system is gone); empty while it can."""

    def warnings(self) -> tuple[str, ...]:
        """What was lost and replaced without harm since the last call; heard while `status` waits."""

    def close(self, deadline_s: float) -> None:
        """End everything; nothing is left running afterwards."""


class ProcessSystem:
    """The parts as Thespian actors, each in a process of its own."""

    def __init__(self, handle: SystemHandle, plan: RunPlan) -> None:
        self._handle = handle
        self._run = plan.run
        self._request = 0
        self._told_loggers = 0
        context = PartContext(role=SUPERVISOR, generation=0, plan=plan)
        self._child = handle.create(PartActor, Start(role="Supervisor", context=context))
        self._supervisor: Any = self._child.address  # an untyped ActorAddress
        self._lock = threading.Lock()
        self._addresses: dict[Role, Any] = {}
        self._waiting: dict[Role, list[object]] = {}

    def status(self, timeout_s: float) -> Status | None:
        """As in `RunSystem`; late answers to earlier questions are as good, since each is complete."""
        with self._lock:
            self._request += 1
            asked_s = time.monotonic()
            question = StatusRequest(run=self._run, request_id=self._request)
            answer = self._handle.ask(self._supervisor, question, timeout_s)
            while answer is not None and not isinstance(answer, Status):
                left_s = timeout_s - (time.monotonic() - asked_s)
                answer = self._handle.listen(left_s) if left_s > 0 else None
            return answer

    def request_stop(self, request: StopRequest) -> None:
        """As in `RunSystem`."""
        self._handle.tell(self._supervisor, request)

    def lost(self) -> str:
        """As in `RunSystem`."""
        if not self._handle.is_alive():
            return "the actor system's admin process has ended"
        return "the Supervisor's process has ended" if self._handle.has_ended(self._child) else ""

    def warnings(self) -> tuple[str, ...]:
        """As in `RunSystem`."""
        new = self._handle.lost_loggers - self._told_loggers
        self._told_loggers += new
        return (LOGGER_LOST,) * new

    def join(self) -> None:
        """Take the TrainerController's place: its messages come to `listen`."""
        self._handle.tell(self._supervisor, Join(role=CONTROLLER))

    def listen(self, timeout_s: float) -> object | None:
        """The next message to the place that was joined; None when none comes in time."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self._handle.listen(left_s)
            if not isinstance(message, Introduction):
                return message  # type: ignore[no-any-return] # whatever was sent
            self._addresses.update(message.addresses)
            for role in [each for each in self._waiting if each in self._addresses]:
                for waiting in self._waiting.pop(role):
                    self._handle.tell(self._addresses[role], waiting)
        return None

    def send_from_outside(self, to: Role, message: object) -> None:
        """Send to a part from the place that was joined, or keep the message until the part is introduced."""
        address = self._addresses.get(to)
        if address is None:
            self._waiting.setdefault(to, []).append(message)
        else:
            self._handle.tell(address, message)

    def close(self, deadline_s: float) -> None:
        """As in `RunSystem`."""
        self._handle.close(deadline_s)


def log_file_in(folder: Path) -> Path:
    """Where the actors of a run log."""
    return folder / "actors.log"
