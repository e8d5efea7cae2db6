"""The simulated disk: what may be there after a crash, and that damage never hides what was acknowledged."""

from __future__ import annotations

import pytest

from runtime.simulation.disk import KEPT, Generation, SimDisk
from runtime.simulation.draws import Draws, Skips
from runtime.simulation.errors import InvariantError
from runtime.simulation.learner import Snapshot

NOTHING = Snapshot({}, frozenset())
ORDINARY = Skips(is_inverted=True)


def saved(disk: SimDisk, draws: Draws) -> str:
    """The error of one more save."""
    disk.begin({}, NOTHING)
    return disk.end(draws)


def test_two_saves_at_once_are_a_finding() -> None:
    disk = SimDisk()
    disk.begin({}, NOTHING)
    with pytest.raises(InvariantError, match="CKPT: a save begins while another one is being written"):
        disk.begin({}, NOTHING)


def test_what_was_acknowledged_and_is_gone_is_a_finding() -> None:
    disk = SimDisk()
    assert saved(disk, Draws(0)) == ""
    disk.generations = [Generation(0, {}, NOTHING, is_whole=False)]
    with pytest.raises(InvariantError, match="CKPT: generation 0 was acknowledged and cannot be loaded"):
        disk.newest()


def test_a_crash_leaves_nothing_a_part_or_a_whole_save_and_the_one_before_always() -> None:
    left = set()
    for seed in range(40):
        disk, draws = SimDisk(), Draws(seed)
        saved(disk, draws)
        disk.begin({}, NOTHING)
        disk.crash(draws)
        newest = disk.newest()
        assert newest is not None
        left.add((newest.number, len(disk.generations)))
    assert left == {(0, 1), (0, 2), (1, 2)}


def test_a_full_disk_has_room_again_and_a_failing_one_may_keep_what_it_called_lost() -> None:
    full, draws = SimDisk("full"), Draws(0, ORDINARY)
    errors = [bool(saved(full, draws)) for _ in range(4)]
    assert (errors, full.spells) == ([False, True, True, False], 1)
    kept = 0
    for seed in range(40):
        disk = SimDisk("failing")
        if saved(disk, Draws(seed)):
            assert disk.acknowledged == -1
            kept += disk.newest() is not None
    assert 0 < kept < 40


def test_old_generations_go_but_never_the_newest_two_whole_ones() -> None:
    disk, draws = SimDisk(), Draws(1, ORDINARY)
    for _ in range(3):
        saved(disk, draws)
    disk.generations.append(Generation(99, {}, NOTHING, is_whole=False))
    saved(disk, draws)
    assert [each.number for each in disk.generations if each.is_whole] == [2, 3]
    assert len([each for each in disk.generations if each.is_whole]) == KEPT
