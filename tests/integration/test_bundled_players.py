"""Bundled players over a real connection: the same rows as in memory, several at once, and in UnityEnvironment."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
import pytest

from runtime.errors import PlayerDiedError, ShapeError, UsageError
from runtime.players.environment import UnityEnvironment
from runtime.players.factories import player_factory
from runtime.players.links import LinkLimits, PlayerReply
from tests.support.player_links import Driver, assignment
from tests.support.ports import free_port

Result = TypeVar("Result")
LIMITS = LinkLimits(start_timeout_s=30.0, step_timeout_s=20.0, close_timeout_s=3.0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 90.0))


async def lived(target: str, steps: int, env_id: int = 0) -> list[PlayerReply]:
    link = player_factory(target, run="test").open_link(assignment(env_id, seed=11), LIMITS)
    driver = Driver(link)
    try:
        replies = [await driver.begin({"size": 1.0})]
        replies += [await driver.steps(1) for _ in range(steps)]
    finally:
        await link.close()
    return replies


def bits(replies: list[PlayerReply]) -> bytes:
    rows = [rows for r in replies for info in r.infos.values() for rows in (info.decisions, info.terminals)]
    return b"".join(a.tobytes() for each in rows for a in (each.agents, each.rewards, *each.observations))


@pytest.mark.parametrize("scene", ["basic", "balance", "constant", "hybrid", "crowd"])
def test_a_scene_says_the_same_over_grpc_and_in_memory(scene: str) -> None:
    steps = 230 if scene == "crowd" else 40
    over_grpc = run(lived(f"fake:{scene}?seed=4", steps))
    in_memory = run(lived(f"fake:{scene}?seed=4,link=memory", steps))
    assert bits(over_grpc) == bits(in_memory)


def test_a_brain_that_appears_later_is_announced_when_it_comes() -> None:
    replies = run(lived("fake:crowd?link=memory", 230))
    assert [[each.brain_name for each in reply.brains] for reply in replies if reply.brains] == [
        ["Crowd"],
        ["CrowdLate"],
    ]
    assert "CrowdLate" in replies[-1].infos


def test_several_players_share_a_loop_and_the_death_of_one_leaves_the_others() -> None:
    async def life() -> list[int]:
        factory = player_factory("fake:basic", run="test")
        drivers = [Driver(factory.open_link(assignment(each), LIMITS)) for each in range(3)]
        await asyncio.gather(*(driver.begin() for driver in drivers))
        os.kill(drivers[1].link.pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*(driver.steps(50) for driver in drivers), return_exceptions=True)
        pids = [driver.link.pid for driver in drivers]
        await asyncio.gather(*(driver.link.close() for driver in drivers))
        assert [type(each) for each in outcomes] == [PlayerReply, PlayerDiedError, PlayerReply]
        assert "environment 1" in str(outcomes[1])
        return pids

    assert not [pid for pid in run(life()) if psutil.pid_exists(pid)]


def test_journals_count_what_was_exchanged(tmp_path: Path) -> None:
    run(lived(f"fake:basic?journal={tmp_path}", 25, env_id=6))
    (journal,) = tmp_path.glob("6-*.jsonl")
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["env_steps"] == 25


def test_unity_environment_has_the_surface_of_the_seed() -> None:
    with UnityEnvironment("fake:basic", worker_id=2, base_port=free_port() - 2, seed=3) as env:
        assert (env.worker_id, env.global_done, dict(env.external_brains)) == (2, True, {})
        with pytest.raises(UsageError, match=r"before its first reset; call reset\(\)"):
            env.step(np.array([[2]]))
        infos = env.reset({"size": 2}, train_mode=False)
        assert list(env.external_brains) == list(env.brains) == list(infos) == ["Basic"]
        assert env.reset_parameters == {"size": 2.0}
        assert env.external_brains["Basic"].vector_action_space_type == "discrete"
        assert infos["Basic"].agents == ["$2-0"]
        for _ in range(7):
            infos = env.step({"Basic": np.array([[2]])})
        assert infos["Basic"].local_done == [True]
        assert infos["Basic"].terminals.rewards[0] == pytest.approx(0.99)
        assert not env.global_done
        env.step(np.array([1]))
        with pytest.raises(UsageError, match="expected \\(1, 1\\)"):
            env.step([[1, 2]])
        with pytest.raises(UsageError, match=r"unknown brains \['Else'\]"):
            env.step({"Else": [[1]]})
        with pytest.raises(ShapeError, match="outside its branches"):
            env.step({"Basic": [[5]]})
        with pytest.raises(UsageError, match="expected \\(1, 1\\)"):
            env.step([["right"]])
        with pytest.raises(UsageError, match="'size' is 'big'; expected a number"):
            env.reset({"size": "big"})  # type: ignore[dict-item] # a user's mistake
    env.close()
    with pytest.raises(UsageError, match="closed"):
        env.reset()


def test_two_environments_live_side_by_side_in_one_process() -> None:
    first = UnityEnvironment("fake:constant", 0, free_port())
    second = UnityEnvironment("fake:constant", 1, free_port() - 1)
    for env in (first, second):
        env.reset()
    for _ in range(30):
        assert first.step()["Constant"].rewards.tolist() == second.step()["Constant"].rewards.tolist()
    first.close()
    second.step()
    second.close()


def test_an_installed_player_is_launched_like_a_unity_build(tmp_path: Path) -> None:
    from fakeunity.install import install  # noqa: PLC0415 - a part of another package that only this test needs
    from fakeunity.spec import parse_url  # noqa: PLC0415

    install(parse_url("fake:constant"), tmp_path / "Game.x86_64")
    with UnityEnvironment(
        str(tmp_path / "Game"), base_port=free_port(), no_graphics=True, log_folder=str(tmp_path)
    ) as env:
        env.reset()
        assert env.step()["Constant"].rewards.tolist() == [1.0] * len(env.step()["Constant"].agents)
    assert (tmp_path / "Player-0.log").exists()


def test_an_environment_whose_player_dies_at_the_start_leaves_no_thread(tmp_path: Path) -> None:
    file = tmp_path / "broken.x86_64"
    file.write_text("#!/bin/sh\nexit 3\n")
    file.chmod(0o755)
    before = {each.name for each in threading.enumerate()}
    with pytest.raises(PlayerDiedError, match=r"environment 4 .*exit code 3"):
        UnityEnvironment(str(file), 4, free_port() - 4)
    assert "UnityEnvironment 4" not in {each.name for each in threading.enumerate()} - before


@pytest.mark.parametrize(
    ("worker_id", "base_port", "seed", "words"),
    [(-1, 5005, 0, "worker_id -1"), (3, 65_534, 0, "port 65537"), (0, 5005, 1 << 31, "seed 2147483648")],
)
def test_numbers_that_cannot_be_are_the_users_mistake(worker_id: int, base_port: int, seed: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        UnityEnvironment("fake:basic", worker_id, base_port, seed)


def test_an_editor_is_one_environment() -> None:
    with pytest.raises(UsageError, match="the Editor is one environment"):
        UnityEnvironment(None, worker_id=1)
