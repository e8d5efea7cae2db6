"""The server of one player, called by clients in this process: sessions, order, sizes, strangers, and the Editor."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from runtime.errors import InternalError, PlayerDiedError, PlayerTimeoutError, PortInUseError
from runtime.http2 import frames
from runtime.messages import EnvAssignment
from runtime.players.factories import UnityPlayerFactory
from runtime.players.grpc_link import GrpcPlayerLink
from runtime.players.links import LinkLimits
from runtime.players.places import Place
from runtime.players.ports import usable_addresses
from runtime.players.replies import CLOSING
from runtime.players.server import STRANGERS_MAX, ExchangeServer
from runtime.players.versions import EXCHANGE_PATH
from tests.support.player_links import Driver, assignment, scripted_factory
from tests.support.player_messages import Moment, introduction_message, output_message, simple_agent, simple_brain
from tests.support.ports import free_port
from tests.support.scripted_player import READY

Result = TypeVar("Result")
Exchange = Callable[..., Any]  # `Any`: gRPC's awaitable call
PLACE = Place(3, 1)
BRAIN = simple_brain()
FIRST = output_message([Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN]).SerializeToString()
WAIT_S = 20.0


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 60.0))


@asynccontextmanager
async def serving(*, message_bytes_max: int = -1) -> AsyncIterator[tuple[ExchangeServer, int]]:
    port = free_port()
    server = ExchangeServer(PLACE, port=port, message_bytes_max=message_bytes_max)
    await server.open()
    try:
        yield server, port
    finally:
        server.say_goodbye()
        await server.close(0.1)


@asynccontextmanager
async def client(port: int, host: str = "127.0.0.1") -> AsyncIterator[Exchange]:
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"{host}:{port}", options=options) as channel:
        yield channel.unary_unary(EXCHANGE_PATH)


def test_a_listener_that_is_about_to_go_is_waited_for() -> None:
    async def life() -> None:
        port = free_port()
        with socket.create_server(("127.0.0.1", port)) as former:
            server = ExchangeServer(PLACE, port=port)
            opening = asyncio.create_task(server.open())
            await asyncio.wait([opening], timeout=0.01)
            assert not opening.done()
            former.close()
            await opening
        async with client(port) as exchange:
            call = exchange(b"hello", timeout=WAIT_S)
            assert await server.next_call(WAIT_S) == b"hello"
            server.answer(b"welcome")
            assert await call == b"welcome"
        await server.close(0.1)

    run(life())


def test_a_port_is_served_again_and_again_while_other_processes_are_started() -> None:
    # Until it has become another program, a new process holds all that its parent has open, listeners among it.
    async def life() -> None:
        port, is_over = free_port(), threading.Event()

        def start_processes() -> int:
            count = 0
            while not is_over.is_set():
                count += subprocess.run([sys.executable, "-S", "-c", ""], check=True).returncode == 0
            return count

        starting = asyncio.create_task(asyncio.to_thread(start_processes))
        try:
            for _ in range(100):
                server = ExchangeServer(PLACE, port=port)
                await server.open()
                await server.close(0.0)
        finally:
            is_over.set()
        assert await starting > 0

    run(life())


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_calls_are_answered_late_and_in_order(host: str) -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port, host) as exchange:
            for number in range(3):
                call = exchange(b"request %d" % number, timeout=WAIT_S)
                assert await server.next_call(WAIT_S) == b"request %d" % number
                server.answer(b"reply %d" % number)
                assert await call == b"reply %d" % number

    if host == "[::1]" and "::1" not in usable_addresses("", free_port(), PLACE):
        pytest.skip("no IPv6 on this machine")
    run(life())


def test_a_second_call_while_one_is_open_is_refused_and_changes_nothing() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            call = exchange(b"one", timeout=WAIT_S)
            assert await server.next_call(WAIT_S) == b"one"
            with pytest.raises(grpc.aio.AioRpcError, match="one exchange at a time"):
                await exchange(b"two", timeout=WAIT_S)
            assert server.refused_calls == 1
            server.answer(b"reply")
            assert await call == b"reply"

    run(life())


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            server.answer(b"to nobody")
            call = exchange(b"one", timeout=WAIT_S)
            await server.next_call(WAIT_S)
            server.answer(b"right")
            server.answer(b"twice")
            assert await call == b"right"

    run(life())


def test_a_player_that_cuts_the_connection_while_it_waits_is_lost_at_once() -> None:
    async def life() -> None:
        async with serving() as (server, port):
            async with client(port) as exchange:
                call = exchange(b"one", timeout=WAIT_S)
                assert await server.next_call(WAIT_S) == b"one"
                waiting = asyncio.ensure_future(server.next_call(WAIT_S))
                call.cancel()
            lost = r"environment 3 \(incarnation 1\): the player (closed the connection|gave up its call)"
            with pytest.raises(PlayerDiedError, match=lost):
                await waiting
            with pytest.raises(PlayerDiedError):
                await server.next_call(WAIT_S)

    run(life())


def test_waiting_has_a_deadline_and_one_place() -> None:
    async def life() -> None:
        async with serving() as (server, _):
            with pytest.raises(TimeoutError):
                await server.next_call(0.05)
            waiting = asyncio.ensure_future(server.next_call(0.5))
            await asyncio.wait({waiting}, timeout=0.05)
            with pytest.raises(InternalError, match="two exchanges at once"):
                await server.next_call(0.05)
            with pytest.raises(TimeoutError):
                await waiting

    run(life())


def test_calls_after_the_end_are_answered_with_the_end() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            call = exchange(b"one", timeout=WAIT_S)
            await server.next_call(WAIT_S)
            assert server.say_goodbye()
            assert not server.say_goodbye()
            assert await call == CLOSING
            assert await exchange(b"two", timeout=WAIT_S) == CLOSING

    run(life())


async def introduced(server: ExchangeServer, exchange: Exchange) -> None:
    """A first call, which makes the client the player."""
    call = exchange(b"hello", timeout=WAIT_S)
    assert await server.next_call(WAIT_S) == b"hello"
    server.answer(b"welcome")
    assert await call == b"welcome"


def test_a_first_message_may_not_be_longer_than_any_introduction_is() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            with pytest.raises(grpc.aio.AioRpcError, match="a first message of 2097152 bytes; the limit is 1048576"):
                await exchange(b"x" * (2 << 20), timeout=WAIT_S)
            assert not server.has_session
            await introduced(server, exchange)

    run(life())


def test_a_stranger_cannot_make_us_hold_a_long_message() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as player, client(port) as stranger:
            await introduced(server, player)
            with pytest.raises(grpc.aio.AioRpcError, match="already serves another player"):
                await stranger(b"x" * (8 << 20), timeout=WAIT_S)
            await introduced(server, player)

    run(life())


def test_strangers_that_connect_and_say_nothing_do_not_use_us_up() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as player:
            await introduced(server, player)
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            # All but the newest few are closed by us: what is left to read is our greeting, and the end.
            for reader, _ in silent[:-STRANGERS_MAX]:
                await asyncio.wait_for(reader.read(), WAIT_S)
            assert len(server._connections) <= STRANGERS_MAX + 1
            await introduced(server, player)
            for _, writer in silent:
                writer.close()

    run(life())


async def written_for_ever(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Raises TimeoutError once the other side has not read for a second."""
    while True:
        writer.write(data)
        await asyncio.wait_for(writer.drain(), 1.0)


