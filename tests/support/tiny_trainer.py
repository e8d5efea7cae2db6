"""The trainer's side of the wire in its smallest form, sharing no code with the real one: a server that holds calls."""

import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

ROOT = Path(__file__).parents[2]
# The methods of the new and of the old protocol generation.
EXCHANGES = ("/communicator_objects.UnityToExternalProto/Exchange", "/communicator_objects.UnityToExternal/Exchange")
WAIT_S = 30.0


class TinyTrainer:
    """Serves one player on 127.0.0.1: `exchange` answers the call that is held and waits for the next one.

    It has the shape of a `MemoryPlayer`, so that one test can drive either.
    """

    def __init__(self, port: int = 0) -> None:
        self._calls: queue.Queue[bytes] = queue.Queue()
        self._replies: queue.Queue[bytes] = queue.Queue()
        self._server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Exchange(self._hold),))
        self.port: int = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def exchange(self, request_reply: bytes | None) -> bytes:
        """The player's next call, once its last one has been answered with `request_reply` (None before the first)."""
        if request_reply is not None:
            self.answer(request_reply)
        return self._calls.get(timeout=WAIT_S)

    def answer(self, reply: bytes) -> None:
        """Answers the call that is held; waits for nothing."""
        self._replies.put(reply)

    def stop(self) -> None:
        """Ends the server at once; a held call fails."""
        self._server.stop(grace=None).wait(timeout=WAIT_S)

    def _hold(self, call: bytes, _context: grpc.ServicerContext) -> bytes:
        self._calls.put(call)
        return self._replies.get(timeout=WAIT_S)


class _Exchange(grpc.GenericRpcHandler):
    def __init__(self, behavior: Callable[[bytes, grpc.ServicerContext], bytes]) -> None:
        self._behavior = behavior

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if handler_call_details.method not in EXCHANGES:
            return None
        return grpc.unary_unary_rpc_method_handler(self._behavior)


class PlayerProcess:
    """A player process and its output; leaving the block kills what is still alive."""

    def __init__(self, arguments: Sequence[str], *, command: Sequence[str] | None = None, cwd: Path = ROOT) -> None:
        start = [sys.executable, "-m", "fakeunity"] if command is None else command
        self.process = subprocess.Popen(
            [*start, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def wait(self) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, once the player has ended."""
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, err
