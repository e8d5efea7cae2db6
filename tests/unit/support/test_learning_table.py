"""The table of learning: what lines of a run mean, when a goal is met, and what is kept when it is measured again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.measure import NotMeasuredError
from tests.benchmarks.runs import Progress
from tests.learning import table
from tests.learning.judgement import Beats, FinalNotLower, Goal, Measured, Reaches, Run, ShareOfExpert, Steps, judged
from tests.learning.page import page
from tests.learning.rows import OURS, PEER, Row, Side, bundled, rows
from tests.learning.runs import curves, run_of
from tests.peers.released import ROOT

LINES = """\
[INFO] Run b: 1 player(s)
[INFO] Crowd. Step: 100. Time Elapsed: 1.000 s. Mean Reward: 0.200. Std of Reward: 0.100. Training.
[INFO] CrowdLate. Step: 100. Time Elapsed: 1.500 s. No episode was completed since last summary. Training.
[INFO] wall_height: lesson 4 (Height4, 4) begins after 120 env steps
[INFO] Crowd. Step: 200. Time Elapsed: 2.000 s. Mean Reward: 0.900. Std of Reward: 0.100. Training.
[INFO] CrowdLate. Step: 200. Time Elapsed: 2.500 s. Mean Reward: -0.100. Std of Reward: 0.100. Training.
[INFO] Crowd. Step: 300. Time Elapsed: 3.000 s. Mean Reward: 0.700. Std of Reward: 0.100. Training.
[INFO] CrowdLate. Step: 300. Time Elapsed: 3.500 s. Mean Reward: 0.850. Std of Reward: 0.100. Training.
[INFO] Crowd. Step: 400. Time Elapsed: 4.000 s. No episode was completed since last summary. Not Training.
"""


def runs(side: str, *figures: tuple[int | None, float | None], row: str = "basic") -> list[Run]:
    return [
        Run(row=row, side=side, seed=seed, reached=reached, final=final, steps=1000, wall_s=2.0)
        for seed, (reached, final) in enumerate(figures, start=1)
    ]


def verdict(goal: Goal, *sides: Sequence[Run]) -> tuple[str, str]:
    found = judged(goal, Measured.of("basic", [run for side in sides for run in side]))
    return found.found, found.verdict


def row(*sides: Side, threshold: float = 0.8) -> Row:
    return Row(name="r", what="", scene="crowd", threshold=threshold, sides=sides, goals=())


def test_of_two_behaviors_the_later_and_the_lower_count() -> None:
    side = Side(name=OURS, document=bundled("crowd"))
    found = run_of(row(side), side, 3, Progress(text=LINES, took_s=9.04))
    assert found == Run(row="r", side=OURS, seed=3, reached=300, final=0.7, steps=400, wall_s=9.0)
    assert run_of(row(side, threshold=0.88), side, 3, Progress(text=LINES)).reached is None


def test_a_behavior_that_printed_nothing_has_reached_nothing() -> None:
    side = Side(name=OURS, document=bundled("crowd"))
    found = run_of(row(side), side, 1, Progress(text=LINES.replace("CrowdLate", "Other")))
    assert (found.reached, found.final) == (None, None)


def test_before_the_last_lesson_nothing_counts_nor_does_the_summary_in_which_it_begins() -> None:
    last = curves(LINES, after="wall_height: lesson 4 ")
    assert last == {"Crowd": [(300, 0.7), (400, None)], "CrowdLate": [(300, 0.85)]}
    assert curves(LINES, after="wall_height: lesson 5 ") == {}


def test_every_seed_must_reach_the_threshold() -> None:
    five = [(1, 0.9)] * 5
    assert verdict(Reaches(OURS), runs(OURS, *five)) == ("5 of 5", "met")
    assert verdict(Reaches(OURS), runs(OURS, *five[:4], (None, 0.9))) == ("4 of 5", "missed")
    assert verdict(Reaches(OURS), runs(OURS, (1, 0.9))) == ("1 of 1 (1 of 5 seeds)", "met so far")
    assert verdict(Reaches(OURS), runs(PEER, *five)) == ("", "not measured")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((100, 200, 300), (100, 200, 900), ("1.00", "met")),
        ((100, 240, 300), (100, 200, 900), ("1.20", "limit met, aim missed")),
        ((100, 250, 300), (100, 200, 900), ("1.25", "limit met, aim missed")),
        ((100, 260, 300), (100, 200, 900), ("1.30", "missed")),
        ((100, 200, None), (100, 200, None), ("1.00", "met")),
        ((None, None, 300), (100, 200, 900), ("ours does not reach it", "missed")),
        ((None, None, 300), (None, None, 900), ("ours does not reach it", "missed")),
        ((900, 900, 900), (None, None, 900), ("mlagents-learn does not reach it", "met")),
    ],
)
def test_medians_of_steps_are_compared_and_never_reached_is_behind_all(
    ours: Sequence[int | None], theirs: Sequence[int | None], expected: tuple[str, str]
) -> None:
    sides = (runs(side, *((reached, 0.9) for reached in figures)) for side, figures in ((OURS, ours), (PEER, theirs)))
    found, what = verdict(Steps(OURS, PEER), *sides)
    assert (found.removesuffix(" (3 of 5 seeds)"), what.removesuffix(" so far")) == expected


def test_the_final_reward_is_not_lower_where_the_medians_say_so() -> None:
    theirs = runs(PEER, (1, 0.9), (1, 0.93), (1, 0.93))
    goal = FinalNotLower(OURS, PEER)
    assert verdict(goal, runs(OURS, (1, 0.1), (1, 0.93), (1, 0.94)), theirs)[1] == "met so far"
    assert verdict(goal, runs(OURS, (1, 0.92), (1, 0.92), (1, 0.94)), theirs)[1] == "missed so far"
    assert verdict(goal, runs(OURS, (1, None), (1, None), (1, 0.94)), theirs)[1] == "missed so far"


@pytest.mark.parametrize(
    ("ours", "other", "expected"),
    [
        (((10, 0.9), (20, 0.9)), ((None, 0.5), (None, 0.4)), "met"),
        (((10, 0.9), (20, 0.9)), ((40, 0.8), (50, 0.8)), "met"),
        (((10, 0.9), (20, 0.9)), ((40, 0.9), (50, 0.9)), "missed"),
        (((None, 0.9), (20, 0.9)), ((40, 0.8), (50, 0.8)), "missed"),
        (((None, 0.6), (None, 0.6)), ((None, 0.5), (None, 0.5)), "missed"),
    ],
)
def test_who_beats_another_is_better_at_both(
    ours: Sequence[tuple[int | None, float]], other: Sequence[tuple[int | None, float]], expected: str
) -> None:
    assert verdict(Beats("a", "b"), runs("a", *ours), runs("b", *other))[1] == f"{expected} so far"


def test_a_clone_is_measured_by_its_expert() -> None:
    assert verdict(ShareOfExpert(OURS, 2.0), runs(OURS, (1, 1.8)))[1] == "met so far"
    assert verdict(ShareOfExpert(OURS, 2.0), runs(OURS, (1, 1.79)))[1] == "missed so far"


def test_goals_speak_of_sides_that_their_rows_have() -> None:
    for each in rows():
        names = {side.name for side in each.sides}
        assert names >= {side for goal in each.goals for side in goal.sides}
        assert each.goals


def test_settings_of_a_bundled_scene_are_changed_in_every_behavior() -> None:
    changed = bundled("hallway", max_steps=5, network_settings={"memory": None, "hidden_units": 7})["behaviors"]
    assert changed["Hallway"]["network_settings"] == {"normalize": False, "hidden_units": 7, "num_layers": 1}
    assert changed["Hallway"]["max_steps"] == 5
    assert "memory" in bundled("hallway")["behaviors"]["Hallway"]["network_settings"]


def test_the_page_says_what_was_not_measured_and_prints_all_seeds() -> None:
    document = {
        "when": ["2026-01-01"],
        "machine": {"cores": "2"},
        "runs": [each.to_json() for each in runs(OURS, (1500, 0.93), (None, 0.9), (1000, None))],
        "not_measured": ["basic, mlagents-learn: there is\nnone"],
    }
    told = page(document)
    assert "| ours | 1,000 | 1,500 · - · 1,000 | 1,500 | 0.930 · 0.900 · - | 0.900 | 2 |" in told
    assert "| basic | every seed of ours reaches the threshold | 2 of 3 (3 of 5 seeds) | missed so far |" in told
    assert "- basic, mlagents-learn: there is none" in told
    assert "| mlagents-learn | not measured |" in told
    assert "| not measured |" in told


def test_the_whole_table_has_its_time_and_is_judged_once_all_of_it_was_measured() -> None:
    def judged_time(runs: Sequence[Run]) -> tuple[str, str]:
        told = page({"when": [], "machine": {}, "runs": [each.to_json() for each in runs], "not_measured": []})
        (line,) = (each for each in told.splitlines() if each.startswith("| all |"))
        found, what = line.split(" | ")[2:4]
        return found, what.removesuffix(" |")

    one = Run(row="basic", side=OURS, seed=1, reached=1, final=1.0, steps=1, wall_s=36.0)
    whole = [
        replace(one, row=row.name, side=side.name, seed=seed)
        for row in rows()
        for side in row.sides
        for seed in range(1, 6)
    ]
    assert judged_time([one]) == (f"0.0 h for 1 of {len(whole)}", "not measured")
    assert judged_time(whole) == (f"{36 * len(whole) / 7200:.1f} h for {len(whole)} of {len(whole)}", "met")
    assert judged_time([replace(one, wall_s=6.1 * 3600)])[1] == "missed"


def test_a_row_whose_expert_is_copied_asks_for_nine_tenths_of_the_scenes_best() -> None:
    clones = {row.scene: row.threshold for row in rows() if row.name.startswith("cloning")}
    assert clones == {"balance": 45.0, "teacher": 0.9}


def test_what_is_measured_again_takes_the_place_of_what_was_and_the_rest_stays(tmp_path: Path) -> None:
    out = tmp_path / "learning.json"
    first, *others = runs(OURS, (1, 0.9), (2, 0.9))
    opened = table.Table(out, {}, ["then"])
    for each in (first, *others):
        opened.keep(each)
    side = Side(name=PEER, document=bundled("basic"), trainer="peer")
    opened.give_up(rows()[0], side, str(NotMeasuredError("no such trainer")))
    written = json.loads(out.read_text())
    assert written["not_measured"] == ["basic, mlagents-learn: no such trainer"]

    again = table._opened(out, keeps=True)
    (changed,) = runs(OURS, (7, 0.8))
    again.keep(changed)
    written = json.loads(out.read_text())
    assert [each["reached"] for each in written["runs"]] == [7, 2]
    assert written["not_measured"] == []
    assert written["when"][0] == "then"
    table._opened(out, keeps=False).write()
    assert json.loads(out.read_text())["runs"] == []


def test_work_goes_seed_by_seed_so_that_all_rows_have_something_early() -> None:
    planned = [(row.name, side.name, seed) for row, side, seed in table.work(["basic", "walljump"], range(1, 3))]
    assert planned == [
        (name, side, seed)
        for seed in (1, 2)
        for name, side in (("basic", OURS), ("basic", PEER), ("walljump", "curriculum"), ("walljump", "no curriculum"))
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "basics"], "no row 'basics'; there are basic, balance"),
        (["--sides", "nonsense"], "no side 'nonsense'; there are ours, mlagents-learn"),
        (["--only", "walljump", "--sides", OURS], "no side 'ours'; there are curriculum, no curriculum"),
        (["--seeds", "5-1"], "'5-1' is no seed and no range of seeds; expected such as 3 or 1-5"),
        (["--seeds", "0"], "'0' is no seed"),
        (["--seeds", "1-"], "'1-' is no seed"),
        (["--seeds", "one"], "'one' is no seed"),
        (["--jobs", "0"], "'0' runs at a time; expected 1 or more"),
    ],
)
def test_what_there_is_not_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], told: str
) -> None:
    out = tmp_path / "x.json"
    with pytest.raises(SystemExit) as left:
        table.main(["--json", str(out), *arguments])
    assert left.value.code == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


PARTS: Sequence[Sequence[str]] = (["--only", "basic"], ["--seeds", "1"], ["--sides", OURS])


@pytest.mark.parametrize(("arguments", "kept"), [*((part, True) for part in PARTS), ([], False)])
def test_a_part_keeps_what_was_measured_before_and_the_whole_replaces_it(
    tmp_path: Path, arguments: Sequence[str], *, kept: bool
) -> None:
    def measured(row: Row, side: Side, seed: int) -> Run:
        return Run(row=row.name, side=side.name, seed=seed, reached=7, final=0.8, steps=1, wall_s=1.0)

    out = tmp_path / "learning.json"
    before = table.Table(out, {}, ["then"])
    (old,) = runs(OURS, (1, 0.9), row="of before")
    for each in (old, *runs(OURS, (1, 0.9))):
        before.keep(each)
    assert table.main(["--json", str(out), *arguments], measured=measured) == 0
    written = json.loads(out.read_text())
    found = {(each["row"], each["side"], each["seed"]): each["reached"] for each in written["runs"]}
    assert found["basic", OURS, 1] == 7
    assert (("of before", OURS, 1) in found) is kept
    assert (written["when"][0] == "then") is kept


@pytest.mark.parametrize(("names", "seeds", "whole"), [(None, 5, True), (None, 4, False), (["basic"], 5, False)])
def test_only_every_side_of_every_row_with_all_seeds_is_the_whole_table(
    names: Sequence[str] | None, seeds: int, *, whole: bool
) -> None:
    planned = list(table.work(names or [each.name for each in rows()], range(1, seeds + 1)))
    assert table.is_whole(planned) is whole
    assert not table.is_whole([each for each in planned if each[1].name != PEER])


def test_the_table_needs_no_package_that_only_tests_need() -> None:
    code = (
        "import sys, runpy; sys.modules.update(dict.fromkeys(('pytest', 'hypothesis', 'h2'))); "
        "sys.argv = ['table', '--help']; runpy.run_module('tests.learning.table', run_name='__main__')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--seeds" in ran.stdout
