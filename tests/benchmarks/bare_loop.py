"""The bare exchange loop: a gRPC server that answers every exchange at once with the same actions, and nothing else.

`python -m tests.benchmarks.bare_loop SCENE AGENTS ACTION SECONDS PORT...` serves each port, waits until every player
steps, says `stepping`, counts exchanges for so many seconds, prints {"exchanges": n, "seconds": s} and leaves. Every
agent is sent the index ACTION on every branch.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence

import grpc
import grpc.aio
import numpy as np

from runtime.experience.actions import Actions
from runtime.players.handshake import encode_answer
from runtime.players.replies import CLOSING, encode_reset, encode_step
from runtime.players.versions import EXCHANGE_PATH
from runtime.players.wire import communicator_pb2 as pb
from tests.benchmarks.scenes import behavior_of

APPEAR_S_MAX = 60.0


def introduction_answer() -> bytes:
    """Our side of the handshake."""
    return encode_answer(pb.UnityRLInitializationOutputProto(), seed=1)


def constant_step(scene: str, agents: int, action: int) -> bytes:
    """A STEP with this action for every agent."""
    spec = behavior_of(scene)
    discrete = np.full((agents, len(spec.branches)), action, np.int32)
    rows = Actions(np.zeros((agents, spec.continuous), np.float32), discrete)
    return encode_step({spec.name: rows})


class Bare:
    """One server for all ports; a call's port does not matter, as the answer is always the same."""

    def __init__(self, step: bytes, players: int) -> None:
        self._opening = (introduction_answer(), encode_reset())
        self._step = step
        self._players = players
        self._calls: dict[str, int] = {}
        self.exchanges = 0
        self.is_closing = False
        self.all_step = asyncio.Event()

    async def exchange(self, _body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        """Answers at once."""
        if self.is_closing:
            return CLOSING
        who = context.peer()
        count = self._calls.get(who, 0)
        if count < len(self._opening):
            self._calls[who] = count + 1
            return self._opening[count]
        if count == len(self._opening):
            self._calls[who] = count + 1
            if len(self._calls) == self._players and min(self._calls.values()) > len(self._opening):
                self.all_step.set()
        self.exchanges += 1
        return self._step


async def measure(step: bytes, seconds: float, ports: Sequence[int]) -> Mapping[str, float]:
    """Exchanges, the seconds that they took, and those that this process spent on a core."""
    bare = Bare(step, len(ports))
    service, method = EXCHANGE_PATH.strip("/").split("/")
    handler = grpc.method_handlers_generic_handler(
        service, {method: grpc.unary_unary_rpc_method_handler(bare.exchange)}
    )
    options = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1))
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((handler,))
    for port in ports:
        server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.wait_for(bare.all_step.wait(), APPEAR_S_MAX)
    sys.stdout.write("stepping\n")
    sys.stdout.flush()
    began, before, cpu_before = time.monotonic(), bare.exchanges, time.process_time()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    counted = {
        "exchanges": bare.exchanges - before,
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu_before,
    }
    bare.is_closing = True
    await server.stop(2.0)
    return counted


if __name__ == "__main__":
    what, how_many, which, how_long, *where = sys.argv[1:]
    order = constant_step(what, int(how_many), int(which))
    counts = asyncio.run(measure(order, float(how_long), [int(port) for port in where]))
    sys.stdout.write(json.dumps(counts) + "\n")
