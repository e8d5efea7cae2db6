"""The metrics of updates: whole lines below the columns of 2019, whatever happens to the disk or the machine."""

import csv
from pathlib import Path

from runtime.reporting.metrics import COLUMNS, UpdateMetrics
from tests.support.full_disk import file_size_limit


def metrics(folder: Path, warnings: list[str]) -> UpdateMetrics:
    return UpdateMetrics(lambda brain: folder / f"{brain}.csv", warnings.append)


def update(ours: UpdateMetrics, *, begins_s: float, experiences: int = 64, mean: float | None = 0.25) -> None:
    ours.begin_update("Basic", experiences, begins_s)
    ours.write(ours.finish_update("Basic", update_s=0.5, mean_return=mean, now_s=begins_s + 1.0))


def rows(folder: Path) -> list[list[str]]:
    with (folder / "Basic.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_an_update_is_a_line_with_its_times_its_experience_and_the_mean_return(tmp_path: Path) -> None:
    ours = metrics(tmp_path, [])
    ours.start(10.0)
    ours.start(99.0)
    update(ours, begins_s=13.0)
    update(ours, begins_s=20.0, experiences=65, mean=None)
    assert rows(tmp_path) == [
        list(COLUMNS),
        ["Basic", "0.500", "4.000", "3.000", "64", "0.25"],
        ["Basic", "0.500", "11.000", "6.000", "65", ""],
    ]


def test_behaviors_collect_beside_each_other(tmp_path: Path) -> None:
    ours = metrics(tmp_path, [])
    ours.start(0.0)
    ours.begin_update("Other", 7, 5.0)
    update(ours, begins_s=6.0)
    ours.write(ours.finish_update("Other", update_s=0.1, mean_return=0.0, now_s=9.0))
    assert rows(tmp_path)[1] == ["Basic", "0.500", "7.000", "6.000", "64", "0.25"]
    assert (tmp_path / "Other.csv").read_text().splitlines()[1] == "Other,0.100,9.000,5.000,7,0"


def test_a_run_that_goes_on_writes_below_what_was_there_and_half_a_line_goes(tmp_path: Path) -> None:
    update(metrics(tmp_path, []), begins_s=1.0)
    with (tmp_path / "Basic.csv").open("a") as file:
        file.write("Basic,0.5")
    update(metrics(tmp_path, []), begins_s=1.0)
    assert [row[0] for row in rows(tmp_path)] == ["Brain name", "Basic", "Basic"]
    assert {len(row) for row in rows(tmp_path)} == {len(COLUMNS)}


def test_a_full_disk_is_said_once_and_leaves_only_whole_lines(tmp_path: Path) -> None:
    warnings: list[str] = []
    ours = metrics(tmp_path, warnings)
    update(ours, begins_s=1.0)
    with file_size_limit((tmp_path / "Basic.csv").stat().st_size + 8):
        update(ours, begins_s=2.0)
        update(ours, begins_s=3.0)
    update(ours, begins_s=4.0)
    assert len(rows(tmp_path)) == 3
    warning, recovered = warnings
    assert recovered == "the metrics of updates are written again"
    assert warning.startswith(f"cannot write {tmp_path / 'Basic.csv'}: ")
    assert warning.endswith("Training goes on; lines are missing.")


def test_a_name_with_a_comma_or_half_a_surrogate_pair_stays_one_cell(tmp_path: Path) -> None:
    warnings: list[str] = []
    ours = UpdateMetrics(lambda _: tmp_path / "Basic.csv", warnings.append)
    name = 'a,"b"\ud800'
    ours.begin_update(name, 1, 0.0)
    ours.write(ours.finish_update(name, update_s=0.0, mean_return=1.0, now_s=1.0))
    assert rows(tmp_path)[1][0] == 'a,"b"\\ud800'
