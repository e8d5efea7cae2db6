"""A program that is a player is checked as one in memory is, and none is left behind."""

import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from fakeunity.testing.checks import ConformanceError, ServedPlayer, check_player


@pytest.mark.parametrize("protocol", ["API-9", "1.5.0"])
def test_an_installed_player_keeps_the_contract(
    protocol: str, fake_unity_player: Callable[..., Path], tmp_path: Path
) -> None:
    file = fake_unity_player("basic", protocol=protocol)
    facts = check_player(lambda: ServedPlayer([file], log=tmp_path / "log"), steps=30)
    assert (facts.version, facts.messages) == (protocol, 32)
    assert "the trainer asked to stop" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("fault", "rule", "patience_s"),
    [("hang@handshake", "hello", 0.5), ("crash@step=3", "message", 60.0), ("hang@close", "stop", 60.0)],
)
def test_a_program_that_says_nothing_any_more_breaks_the_rule_that_waits_for_it(
    fault: str, rule: str, patience_s: float, fake_unity_player: Callable[..., Path]
) -> None:
    file = fake_unity_player("basic", fault=fault)
    players: list[ServedPlayer] = []

    def opened() -> ServedPlayer:
        players.append(ServedPlayer([file], patience_s=patience_s, stop_s=0.5))
        return players[-1]

    with pytest.raises(ConformanceError) as caught:
        check_player(opened, steps=10, is_repeatable=False)
    assert caught.value.rule == rule
    assert players[-1].exchange(None) is None
    assert not [child for child in psutil.Process().children() if str(players[-1].port) in words_of(child)]


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing of one that has ended, as children of other tests may have."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_a_program_that_is_no_player_says_no_hello() -> None:
    with pytest.raises(ConformanceError, match="no call at all"):
        check_player(lambda: ServedPlayer([sys.executable, "-c", ""]), steps=10)
