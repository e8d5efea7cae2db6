"""Recipes for players: small, picklable, and with the command line that Unity builds expect."""

import sys
from pathlib import Path

import cloudpickle
import pytest

from runtime.errors import UsageError
from runtime.players.factories import UnityPlayerFactory, player_factory
from runtime.players.links import PlayerFactory
from runtime.players.process import player_environment
from tests.support.player_links import assignment


def build(folder: Path) -> Path:
    file = folder / "Game.x86_64"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_the_command_line_has_the_order_of_unity_builds(tmp_path: Path) -> None:
    file = build(tmp_path)
    factory = UnityPlayerFactory(
        target=str(tmp_path / "Game"), no_graphics=True, log_folder=str(tmp_path), args=("--level", "3")
    )
    assert factory.command(assignment(2, port=5007)) == [
        *(str(file), "-nographics", "-batchmode", "--mlagents-port", "5007", "--port", "5007"),
        *("-logFile", str(tmp_path / "Player-2.log"), "--level", "3"),
    ]


def test_a_log_file_of_the_user_is_left_alone(tmp_path: Path) -> None:
    build(tmp_path)
    factory = UnityPlayerFactory(target=str(tmp_path / "Game"), log_folder=str(tmp_path), args=("-LOGFILE", "mine"))
    assert factory.command(assignment(port=1))[5:] == ["-LOGFILE", "mine"]


@pytest.mark.parametrize(
    ("args", "words"), [(("--port", "80"), ["--mlagents-port"]), (("--mlagents-port=9",), ["--port"])]
)
def test_a_port_word_of_the_user_is_left_alone(tmp_path: Path, args: tuple[str, ...], words: list[str]) -> None:
    build(tmp_path)
    command = UnityPlayerFactory(target=str(tmp_path / "Game"), args=args).command(assignment(port=1))
    assert command[1:] == [*(each for word in words for each in (word, "1")), *args]


def test_only_the_first_environment_shows_a_window_with_the_monitor(tmp_path: Path) -> None:
    build(tmp_path)
    factory = UnityPlayerFactory(target=str(tmp_path / "Game"), no_graphics_monitor=True)
    assert ["-nographics" in factory.command(assignment(each, port=1)) for each in (0, 1)] == [False, True]


def test_bundled_players_are_launched_with_their_environments_number() -> None:
    words = UnityPlayerFactory(target="fake:balance?agents=8").command(assignment(3, port=6000))
    assert words[:4] == [sys.executable, "-m", "fakeunity", "balance"]
    assert "--env-id=3" in words
    assert words[-4:] == ["--mlagents-port", "6000", "--port", "6000"]


def test_factories_travel_and_are_small(tmp_path: Path) -> None:
    build(tmp_path)
    factory = player_factory(str(tmp_path / "Game"), run="r1", args=["a"])
    assert isinstance(factory, PlayerFactory)
    assert not factory.is_blocking
    body = cloudpickle.dumps(factory)
    assert len(body) < 1_000
    assert cloudpickle.loads(body) == factory


def test_a_player_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="player not found"):
        player_factory(str(tmp_path / "Nope"))
    with pytest.raises(UsageError, match="player not found"):
        UnityPlayerFactory(target=str(tmp_path / "Nope")).command(assignment(port=1))


def test_a_players_environment_names_its_run_and_bypasses_proxies() -> None:
    env = player_environment({"HTTP_PROXY": "http://p:1", "NO_PROXY": "intranet"}, run="r7", env_id=4)
    assert env["UNITY_RL_RUN"] == "r7"
    assert env["FAKEUNITY_ENV_ID"] == "4"
    assert env["NO_PROXY"] == "intranet,localhost,127.0.0.1,::1"
    assert env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert env["HTTP_PROXY"] == "http://p:1"
