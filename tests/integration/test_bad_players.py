"""Players that crash, hang, lie or leave: each is noticed at once, named, and leaves nothing behind."""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import psutil
import pytest

from runtime.errors import (
    EnvironmentFactoryError,
    PlayerContentError,
    PlayerDiedError,
    PlayerProtocolError,
    PlayerRefusalError,
    PlayerTimeoutError,
    PortInUseError,
    VersionMismatchError,
)
from runtime.players.factories import UnityPlayerFactory
from runtime.players.grpc_link import GrpcPlayerLink
from runtime.players.links import LinkLimits, PlayerLink
from runtime.players.versions import EXCHANGE_PATH
from tests.support.player_links import Driver, assignment, scripted_factory
from tests.support.player_messages import introduction_message

Result = TypeVar("Result")
LIMITS = LinkLimits(start_timeout_s=30.0, step_timeout_s=20.0, close_timeout_s=3.0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 60.0))


async def closing(link: PlayerLink, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return await work
    finally:
        pid = link.pid
        await link.close()
        assert pid == 0 or not psutil.pid_exists(pid)


async def driven(link: PlayerLink, steps: int) -> Driver:
    driver = Driver(link)
    await driver.begin()
    await driver.steps(steps)
    return driver


def failure(folder: Path, *deeds: str, steps: int = 10, limits: LinkLimits = LIMITS) -> BaseException:
    """What a scripted player makes of a short life, driven over a real connection."""
    link = scripted_factory(folder, *deeds).open_link(assignment(2, incarnation=1), limits)
    with pytest.raises(Exception, match=r"environment 2 \(incarnation 1\)") as caught:
        run(closing(link, driven(link, steps)))
    return caught.value


def test_c01_a_player_that_exits_is_noticed_at_once_with_pid_and_code(tmp_path: Path) -> None:
    link = scripted_factory(tmp_path, "exit@30:9").open_link(assignment(2), LIMITS)

    async def life() -> tuple[int, float]:
        driver = Driver(link)
        await driver.begin()
        await driver.steps(28)
        began = time.monotonic()
        with pytest.raises(
            PlayerDiedError, match=rf"environment 2 .*env step 29: .*pid {link.pid}\) ended with exit code 9"
        ):
            await driver.steps(1)
        return link.pid, time.monotonic() - began

    pid, waited_s = run(closing(link, life()))
    assert pid > 0
    assert waited_s < 5.0


def test_a_player_ended_by_a_signal_is_reported_with_its_name(tmp_path: Path) -> None:
    error = failure(tmp_path, f"kill@3:{int(signal.SIGSEGV)}")
    assert isinstance(error, PlayerDiedError)
    assert "was ended by SIGSEGV" in str(error)


def test_a_player_that_dies_before_it_connects_tells_its_last_words(tmp_path: Path) -> None:
    file = tmp_path / "broken.x86_64"
    file.write_text("#!/bin/sh\necho cannot load libunity.so >&2\nexit 127\n")
    file.chmod(0o755)
    logs = tmp_path / "run_logs"
    logs.mkdir()
    link = UnityPlayerFactory(target=str(file), log_folder=str(logs)).open_link(assignment(4), LIMITS)
    with pytest.raises(
        PlayerDiedError, match=r"(?s)exit code 127; the last line of .*Player-4.log:\n  cannot load libunity"
    ):
        run(closing(link, driven(link, 0)))


def test_a_player_killed_between_two_exchanges_is_told_without_one(tmp_path: Path) -> None:
    link = scripted_factory(tmp_path).open_link(assignment(2), LIMITS)
    assert isinstance(link, GrpcPlayerLink)

    async def life() -> str:
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        link.on_lost = lambda error: None if lost.done() else lost.set_result(str(error))
        driver = await driven(link, 2)
        os.kill(link.pid, signal.SIGKILL)
        text = await lost
        with pytest.raises(PlayerDiedError, match="was ended by SIGKILL"):
            await driver.steps(1)
        return text

    text = run(closing(link, life()))
    assert "environment 2" in text
    assert "was ended by SIGKILL" in text


def test_c10_a_silent_player_is_reported_after_the_step_limit_and_ended(tmp_path: Path) -> None:
    limits = LinkLimits(start_timeout_s=30.0, step_timeout_s=1.5, close_timeout_s=3.0)
    link = scripted_factory(tmp_path, "hang@50").open_link(assignment(2), limits)

    async def life() -> float:
        driver = await driven(link, 48)
        began = time.monotonic()
        with pytest.raises(PlayerTimeoutError) as caught:
            await driver.steps(1)
        for part in (
            "environment 2",
            "env step 49",
            "has not answered for 1.5 s",
            f"pid {link.pid}) is alive",
            "--step-timeout",
        ):
            assert part in str(caught.value)
        return time.monotonic() - began

    began = time.monotonic()
    waited_s = run(closing(link, life()))
    assert 1.4 < waited_s < 2.5
    assert time.monotonic() - began < 30.0


def test_c11_a_slow_start_is_no_slow_step(tmp_path: Path) -> None:
    limits = LinkLimits(start_timeout_s=30.0, step_timeout_s=1.0)
    link = scripted_factory(tmp_path, "late@0:2.5").open_link(assignment(), limits)
    driver = run(closing(link, driven(link, 3)))
    assert driver.reply is not None
    assert driver.reply.infos["Bot"].agents == ["$0-3"]


def test_c11_a_start_beyond_its_limit_names_limit_and_option(tmp_path: Path) -> None:
    error = failure(tmp_path, "late@0:50", limits=LinkLimits(start_timeout_s=1.0, step_timeout_s=20.0))
    assert isinstance(error, PlayerTimeoutError)
    for part in ("has not connected for 1.0 s", "--timeout-wait", "is alive", "port", "no log file"):
        assert part in str(error)


@pytest.mark.parametrize("lives_count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_c07_a_port_serves_one_player_after_the_other_without_a_pause(tmp_path: Path, lives_count: int) -> None:
    port = assignment().port
    factory = scripted_factory(tmp_path)

    async def lives() -> list[float]:
        starts: list[float] = []
        for incarnation in range(lives_count):
            link = factory.open_link(assignment(incarnation=incarnation, port=port), LIMITS)
            began = time.monotonic()
            driver = Driver(link)
            await closing(link, timed(driver, starts, began))
        return starts

    async def timed(driver: Driver, starts: list[float], began: float) -> None:
        await driver.begin()
        starts.append(time.monotonic() - began)
        await driver.steps(5)

    starts = run(lives())
    assert len(starts) == lives_count
    assert statistics.median(starts) < 2.0, starts


def test_a_taken_port_is_named_with_its_owner_and_nothing_is_launched(tmp_path: Path) -> None:
    ours = assignment()
    first = scripted_factory(tmp_path).open_link(ours, LIMITS)
    second = scripted_factory(tmp_path).open_link(ours, LIMITS)

    async def life() -> None:
        await driven(first, 1)
        with pytest.raises(PortInUseError, match=rf"port {ours.port} is taken by pid {os.getpid()}"):
            await second.start()
        assert second.pid == 0
        await second.close()

    run(closing(first, life()))


def test_a_second_client_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    ours = assignment()
    link = scripted_factory(tmp_path).open_link(ours, LIMITS)

    async def life() -> None:
        driver = await driven(link, 1)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ours.port}") as channel:
            exchange = channel.unary_unary(EXCHANGE_PATH)
            with pytest.raises(grpc.aio.AioRpcError, match="already serves another player") as caught:
                await exchange(introduction_message().SerializeToString(), timeout=10.0)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await driver.steps(3)

    run(closing(link, life()))


@pytest.mark.parametrize("version", ["API-12", "0.15.0", "2.0.0"])
def test_a_player_of_another_version_is_refused(tmp_path: Path, version: str) -> None:
    error = failure(tmp_path, f"version@0:{version}")
    assert isinstance(error, VersionMismatchError)
    assert repr(version) in str(error)


def test_a_player_that_calls_the_old_service_with_a_new_version_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path, "gen1@0")
    assert isinstance(error, VersionMismatchError)
    assert "calls the service of ML-Agents 0.10 and older and speaks '1.5.0'" in str(error)
    assert "API-8, API-9, API-10" in str(error)


