"""The runs of a series have names and seeds of their own, and `--resume` begins those that were never begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.errors import StorageError, UsageError
from runtime.run_lock import take_lock, this_process
from runtime.series import not_reached, series_of
from runtime.settings.blocks import SEED_MAX
from tests.support.settings import parse

Told = list[tuple[str, bool, int]]


def told(results: Path, *argv: str) -> Told:
    """Name, whether it is resumed, and seed of each of three runs."""
    words = ("--env", "fake:basic", "--results-dir", str(results), "--run-id", "n", "--num-runs", "3")
    runs = series_of(parse(*words, *argv))
    assert all(run.num_runs == 1 and run.checkpoints.run_id_given for run in runs)
    return [(run.checkpoints.run_id, run.checkpoints.resume, run.environment.seed) for run in runs]


def begun(results: Path, name: str, *, seed: int | None = None) -> None:
    """The folder of a run that has saved."""
    (results / name / "checkpoints" / "100").mkdir(parents=True)
    if seed is not None:
        (results / name / "configuration.yaml").write_text(f"env_settings: {{seed: {seed}}}\n")


def test_a_series_counts_its_seeds_and_begins_again_at_0_after_the_last(tmp_path: Path) -> None:
    expected: Told = [("n-0", False, SEED_MAX - 1), ("n-1", False, SEED_MAX), ("n-2", False, 0)]
    assert told(tmp_path, "--seed", str(SEED_MAX - 1)) == expected


def test_runs_that_were_never_begun_are_begun_when_a_series_is_resumed(tmp_path: Path) -> None:
    begun(tmp_path, "n-0", seed=40)
    expected: Told = [("n-0", True, 40), ("n-1", False, 41), ("n-2", False, 42)]
    assert told(tmp_path, "--resume", "--seed", "40") == expected
    assert told(tmp_path, "--resume") == expected


@pytest.mark.parametrize(
    ("name", "seed", "seeds"),
    [("n-1", 41, [40, 41, 42]), ("n-2", 0, [SEED_MAX - 1, SEED_MAX, 0]), ("n-2", 9, [7, 8, 9])],
)
def test_the_seeds_of_a_series_are_told_by_any_of_its_runs(
    tmp_path: Path, name: str, seed: int, seeds: Sequence[int]
) -> None:
    begun(tmp_path, name, seed=seed)
    assert [each[2] for each in told(tmp_path, "--resume")] == seeds


def test_a_seed_that_is_given_counts_for_all(tmp_path: Path) -> None:
    begun(tmp_path, "n-0", seed=40)
    assert [each[2] for each in told(tmp_path, "--resume", "--seed", "5")] == [5, 6, 7]


def test_a_run_whose_configuration_is_damaged_tells_no_seed(tmp_path: Path) -> None:
    begun(tmp_path, "n-0")
    begun(tmp_path, "n-1", seed=41)
    assert [each[2] for each in told(tmp_path, "--resume")] == [40, 41, 42]


def test_a_series_without_a_run_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match=r"there is no run n-0, n-1, n-2 in .* Leave --resume out to start new runs\."
    ):
        told(tmp_path, "--resume")


def test_a_run_without_a_checkpoint_is_named_before_any_is_started(tmp_path: Path) -> None:
    begun(tmp_path, "n-0", seed=40)
    (tmp_path / "n-1").mkdir()
    advice = rf"none of the 3 runs was started. Delete the folder {tmp_path}/n-1 to begin that run again\."
    with pytest.raises(StorageError, match=rf"the run {tmp_path}/n-1 has no checkpoint to go on from; {advice}"):
        told(tmp_path, "--resume")
    (tmp_path / "n-1").rmdir()
    (tmp_path / "n-1").touch()
    with pytest.raises(StorageError, match="has no checkpoint"):
        told(tmp_path, "--resume")


def test_a_run_that_is_just_beginning_is_said_to_be_held(tmp_path: Path) -> None:
    begun(tmp_path, "n-0", seed=40)
    (tmp_path / "n-1").mkdir()
    lock = take_lock(tmp_path / "n-1", this_process())
    try:
        with pytest.raises(UsageError, match="n-1"):
            told(tmp_path, "--resume")
    finally:
        lock.release()


def test_inference_needs_every_run_of_a_series(tmp_path: Path) -> None:
    begun(tmp_path, "n-0", seed=40)
    with pytest.raises(StorageError, match=r"there is no run n-1, n-2 in .* to go on from\. Train it first\."):
        told(tmp_path, "--resume", "--inference")


def test_folders_that_are_there_are_refused_without_resume_and_force(tmp_path: Path) -> None:
    begun(tmp_path, "n-1", seed=41)
    with pytest.raises(UsageError, match=r"the runs n-1 of 'n' exist already in .* Add --resume"):
        told(tmp_path)
    assert told(tmp_path, "--force", "--seed", "3")[1] == ("n-1", False, 4)


def test_a_stopped_series_says_how_to_go_on_with_what_was_saved(tmp_path: Path) -> None:
    words = ("--env", "fake:basic", "--results-dir", str(tmp_path), "--run-id", "n", "--num-runs", "3", "--seed", "5")
    runs = series_of(parse(*words))
    assert not_reached(runs, 1) == (
        "Not reached: n-1, n-2; n-0 saved nothing; the same command with --force begins the series anew."
    )
    begun(tmp_path, "n-0")
    assert not_reached(runs, 1) == (
        "Not reached: n-1, n-2; the same command with --resume goes on with the whole series."
    )
    assert not_reached(runs, 2) == (
        f"Not reached: n-2; n-1 saved nothing; delete the folder {tmp_path / 'n-1'}, then the same command with "
        "--resume goes on."
    )