def test_who_asks_and_never_reads_is_not_read_any_more() -> None:
    async def life() -> None:
        async with serving() as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ping = frames.frame(frames.PING, 0, 0, bytes(8)) * 4096
            writer.write(frames.PREFACE + frames.settings())
            with pytest.raises(TimeoutError):
                await written_for_ever(writer, ping)
            (connection,) = server._connections
            assert connection._transport is not None
            assert not connection._transport.is_reading()
            assert connection._transport.get_write_buffer_size() < 4 << 20
            writer.transport.abort()
            del reader

    run(life())


def test_messages_have_no_limit_unless_one_is_set() -> None:
    large = b"x" * (6 << 20)

    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            await introduced(server, exchange)
            call = exchange(large, timeout=WAIT_S)
            assert await server.next_call(WAIT_S) == large
            server.answer(b"fine")
            assert await call == b"fine"
        async with serving(message_bytes_max=1 << 20) as (server, port), client(port) as exchange:
            await introduced(server, exchange)
            with pytest.raises(
                grpc.aio.AioRpcError, match="a message of 6291456 bytes; the limit is 1048576"
            ) as caught:
                await exchange(large, timeout=WAIT_S)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    run(life())


def test_bytes_of_a_stranger_do_no_harm() -> None:
    async def life() -> None:
        async with serving() as (server, port), client(port) as exchange:
            for greeting in (b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\x02\x00" + bytes(200)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(greeting)
                await writer.drain()
                writer.close()
                await reader.read()
            call = exchange(b"one", timeout=WAIT_S)
            assert await server.next_call(WAIT_S) == b"one"
            server.answer(b"reply")
            assert await call == b"reply"

    run(life())


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_listens_on_is_refused(address: str) -> None:
    with socket.socket() as other:
        other.bind((address, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"port {port} is taken.*--base-port"):
            run(ExchangeServer(PLACE, port=port).open())


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(PortInUseError, match=r"cannot serve on 192\.0\.2\.1 .*--bind"):
        usable_addresses("192.0.2.1", free_port(), PLACE)


async def press_play(ours: EnvAssignment) -> None:
    """What the Editor does: dial, introduce itself, ask for orders, answer a reset and a step, and hear the end."""
    async with client(ours.port) as exchange:
        await exchange(introduction_message().SerializeToString(), timeout=WAIT_S, wait_for_ready=True)
        for body in (READY, FIRST, FIRST):
            reply = await exchange(body, timeout=WAIT_S)
        assert reply == CLOSING


def test_the_editor_is_waited_for_without_limit_and_said_so() -> None:
    ours = assignment(0)
    link = UnityPlayerFactory(target=None).open_link(ours, LinkLimits(start_timeout_s=0.01))
    assert isinstance(link, GrpcPlayerLink)
    notes: list[str] = []
    link.on_note = notes.append

    async def life() -> None:
        driver = Driver(link)
        beginning = asyncio.ensure_future(driver.begin())
        await asyncio.wait({beginning}, timeout=0.2)
        editor = asyncio.ensure_future(press_play(ours))
        await beginning
        await driver.steps(1)
        await link.close()
        await editor

    run(life())
    assert notes == [f"environment 0 (incarnation 0): listening on port {ours.port}; press Play in the Unity Editor."]


def test_a_player_that_has_not_connected_is_noted_once_with_port_pid_and_log(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("player")
    factory = replace(scripted_factory(folder, "late@0:30", logs=folder), note_after_s=0.2)
    ours = assignment(5)
    link = factory.open_link(ours, LinkLimits(start_timeout_s=0.6))
    assert isinstance(link, GrpcPlayerLink)
    notes: list[str] = []
    link.on_note = notes.append

    async def life() -> int:
        with pytest.raises(PlayerTimeoutError, match=r"not connected for 0\.6 s"):
            await link.start()
        pid = link.pid
        await link.close()
        return pid

    pid = run(life())
    (note,) = notes
    for part in (
        "environment 5",
        "not connected within 0.2 s",
        f"pid {pid}",
        f"port {ours.port}",
        "Player-5.log",
        "0.6 s",
    ):
        assert part in note


def test_an_abandoned_exchange_breaks_the_link_instead_of_shifting_replies() -> None:
    ours = assignment(1)
    link = UnityPlayerFactory(target=None).open_link(ours, LinkLimits())

    async def life() -> None:
        async with client(ours.port) as exchange:
            starting = asyncio.ensure_future(link.start())
            await exchange(introduction_message().SerializeToString(), timeout=WAIT_S, wait_for_ready=True)
            order = exchange(READY, timeout=WAIT_S)
            await starting
            resetting = asyncio.ensure_future(link.reset({}, train_mode=True))
            await order
            resetting.cancel()
            await asyncio.wait({resetting})
            assert await exchange(FIRST, timeout=WAIT_S) == CLOSING
            with pytest.raises(PlayerDiedError, match="the exchange was abandoned"):
                await link.reset({}, train_mode=True)
            await link.close()

    run(life())
