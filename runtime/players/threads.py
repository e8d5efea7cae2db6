"""One thread for what can only block, so that an asyncio loop may wait for it with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class OverdueError(Exception):
    """A call has not returned in time."""


class InterruptionError(Exception):
    """A call raised what asyncio would take for an order to itself, such as `KeyboardInterrupt`: its cause."""


class BlockingThread:
    """Runs calls one after the other. A daemon: a call that never returns does not keep the process alive."""

    def __init__(self, name: str) -> None:
        # A queue of calls with results of any type; each future knows its own.
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], Result], timeout_s: float) -> Result:
        """The result of `function`, run in the thread. Raises OverdueError, InterruptionError, and whatever it raises.

        After a time-out the call goes on; calls that follow wait for it.
        """
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._calls.put((function, outcome))
        await asyncio.wait({outcome}, timeout=timeout_s)
        if not outcome.done():
            outcome.cancel()
            raise OverdueError
        return outcome.result()

    def stop(self) -> None:
        """Lets the thread end after the calls that it was given."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, outcome = call
            loop = outcome.get_loop()
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the caller
                _tell(loop, _fail, outcome, error)
            else:
                _tell(loop, _succeed, outcome, result)


# `Any`: a result or an error, as `settle` takes it.
def _tell(
    loop: asyncio.AbstractEventLoop,
    settle: Callable[[asyncio.Future[Any], Any], None],
    outcome: asyncio.Future[Any],
    value: Any,
) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle, outcome, value)


def _succeed(outcome: asyncio.Future[Any], result: object) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[Any], error: BaseException) -> None:
    if outcome.done():
        return
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        outcome.set_exception(error)
    else:
        wrapped = InterruptionError()
        wrapped.__cause__ = error
        outcome.set_exception(wrapped)