def test_c20_a_player_that_sends_nan_is_named_with_the_place(tmp_path: Path) -> None:
    error = failure(tmp_path, "nan@4")
    assert isinstance(error, PlayerContentError)
    assert "env step 3: brain 'Bot', agent 3: observation 0 ('VectorSensor_size2') at index 1 is nan" in str(error)


def test_a_player_that_sends_garbage_is_a_protocol_error(tmp_path: Path) -> None:
    error = failure(tmp_path, "say@2:ffffff")
    assert isinstance(error, PlayerProtocolError)
    assert "3 bytes that are no UnityMessageProto" in str(error)


def test_a_player_that_says_it_is_closing_is_a_lost_player(tmp_path: Path) -> None:
    error = failure(tmp_path, "close@3")
    assert isinstance(error, PlayerDiedError)
    assert "says that it is closing (status 400)" in str(error)
    assert "ended with exit code 0" in str(error)


def test_a_player_that_refuses_what_it_was_told_would_not_be_cured_by_a_restart(tmp_path: Path) -> None:
    error = failure(tmp_path, "refuse@3")
    assert isinstance(error, PlayerRefusalError)
    assert not error.is_restartable
    assert "env step 2: the player does not take what it was told (status 422)" in str(error)
    assert "ended with exit code 0" in str(error)


