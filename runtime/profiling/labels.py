"""What a stack of functions was about, in the words of the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

WAITING: Final = "wait"
OTHER: Final = "other"

# The innermost function that is known decides; the first prefix that fits is taken.
_WORK: Final = (
    ("runtime.players.images:", "decode images"),
    ("runtime.players.conversation:Conversation.step_order", "encode"),
    ("runtime.players.replies", "encode"),
    ("runtime.players.conversation:", "decode"),
    ("runtime.players.codec", "decode"),
    ("runtime.players.rows", "decode"),
    ("runtime.players.guards:", "decode"),
    ("runtime.players.dialects:", "decode"),
    ("runtime.players.announcements:", "decode"),
    ("runtime.acting.replica:PolicyReplica.install", "install policy"),
    ("runtime.acting.replica:PolicyReplica.act", "act"),
    ("runtime.experience.blocks:", "record"),
    ("runtime.actors.worker_part:WorkerPart._send", "send"),
    ("runtime.actors.engine_outbox:", "send"),
    ("runtime.actors.envelopes:", "send"),
    ("fakeunity.", "player"),
    ("runtime.players.memory_link:", "player"),
    ("runtime.players.", "gRPC"),
    ("runtime.http2.", "gRPC"),
    ("asyncio.selector_events:", "gRPC"),  # the sockets of players are the only ones on these loops
    ("runtime.decisions.", "decide"),
    ("runtime.actors.engine:", "drive"),
    ("runtime.actors.worker_part:WorkerPart._run", "event loop"),
    ("trainers.checkpoints", "save"),
    ("trainers.export", "export"),
    ("trainers.onnx", "export"),
    ("trainers.trajectories", "accept"),
    ("trainers.statistics", "accept"),
    ("trainers.", "learn"),
    ("runtime.reporting", "report"),
    ("runtime.recording", "report"),
    ("runtime.actors.controller_part:", "accept"),
    ("tensorflow.", "learn"),
    ("keras.", "learn"),
    ("importlib", "import"),
    ("<frozen importlib", "import"),
    ("thespian.", "messages"),
    ("runtime.actors.", "messages"),
    ("multiprocessing", "messages"),
)
# Where threads wait: the innermost function alone tells.
_IDLE: Final = frozenset(
    {
        "selectors:EpollSelector.select",
        "selectors:SelectSelector.select",
        "selectors:PollSelector.select",
        "threading:Condition.wait",
        "threading:Event.wait",
        "threading:Thread._wait_for_tstate_lock",
        "queue:Queue.get",
        "multiprocessing.connection:wait",
        "concurrent.futures.thread:_worker",
        "socket:socket.accept",
        "runtime.actors.deathwatch:_DeadMan._wait",
        "runtime.actors.controller_part:Background._run",
        "threading:Thread.run",  # a thread whose work is not Python's
    }
)


@cache
def _work_of(function: str) -> str | None:
    for prefix, label in _WORK:
        if function.startswith(prefix):
            return label
    return None


def label(stack: Sequence[str]) -> str:
    """`wait`, or the work that the innermost known function is part of."""
    if not stack or stack[-1] in _IDLE:
        return WAITING
    for function in reversed(stack):
        found = _work_of(function)
        if found is not None:
            return found
    return OTHER
