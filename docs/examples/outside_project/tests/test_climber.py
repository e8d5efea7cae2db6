"""The trainer learns, survives what can be survived, and says what cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest
from climber.train import Table, train

from fakeunity.faults.plan import Fault, FaultPlan
from fakeunity.testing.expected import best_reward
from runtime.errors import VersionMismatchError
from runtime.players.environment import UnityEnvironment


def test_it_learns_nearly_all_there_is_to_earn(
    fake_unity_player: Callable[..., Path], free_port: int, fake_unity_seed: int
) -> None:
    game = str(fake_unity_player("basic", agents=4, seed=fake_unity_seed))
    table = Table(fake_unity_seed)
    train(table, lambda: UnityEnvironment(game, base_port=free_port, seed=1), 1500)
    table.curiosity = 0.0
    table.returns.clear()
    train(table, lambda: UnityEnvironment(game, base_port=free_port, seed=2), 1600)
    assert sum(table.returns) / len(table.returns) > 0.95 * best_reward("basic")


def test_a_lost_player_is_started_again(fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path) -> None:
    crash = Fault(verb="crash", phase="step", values=("SEGV",), first=20, last=20, once=True)
    game = str(fake_unity_player("basic", fault=FaultPlan((crash,)), fault_once=tmp_path / "once"))
    table = Table(seed=1)
    assert train(table, lambda: UnityEnvironment(game, base_port=free_port), 60) == 1
    assert table.steps == 60


def test_harmless_faults_change_nothing(
    fake_unity_player: Callable[..., Path],
    free_port: int,
    fake_unity_seed: int,
    fake_unity_faults: Callable[..., FaultPlan],
) -> None:
    plan = fake_unity_faults("delay", "empty", "flood", "fork", "pad", phases=("reset", "step"), faults_max=3)
    game = str(fake_unity_player("basic", agents=4, seed=fake_unity_seed, fault=plan))
    table = Table(fake_unity_seed)
    assert train(table, lambda: UnityEnvironment(game, base_port=free_port), 40) == 0
    assert table.steps == 40


def test_another_version_is_not_tried_again(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    game = str(fake_unity_player("basic", fault="version:0.15.0@handshake"))
    with pytest.raises(VersionMismatchError, match=r"0\.15\.0"):
        train(Table(seed=1), lambda: UnityEnvironment(game, base_port=free_port), 10)
