"""The simulator finds faults that are built into the machines on purpose, and says what is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import runtime
import runtime.decisions.collecting
from runtime.simulate import main
from runtime.simulation.lines import Line
from runtime.simulation.scenarios import profile_of
from runtime.simulation.shrinking import shrink
from tests.mutants.__main__ import BEGIN, END, PAGE
from tests.mutants.catalogue import MUTANTS
from tests.mutants.killing import SCHEDULES_MAX, kill
from tests.mutants.loading import patched, simulator_of
from tests.mutants.mutant import Patch

ROOT = Path(__file__).parents[2]
# One for each invariant, each found within a few schedules.
SAMPLE = {
    "save_forgets_incarnations": "ID",
    "rounds_are_accepted_twice": "ONCE",
    "acknowledged_before_arrival": "LEDGER",
    "loss_cuts_nothing": "PAIR",
    "grant_overtakes_its_policy": "VER",
    "stale_policies_are_fine": "STALE",
    "windows_grow": "BOUND",
    "never_done": "LIVE",
    "answers_of_anybody": "CORR",
    "all_pay_for_one": "ISOLATE",
    "one_restart_more": "RESTART",
    "old_player_left": "OWNER",
    "two_saves_at_once": "CKPT",
    "resume_restarts_again": "RESUME",
    "stop_unheard": "EXIT",
    "lesson_not_told": "LESSON",
}


def test_every_patch_meets_its_place_once_and_changes_it() -> None:
    for each in MUTANTS.values():
        for patch in each.patches:
            path = ROOT / "runtime" / "decisions" / f"{patch.module}.py"
            source = path.read_text(encoding="utf-8")
            compile(patched(source, [patch]), path.name, "exec")
            assert patch.old != patch.new


def test_a_patch_without_its_place_is_refused() -> None:
    with pytest.raises(ValueError, match="'wrong' occurs 0 times, expected once"):
        patched("right", [Patch("ledger", "wrong", "right")])


@pytest.mark.parametrize(("name", "invariant"), SAMPLE.items(), ids=SAMPLE)
def test_a_built_in_fault_is_found_and_told_by_the_invariant_that_it_breaks(name: str, invariant: str) -> None:
    found = kill(simulator_of(name), 0, 300)
    assert found.schedules is not None, "it lives"
    assert found.invariant == invariant


def test_loading_a_mutant_leaves_the_machines_as_they_are() -> None:
    before = {name: module for name, module in sys.modules.items() if name.startswith("runtime.")}
    simulator_of("windows_grow")
    after = {name: module for name, module in sys.modules.items() if name.startswith("runtime.")}
    assert before == after
    assert runtime.decisions is sys.modules["runtime.decisions"]


def test_a_failure_is_reduced_to_a_few_choices_and_its_line_repeats_it() -> None:
    simulate = simulator_of("loss_cuts_nothing")
    found = kill(simulate, 0, 300)
    shrunk = shrink(Line(profile=profile_of(found.seed), seed=found.seed), simulate)
    assert len(shrunk.outcome.deviated) <= 5
    assert shrunk.outcome.failure is not None
    assert shrunk.outcome.failure.invariant == "PAIR"
    again = simulate(shrunk.line.scenario(), shrunk.line.skips)
    assert (again.digest, str(again.failure)) == (shrunk.outcome.digest, str(shrunk.outcome.failure))


def test_the_command_finds_shrinks_and_replays_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mutant", "windows_grow", "--until-failure", "--count", "40"]) == 1
    found = capsys.readouterr().out
    line = found.rpartition("--shrink ")[2].split()[0]
    assert main(["--mutant", "windows_grow", "--shrink", line]) == 1
    shrunk = capsys.readouterr().out
    assert "BOUND: " in shrunk
    line = shrunk.rpartition("--replay ")[2].split()[0]
    assert main(["--mutant", "windows_grow", "--replay", line]) == 1
    assert "BOUND: " in capsys.readouterr().out
    assert main(["--replay", line]) == 0


def test_the_command_lists_all_mutants_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-mutants"]) == 0
    assert [each.split()[0] for each in capsys.readouterr().out.splitlines()] == list(MUTANTS)
    assert main(["--mutant", "unheard_of"]) == 2
    assert f"there is no mutant 'unheard_of'; --list-mutants shows all {len(MUTANTS)}" in capsys.readouterr().err


def test_the_documented_table_has_every_mutant() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    names = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert names == list(MUTANTS), "run: tox -e mutants"
    assert f"more than {SCHEDULES_MAX:,}" not in table, "a mutant lives"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_found_within_ten_thousand_schedules(name: str) -> None:
    assert kill(simulator_of(name), 0).schedules is not None
