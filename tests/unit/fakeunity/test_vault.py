"""The rules of the scene vault, played by hand."""

import pytest

from fakeunity.scenes.vault import Vault
from tests.unit.fakeunity.test_scene_rules import act, one


def in_vault(row: int, column: int, *, has_lever: bool = False, has_key: bool = False) -> Vault:
    world = one("vault")
    assert isinstance(world, Vault)
    world.row[:], world.column[:] = row, column
    world.has_lever[:], world.has_key[:] = has_lever, has_key
    return world


def whereabouts(world: Vault) -> tuple[int, int]:
    return int(world.row[0]), int(world.column[0])


@pytest.mark.parametrize(("action", "cell"), [(0, (2, 2)), (1, (1, 2)), (2, (3, 2)), (3, (2, 1)), (4, (2, 3))], ids=str)
def test_vault_moves_as_written(action: int, cell: tuple[int, int]) -> None:
    world = in_vault(2, 2)
    act(world, "Vault", action)
    assert whereabouts(world) == cell


@pytest.mark.parametrize(
    ("cell", "action", "has_lever", "has_key", "passes"),
    [
        ((2, 4), 4, False, False, False),
        ((2, 4), 4, True, False, True),
        ((1, 4), 4, True, True, False),
        ((2, 5), 3, True, False, True),
        ((2, 9), 4, True, False, False),
        ((2, 9), 4, True, True, True),
        ((3, 9), 4, True, True, False),
        ((0, 2), 1, True, True, False),
        ((4, 14), 4, True, True, False),
    ],
)
def test_vault_lets_through_open_doors_alone(
    cell: tuple[int, int], action: int, *, has_lever: bool, has_key: bool, passes: bool
) -> None:
    world = in_vault(*cell, has_lever=has_lever, has_key=has_key)
    act(world, "Vault", action)
    assert (whereabouts(world) != cell) == passes


def test_vault_remembers_lever_and_key_and_shows_them() -> None:
    world = in_vault(1, 0)
    act(world, "Vault", 1)
    rows = act(world, "Vault", 2)
    assert rows.observations[0][0, 20:].tolist() == [1.0, 0.0]
    world = in_vault(4, 8, has_lever=True)
    assert act(world, "Vault", 4).observations[0][0].nonzero()[0].tolist() == [4, 5 + 9, 20, 21]


def test_vault_pays_for_the_chest_alone() -> None:
    rows = act(in_vault(0, 13, has_lever=True, has_key=True), "Vault", 4)
    assert rows.rewards[0] == 1.0
    assert rows.done[0]
    assert not rows.interrupted[0]
    # And everything is shut again.
    row, column, *had = rows.observations[0][1].nonzero()[0].tolist()
    assert (row < 5, 5 <= column < 10, had) == (True, True, [])
