"""Players of API-8 to API-10 over real connections, launched as builds are, with the same server as newer ones."""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from runtime.errors import VersionMismatchError
from runtime.players.factories import LinkExtras, UnityPlayerFactory
from runtime.players.links import LinkLimits, PlayerLink, PlayerReply
from runtime.players.versions import EXCHANGE_PATH
from tests.support.player_links import ROOT, Driver, assignment
from tests.support.scripted_gen1 import WORLD_STEPS
from tests.support.scripted_player import READY

Result = TypeVar("Result")
LIMITS = LinkLimits(start_timeout_s=30.0, step_timeout_s=20.0, close_timeout_s=3.0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 60.0))


def factory(folder: Path, *words: str, extras: LinkExtras | None = None) -> UnityPlayerFactory:
    """Players that are told their port as builds of 2019 were: with `--port` alone."""
    file = folder / "old.x86_64"
    file.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.scripted_gen1 import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    file.chmod(0o755)
    return UnityPlayerFactory(
        target=str(file), args=words, run="test", port_arguments=("--port",), extras=extras or LinkExtras()
    )


async def lived(link: PlayerLink, steps: int) -> list[PlayerReply]:
    driver = Driver(link)
    try:
        replies = [await driver.begin({"size": 2.0})]
        replies += [await driver.steps(1) for _ in range(steps)]
    finally:
        await link.close()
    return replies


@pytest.mark.parametrize("version", ["API-8", "API-9", "API-10"])
def test_an_old_player_lives_a_whole_life(tmp_path: Path, version: str) -> None:
    link = factory(tmp_path, "--version", version).open_link(assignment(1), LIMITS)
    replies = run(lived(link, 12))
    ends = [len(reply.infos["Walker"].terminals) for reply in replies]
    assert ends == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0]
    assert replies[-1].infos["Walker"].vector_observations[:, 1].tolist() == [2.0, 2.0]


def test_the_end_of_all_is_followed_by_a_reset(tmp_path: Path) -> None:
    link = factory(tmp_path, "--ends-all").open_link(assignment(1), LIMITS)
    replies = run(lived(link, WORLD_STEPS + 3))
    assert [each.global_done for each in replies].index(True) == WORLD_STEPS
    assert len(replies[-1].infos["Walker"].decisions) == 2


@pytest.mark.parametrize("version", ["API-7", "API-12"])
def test_other_versions_are_refused_once_and_for_all(tmp_path: Path, version: str) -> None:
    link = factory(tmp_path, "--version", version).open_link(assignment(1), LIMITS)
    with pytest.raises(VersionMismatchError, match=rf"'{version}'.*1\.5\.0") as caught:
        run(lived(link, 0))
    assert not caught.value.is_restartable


def test_a_call_on_the_other_service_does_not_disturb_a_session(tmp_path: Path) -> None:
    ours = assignment(1)
    link = factory(tmp_path).open_link(ours, LIMITS)

    async def life() -> None:
        driver = Driver(link)
        await driver.begin()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ours.port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="already serves another player"):
                await channel.unary_unary(EXCHANGE_PATH)(READY, timeout=10.0)
        await driver.steps(3)
        await link.close()

    run(life())
