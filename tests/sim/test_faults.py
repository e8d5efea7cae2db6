"""Whole runs under any interleaving, duplication and crash: they complete, and their ledger agrees with the players."""

from __future__ import annotations

import random
import secrets
from dataclasses import replace

import pytest

from runtime.decisions.restarts import RestartLimits
from tests.sim.checks import check_completed, simulate
from tests.sim.scenarios import Fault, quiet, troubled
from tests.sim.world import SimRun

modes = pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
HERE = "test_faults.py"


@modes
def test_counts_agree_exactly_while_nothing_dies_whatever_comes_late_or_twice(seeds: range, *, is_sync: bool) -> None:
    for seed in seeds:
        check_completed(simulate(quiet(seed, is_sync=is_sync), HERE))


@modes
def test_a_run_completes_and_bounds_what_was_lost_whatever_dies(seeds: range, *, is_sync: bool) -> None:
    for seed in seeds:
        check_completed(simulate(troubled(seed, is_sync=is_sync), HERE))


@modes
def test_an_interrupted_run_saves_what_it_has_and_keeps_its_ledger(seeds: range, *, is_sync: bool) -> None:
    for seed in seeds[::3]:
        scenario = troubled(seed, is_sync=is_sync)
        scenario = replace(scenario, stop_at_event=random.Random(f"stop {seed}").randint(1, 800))
        run = simulate(scenario, HERE)
        status = run.supervisor.status
        assert (status.exit_reason, status.exit_code) in {("interrupted", 130), ("max_steps", 0)}
        has_saved = run.controller is not None and bool(run.controller.saves)
        assert has_saved or not run.has_begun or not run.learner.weights, f"--sim-seed={seed}: ended unsaved"


def test_a_spent_budget_ends_the_run_with_all_causes_after_a_save() -> None:
    faults = tuple(Fault(at, "player") for at in range(100, 1000, 60))
    limits = RestartLimits(lifetime_max=3, rate_max=-1)
    scenario = replace(troubled(5, is_sync=True), worker_envs=(1,), faults=faults, limits=limits)
    run = simulate(replace(scenario, sizes=replace(scenario.sizes, max_steps=5000)), HERE)
    status = run.supervisor.status
    assert (status.exit_reason, status.exit_code) == ("environment_failure", 3)
    assert "all 3 restarts are spent (--max-lifetime-restarts)" in status.cause
    assert status.cause.count("s ago: the player has died") == 3
    assert run.controller is not None
    assert run.controller.saves


def test_a_lost_controller_ends_the_run_and_says_that_the_last_save_stands() -> None:
    scenario = replace(quiet(3, is_sync=True), faults=(Fault(60, "controller"),))
    status = SimRun(scenario).run().supervisor.status
    assert (status.exit_reason, status.exit_code) == ("trainer_failure", 4)
    assert "the last save stands" in status.cause


@modes
def test_a_run_completes_under_a_seed_of_today(*, is_sync: bool) -> None:
    check_completed(simulate(troubled(secrets.randbelow(1 << 31), is_sync=is_sync), HERE))
