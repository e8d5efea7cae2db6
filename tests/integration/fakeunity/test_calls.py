"""The player's own gRPC client calls a server of the released library, and is told what became of each call."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest

from fakeunity.calls import Channel, TrainerGoneError
from tests.support.ports import free_port

PATH = "/service/Method"
CONNECT_S = 20.0
Behaviour = Callable[[bytes, grpc.ServicerContext], bytes]


@contextlib.contextmanager
def served(behaviour: Behaviour) -> Iterator[tuple[grpc.Server, int]]:
    """A grpcio server whose one method does this."""
    server = grpc.server(
        futures.ThreadPoolExecutor(2),
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ],
    )
    handler = grpc.unary_unary_rpc_method_handler(behaviour)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("service", {"Method": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield server, port
    finally:
        server.stop(None).wait(10.0)


def dialled(port: int, path: str = PATH) -> Channel:
    channel = Channel.dial(port, path, connect_s=CONNECT_S)
    assert channel is not None
    return channel


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_536, 5 << 20])
def test_bodies_of_any_size_go_and_come(size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    with served(lambda asked, _: asked[::-1]) as (_, port), dialled(port) as channel:
        for _ in range(3):
            assert channel.exchange(body[:size]) == body[:size][::-1]


def test_many_small_calls_share_one_connection() -> None:
    peers = set()

    def note(asked: bytes, context: grpc.ServicerContext) -> bytes:
        peers.add(context.peer())
        return asked

    with served(note) as (_, port), dialled(port) as channel:
        for number in range(300):
            assert channel.exchange(b"%d" % number) == b"%d" % number
    assert len(peers) == 1


def test_a_status_is_told_by_name_with_its_words() -> None:
    def refuse(_asked: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room: 100 % full")
        return b""

    with served(refuse) as (_, port):
        with (
            dialled(port) as channel,
            pytest.raises(TrainerGoneError, match=r"^RESOURCE_EXHAUSTED: no room: 100 % full$"),
        ):
            channel.exchange(b"one")
        with dialled(port, "/service/Other") as channel, pytest.raises(TrainerGoneError, match=r"^UNIMPLEMENTED"):
            channel.exchange(b"one")


def test_a_trainer_that_ends_in_the_middle_of_a_call_is_gone() -> None:
    enders: list[grpc.Server] = []

    def end(_asked: bytes, _context: grpc.ServicerContext) -> bytes:
        enders[0].stop(None)
        return b"never"

    with served(end) as (server, port), dialled(port) as channel:
        enders.append(server)
        with contextlib.suppress(TrainerGoneError):
            channel.exchange(b"one")
        with pytest.raises(TrainerGoneError):
            channel.exchange(b"two")


def test_who_accepts_a_connection_and_says_nothing_is_no_trainer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        assert Channel.dial(port, PATH, connect_s=0.3) is None  # it accepts, and says nothing


def test_where_nobody_serves_the_dial_ends_in_time() -> None:
    assert Channel.dial(free_port(), PATH, connect_s=0.3) is None
