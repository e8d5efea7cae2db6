"""What holds for any faults, for the build and the client as such, and for what a build once said."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from climber.train import Table, train
from hypothesis import given, settings

from fakeunity.faults.plan import FaultPlan
from fakeunity.spec import parse_url
from fakeunity.testing.checks import ServedPlayer, check_environment, check_player
from fakeunity.testing.strategies import fault_plans
from runtime.errors import PlayerError
from runtime.players.environment import UnityEnvironment

LIES = ("nan", "inf", "reshape", "duplicate", "mask", "stranger", "garbage", "truncate", "empty", "vanish")


@given(fault_plans(verbs=LIES, numbers_max=30))
@settings(max_examples=20, deadline=None)
def test_a_player_that_lies_is_found_out_or_does_no_harm(plan: FaultPlan) -> None:
    url = replace(parse_url("fake:basic?link=memory&agents=2"), faults=plan).url()
    table = Table(seed=1)
    with contextlib.suppress(PlayerError):  # found out
        train(table, lambda: UnityEnvironment(url, timeout_wait=5), 30)
    assert all(np.isfinite(values).all() for values in table.values.values())


def test_the_build_keeps_the_contract_of_the_protocol(fake_unity_player: Callable[..., Path]) -> None:
    game = fake_unity_player("basic", agents=2)
    facts = check_player(lambda: ServedPlayer([game]), steps=50)
    assert facts.behaviors == ("Basic",)


def test_the_client_shows_what_a_client_must(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    game = str(fake_unity_player("masked", agents=3))
    facts = check_environment(lambda: UnityEnvironment(game, base_port=free_port, seed=1), steps=50)
    assert facts.episodes > 0


def test_what_was_learned_from_a_recorded_build_is_learned_again(tmp_path: Path) -> None:
    # A real project records its build once, `UnityEnvironment("Game", record=...)`, and keeps the file beside the test.
    recording = tmp_path / "basic.cassette"
    first, again = Table(seed=1), Table(seed=1)
    train(first, lambda: UnityEnvironment("fake:basic?link=memory", seed=2, record=recording), 100)
    train(again, lambda: UnityEnvironment(f"fake:replay?link=memory&file={recording}", seed=2), 100)
    assert again.returns == first.returns
