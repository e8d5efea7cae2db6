"""A program that is a player, a Unity build or an installed one, to be asked for its calls by `check_player`."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path

import grpc

from fakeunity.gen1 import EXCHANGE_PATH as GEN1_EXCHANGE
from fakeunity.testing.contract import require
from fakeunity.testing.tongues import closing
from fakeunity.wire import EXCHANGE_PATH as GEN2_EXCHANGE

MESSAGE_BYTES_MAX = 1 << 30
ENDED_S = 10.0


class ServedPlayer:
    """Starts a program and serves it, as a trainer of either generation does, on a port of this machine.

    command: the program and its own arguments; its port is added under both words for it. port: 0 for a free one.
    patience_s: how long a call may take, stop_s: an end that was asked for; longer breaks the rule that waits for it.
    log: a file for what the program prints, which is thrown away without it.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        port: int = 0,
        patience_s: float = 60.0,
        stop_s: float = 10.0,
        log: Path | None = None,
    ) -> None:
        self._patience_s = patience_s
        self._stop_s = stop_s
        self._calls: queue.Queue[bytes | None] = queue.Queue()
        self._replies: queue.Queue[bytes | None] = queue.Queue()
        self._has_ended = False
        self._server = grpc.server(
            futures.ThreadPoolExecutor(2),
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)],
        )
        self._server.add_generic_rpc_handlers((_Exchange(self),))
        self.port: int = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()
        words = [*map(str, command), "--mlagents-port", str(self.port), "--port", str(self.port)]
        with open(log or "/dev/null", "ab") as output:  # noqa: PTH123 - one of two kinds of path
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        threading.Thread(target=self._watch, daemon=True).start()

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The program's next call, after this reply to its last; None when it has ended.

        Raises ConformanceError when neither comes in time.
        """
        if self._has_ended:
            return None
        if request_reply is not None:
            self._replies.put(request_reply)
        is_stop = request_reply == closing()
        limit_s = self._stop_s if is_stop else self._patience_s
        try:
            call = self._calls.get(timeout=limit_s)
        except queue.Empty:
            rule = "hello" if request_reply is None else "stop" if is_stop else "message"
            require(False, rule, f"neither a call nor an end in {limit_s:g} s")
            raise
        self._has_ended = call is None
        return call

    def close(self) -> None:
        """Kills the program, if it is still there, and ends the server; harmless twice."""
        self._has_ended = True
        self._process.kill()
        self._process.wait(timeout=ENDED_S)
        self._replies.put(None)
        self._server.stop(grace=None).wait(timeout=ENDED_S)

    def hold(self, call: bytes, context: grpc.ServicerContext) -> bytes:
        """Keeps a call open until there is a reply."""
        self._calls.put(call)
        reply = self._replies.get()
        if reply is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the check is over")
        return reply or b""

    def _watch(self) -> None:
        self._process.wait()
        self._calls.put(None)


class _Exchange(grpc.GenericRpcHandler):
    def __init__(self, player: ServedPlayer) -> None:
        self._player = player

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if handler_call_details.method not in (GEN1_EXCHANGE, GEN2_EXCHANGE):
            return None
        return grpc.unary_unary_rpc_method_handler(self._player.hold)
