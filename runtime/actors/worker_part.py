"""The EnvWorker as a part: hands messages to its engine's loop and the engine's messages to its host.

The loop has a thread of its own, so that the actor answers while players are busy and players are answered while the
actor sends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable

from runtime.actors.engine import WorkerEngine
from runtime.actors.parts import Host
from runtime.decisions.effects import CONTROLLER, SUPERVISOR, Role
from runtime.errors import TrainingError
from runtime.messages import PlayerLost, StartWorker, WorkerNote

ABANDON_S = 5.0


class WorkerPart:
    """One EnvWorker: players start when StartWorker arrives."""

    def __init__(self, host: Host, worker: int, report: Callable[[str, str], None]) -> None:
        self._host = host
        self._worker = worker
        self._report = report
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"EnvWorker {worker}", daemon=True)
        self._engine: WorkerEngine | None = None
        self._run_id = ""

    def begin(self) -> None:
        """The loop turns from here on."""
        self._thread.start()

    def receive(self, message: object, sender: object) -> None:
        """Hand a message to the loop."""
        del sender  # everything that the worker answers goes to parts by their roles
        self._loop.call_soon_threadsafe(self._on_loop, message)

    def timer(self, token: Hashable) -> None:
        """The worker's timers live on its loop."""

    def close(self) -> None:
        """End every player and the loop."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._abandon(), self._loop)
        self._thread.join(ABANDON_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _abandon(self) -> None:
        try:
            if self._engine is not None:
                await asyncio.wait_for(self._engine.abandon(), ABANDON_S - 0.5)
        finally:
            self._loop.stop()

    def _on_loop(self, message: object) -> None:
        if self._engine is not None:
            self._engine.deliver(message)
        elif isinstance(message, StartWorker):
            try:
                self._start(message)
            except Exception as error:  # noqa: BLE001 - the loop would only log it, and its players would never start
                self._broken(error)

    def _start(self, start: StartWorker) -> None:
        self._run_id = start.run
        try:
            self._engine = WorkerEngine(start, self._send, self._tell, broken=self._broken)
            self._engine.begin()
        except TrainingError as error:
            for each in start.environments:
                lost = PlayerLost(
                    run=start.run,
                    worker=start.worker,
                    env_id=each.env_id,
                    incarnation=each.incarnation,
                    phase="launch",
                    kind="environment",
                    cause=str(error),
                    unreported_steps=0,
                )
                self._send(CONTROLLER, lost)
                self._send(SUPERVISOR, lost)

    def _broken(self, error: Exception) -> None:
        """Hand a bug to the host, which ends the part; the Supervisor starts another one."""

        def fail() -> None:
            raise error

        self._host.post(fail)

    def _send(self, to: Role, message: object) -> None:
        self._host.post(lambda: self._host.send(to, message))

    def _tell(self, level: str, text: str) -> None:
        note = WorkerNote(
            run=self._run_id, worker=self._worker, level="fault" if level == "fault" else "note", text=text
        )
        self._host.post(lambda: self._report(level, text))
        self._send(SUPERVISOR, note)