def test_a_player_that_cuts_its_connection_after_a_call_is_lost_at_once(tmp_path: Path) -> None:
    error = failure(tmp_path, "drop@3", limits=LinkLimits(start_timeout_s=30.0, step_timeout_s=600.0))
    assert isinstance(error, PlayerDiedError)
    assert "the player closed the connection" in str(error)


def test_what_a_player_started_dies_with_it(tmp_path: Path) -> None:
    logs = tmp_path / "run_logs"
    logs.mkdir()
    link = scripted_factory(tmp_path, "fork@0", "exit@3:5", logs=logs).open_link(assignment(), LIMITS)
    with pytest.raises(PlayerDiedError, match="exit code 5"):
        run(closing(link, driven(link, 5)))
    child = int((logs / "Player-0.log").read_text().split()[1])
    gone, _ = psutil.wait_procs([psutil.Process(child)] if psutil.pid_exists(child) else [], timeout=5.0)
    assert gone or not psutil.pid_exists(child)


def test_what_a_player_prints_is_in_its_log(tmp_path: Path) -> None:
    logs = tmp_path / "run_logs"
    logs.mkdir()
    link = scripted_factory(tmp_path, "print@0:hello there", logs=logs).open_link(assignment(7), LIMITS)
    run(closing(link, driven(link, 1)))
    assert "hello there" in (logs / "Player-7.log").read_text()


def test_an_executable_that_the_system_cannot_start_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.x86_64"
    file.write_bytes(b"\x7fELF\0 but not really")
    file.chmod(0o755)
    link = UnityPlayerFactory(target=str(file)).open_link(assignment(), LIMITS)
    words = r"wrong.x86_64' could not be started: .*Exec format error\. Check that it was built for this system"
    with pytest.raises(EnvironmentFactoryError, match=words) as caught:
        run(closing(link, driven(link, 0)))
    assert not caught.value.is_restartable


def test_an_executable_that_is_gone_is_named_by_start(tmp_path: Path) -> None:
    link = UnityPlayerFactory(target=str(tmp_path / "Gone")).open_link(assignment(8), LIMITS)
    with pytest.raises(EnvironmentFactoryError, match=r"environment 8 .*player not found: .*Gone"):
        run(closing(link, driven(link, 0)))


def test_closing_is_polite_and_may_be_repeated(tmp_path: Path) -> None:
    logs = tmp_path / "run_logs"
    logs.mkdir()
    link = scripted_factory(tmp_path, "print@0:playing", logs=logs).open_link(assignment(), LIMITS)

    async def life() -> None:
        await driven(link, 2)
        await link.close()
        await link.close()

    run(life())
    # A player that is cut off, instead of told to stop, prints the error that it saw.
    assert (logs / "Player-0.log").read_text() == "playing\n"
