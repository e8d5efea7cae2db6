"""A save that loses power anywhere: a complete checkpoint always loads, never one older than the last acknowledged."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import StorageError
from runtime.run_directory import RunPaths
from tests.support.model_disk import ModelDisk, PowerLostError, Tree, load, put
from trainers.checkpoints import Checkpoint, first_loadable, write_checkpoint

RUN = Path("/results/run")


def content(number: int) -> Checkpoint:
    # More than two sectors of arrays, so that there is something to tear.
    return Checkpoint({"a": np.full(200, number, np.float64)}, {"n": number})


def save(disk: ModelDisk, steps: int, number: int) -> None:
    write_checkpoint(RUN / "checkpoints" / str(steps), content(number), disk)


def begun(*, syncs_files: bool = True, syncs_folders: bool = True) -> ModelDisk:
    """A disk with the folder of a run, made durable by the launcher."""
    disk = ModelDisk(syncs_files=syncs_files, syncs_folders=syncs_folders)
    for folder in (RUN.parent, RUN):
        disk.make_folder(folder)
    disk.root.synced = 1
    disk.root.entries()["results"].synced = 1
    return disk


class Reader:
    """Reads what a loss of power left, as `--resume` would; equal trees are read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, int | None] = {}
        self.states = 0

    def number(self, tree: Tree) -> int | None:
        """The number of the checkpoint that is loaded; None when there is nothing to load."""
        self.states += 1
        key = repr(tree)
        if key not in self._known:
            place = self._folder / "disk"
            put(tree, place)
            self._known[key] = self._read(place / RUN.relative_to("/"))
            shutil.rmtree(place)
        return self._known[key]

    def _read(self, root: Path) -> int | None:
        try:
            _, found, _ = first_loadable(RunPaths(root).checkpoint_folders())
        except StorageError:
            return None
        number = found.state["n"]
        assert isinstance(number, int)
        np.testing.assert_array_equal(found.arrays["a"], content(number).arrays["a"])
        return number


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def crashes(disk: ModelDisk, reader: Reader, steps: int, number: int) -> Iterator[int | None]:
    """What is loaded after a loss of power, for every moment of a save and every state that it may leave."""
    found: list[int | None] = []
    disk.watch = lambda: found.extend(map(reader.number, disk.states()))
    save(disk, steps, number)
    disk.watch = lambda: None
    yield from found


SAVES = {
    "the first": [(100, 1)],
    "a later one": [(100, 1), (200, 2)],
    "the same steps again": [(100, 1), (100, 2)],
    "the newest of three again": [(100, 1), (200, 2), (200, 3)],
}


@pytest.mark.parametrize("saves", SAVES.values(), ids=SAVES.keys())
def test_power_may_be_lost_at_any_moment_of_a_save(saves: list[tuple[int, int]], reader: Reader) -> None:
    disk = begun()
    *earlier, (steps, number) = saves
    for each in earlier:
        save(disk, *each)
    last = earlier[-1][1] if earlier else None
    found = set(crashes(disk, reader, steps, number))
    assert found == {last, number}
    assert {reader.number(tree) for tree in disk.states()} == {number}, "what was acknowledged is durable"
    assert reader.states > 30


@pytest.mark.parametrize(("steps", "again"), [(100, 100), (200, 100), (200, 300)])
def test_a_save_that_was_killed_and_the_next_one_that_loses_power_lose_nothing(
    steps: int, again: int, reader: Reader
) -> None:
    """The process is killed at every operation, what the system holds in memory stays; then power is lost."""
    for lives in range(100):
        disk = begun()
        save(disk, 100, 1)
        disk.lives = lives
        try:
            save(disk, steps, 2)
        except PowerLostError:
            disk.lives = None
        else:
            break
        assert set(crashes(disk, reader, again, 3)) <= {1, 2, 3}
        newest = max(steps, again)
        after = {reader.number(tree) for tree in disk.states()}
        # A killed save of more steps may have been complete; what was acknowledged last is never lost.
        assert after <= ({3} if again == newest else {2, 3}), (lives, after)
    assert 15 < lives < 99


def test_power_lost_twice_in_the_repair_of_what_it_left_loses_nothing(reader: Reader) -> None:
    disk = begun()
    save(disk, 100, 1)
    left: dict[str, Tree] = {}
    disk.watch = lambda: left.update({repr(tree): tree for tree in disk.states()})
    save(disk, 100, 2)
    for tree in left.values():
        before = reader.number(tree)
        assert set(crashes(load(tree), reader, 100, 3)) <= {before, 3}
        assert set(crashes(load(tree), reader, 200, 3)) <= {before, 3}


@pytest.mark.parametrize("syncs_files", [False, True])
def test_the_model_notices_a_disk_that_does_not_synchronise(reader: Reader, *, syncs_files: bool) -> None:
    disk = begun(syncs_files=syncs_files, syncs_folders=not syncs_files)
    save(disk, 100, 1)
    assert None in {reader.number(tree) for tree in disk.states()}
