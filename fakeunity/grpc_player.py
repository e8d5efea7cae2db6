"""The player as a gRPC client, as Unity is one: it dials the trainer and calls Exchange until it is told to stop."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

# gRPC reports an ordinary end of the trainer as news; it reads this when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc

from fakeunity.errors import ConnectError, TrainerMistakeError
from fakeunity.faults.process import wait_s
from fakeunity.memory import MemoryPlayer
from fakeunity.wire import EXCHANGE_PATH, closing_bytes, refusing_bytes

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # a proxy from the environment cannot reach this machine's own loopback
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
CLOSING_CALL_S = 1.0


def run(player: MemoryPlayer, port: int, *, connect_s: float, report: Callable[[str], None]) -> None:
    """Plays until the trainer says stop or is gone; both are a normal end.

    A call has no deadline, as the trainer may think for minutes, but the first connection has: `connect_s` seconds.
    Raises ConnectError, or TrainerMistakeError after having told the trainer that the player closes.
    """
    player.connect()
    wait_s(player.fault_delay_s(), time.sleep)
    with _dialled(port) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=connect_s)
        except grpc.FutureTimeoutError as error:
            raise ConnectError(
                f"nobody serves port {port} on localhost after {connect_s:g} s; start the trainer first, "
                "or give its port with --mlagents-port (--port for API-8 to API-10)"
            ) from error
        report(f"connected to port {port}")
        # Without serializers the calls take and give the very bytes.
        exchange = channel.unary_unary(player.exchange_path)
        call = player.exchange(None)
        wait_s(player.fault_delay_s(), time.sleep)
        try:
            while call is not None:
                reply: bytes = exchange(call)
                call = player.exchange(reply)
                wait_s(player.next_delay_s(), time.sleep)
        except grpc.RpcError as error:
            report(f"the trainer is gone: {error.code().name}")
        except TrainerMistakeError as error:
            _say_goodbye(exchange, refusing_bytes() if error.is_final else closing_bytes())
            raise
        else:
            report("the trainer asked to stop")


def refuse(port: int, *, connect_s: float) -> None:
    """Tells the trainer that there is no player, and that one which is started again would not be there either.

    Says nothing where nobody serves the port within `connect_s` seconds.
    """
    with _dialled(port) as channel, contextlib.suppress(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=connect_s)
        _say_goodbye(channel.unary_unary(EXCHANGE_PATH), refusing_bytes())


def _dialled(port: int) -> grpc.Channel:
    return grpc.insecure_channel(f"localhost:{port}", options=CHANNEL_OPTIONS)


def _say_goodbye(exchange: Callable[..., bytes], words: bytes) -> None:
    # If nobody listens any more, there is nothing left to say.
    with contextlib.suppress(grpc.RpcError):
        exchange(words, timeout=CLOSING_CALL_S)
