"""Thousands of schedules under any interleaving, fault and crash: every invariant holds, and what can happen does."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from runtime.decisions.effects import PlayerClosed, PlayerConnected, PlayerReplied
from runtime.decisions.env_worker_state import TRANSITIONS, Phase
from runtime.decisions.restarts import RestartLimits
from runtime.messages import EnvGrant, ResetRequest
from runtime.simulation.campaign import Campaign, Tally, run_seeds
from runtime.simulation.engine import Cells
from runtime.simulation.lines import parse_line
from runtime.simulation.running import Outcome, simulate
from runtime.simulation.scenarios import PROFILES, FaultKind, Scenario, draw


def told(tally: Tally) -> str:
    """What failed, and how to look into it."""
    return "\n".join(f"{text}: python -m runtime.simulate --shrink {line}" for line, text in tally.failures)


def test_every_invariant_holds_under_every_schedule(seeds: range) -> None:
    tally = run_seeds(Campaign(), seeds)
    assert tally.schedules == len(seeds)
    assert not tally.failures, told(tally)


def test_every_invariant_holds_under_seeds_of_today() -> None:
    first = secrets.randbelow(1 << 40)
    tally = run_seeds(Campaign(), range(first, first + 40))
    assert not tally.failures, told(tally)


@pytest.mark.parametrize(
    "line",
    [
        # An EnvWorker is killed just before a planned restart of all players, and its last block comes after both.
        "v1:troubled:377847673876",
        "v1:troubled:377847673876:strategy=calm:columns=0:brains=1:only=2-3,28,32,36,88,92,135,138,141,154-155",
    ],
)
def test_rare_schedules_that_failed_once_hold(line: str) -> None:
    parsed = parse_line(line)
    assert simulate(parsed.scenario(), parsed.skips).failure is None


def test_every_kind_of_fault_and_every_end_of_a_run_occurs() -> None:
    faults: Counter[str] = Counter()
    ends: set[str] = set()
    lost: Counter[str] = Counter()
    runs: Counter[int] = Counter()
    for seed in range(320):
        outcome = simulate(draw(seed))
        faults.update(outcome.faults)
        runs[len(outcome.worlds)] += 1
        for world in outcome.worlds:
            ends.add(world.supervisor.status.exit_reason)
            if world.controller is not None:
                lost.update(world.controller.core.state.counters.lost)
    assert set(faults) == set(get_args(FaultKind))
    assert ends == {
        "",  # the launcher was killed
        "max_steps",
        "interrupted",
        "stop_at",
        "environment_failure",
        "trainer_failure",
        "storage_failure",
    }
    assert set(lost) == {"stale", "gap"}
    assert runs[2] >= 10, "hardly any run goes on from a save"


# These need a second reset of an incarnation, or one that crosses the end within microseconds; the table itself is
# enumerated in tests/unit/decisions/test_transitions.py.
NOT_ASKED_FOR = {(Phase.RESETTING, EnvGrant), (Phase.CLOSING, ResetRequest), (Phase.CLOSED, ResetRequest)}
# A shell forgets an exchange when its player is closed, so these rows are for shells that cannot.
NEVER_HANDED_OVER = {
    (Phase.CLOSING, PlayerConnected),
    (Phase.CLOSING, PlayerReplied),
    (Phase.CLOSED, PlayerReplied),
    (Phase.CLOSED, PlayerClosed),
}


def test_every_transition_of_the_table_of_environments_happens() -> None:
    cells: Cells = set()
    wanted = set(TRANSITIONS) - NEVER_HANDED_OVER - NOT_ASKED_FOR
    more: tuple[tuple[FaultKind, float], ...]
    for seed in range(600):
        more = (("duplicate", 0.15),) if seed % 3 else (("player", 0.05), ("hang", 0.05), ("clog", 0.05))
        scenario = draw(seed, "stopped")
        scenario = replace(scenario, rates=(*scenario.rates, *more), faults_max=60)
        assert simulate(scenario, cells=cells).failure is None, f"seed {seed}"
        if cells >= wanted:
            break
    missing = sorted((phase.name, kind.__name__) for phase, kind in wanted - cells)
    assert not missing, "no schedule shows them"
    assert not cells & NEVER_HANDED_OVER


def of_one_environment(seed: int, **changes: object) -> Scenario:
    """A scenario in which one kind of fault hits again and again."""
    scenario = Scenario(profile="limited", seed=seed, max_steps=500, safety_events=5000, faults_max=30)
    return replace(scenario, **changes)  # type: ignore[arg-type] # the tests below name its fields


def ended(outcome: Outcome) -> tuple[str, int, str]:
    """Reason, code and cause of the only run."""
    assert outcome.failure is None, outcome.failure
    (world,) = outcome.worlds
    status = world.supervisor.status
    return status.exit_reason, status.exit_code, status.cause


def test_a_spent_budget_ends_the_run_with_all_causes_after_a_save() -> None:
    limits = RestartLimits(lifetime_max=3, rate_max=-1)
    outcome = simulate(of_one_environment(5, limits=limits, rates=(("player", 0.02),)))
    reason, code, cause = ended(outcome)
    assert (reason, code) == ("environment_failure", 3)
    assert "all 3 restarts are spent (--max-lifetime-restarts)" in cause
    assert cause.count("s ago: the player has died") == 3
    assert outcome.worlds[0].disk.acknowledged >= 0


def test_a_lost_controller_ends_the_run_and_says_that_the_last_save_stands() -> None:
    outcome = simulate(of_one_environment(3, rates=(("controller", 0.01),)))
    reason, code, cause = ended(outcome)
    assert (reason, code) == ("trainer_failure", 4)
    assert "the last save, if there is one, stands" in cause


def test_a_lost_supervisor_leaves_nobody_and_a_save_that_a_run_goes_on_from() -> None:
    went_on = 0
    for seed in range(30):
        base = replace(draw(seed, "resumed"), rates=(("supervisor", 0.01),), disk="good", stop_at=0, stop_event=0)
        outcome = simulate(replace(base, safety_events=400, checkpoint_interval=2))
        assert outcome.failure is None, f"seed {seed}: {outcome.failure}"
        first = outcome.worlds[0]
        if not first.is_supervisor_gone:
            continue
        assert not any(place.is_alive for place in first.places)
        assert not any(seat.player.is_alive for seat in first.seats)
        if len(outcome.worlds) == 2:
            went_on += 1
            assert outcome.worlds[1].supervisor.status.exit_code == 0
    assert went_on >= 5, "hardly any run was saved before its Supervisor died"


def test_every_state_of_the_disk_is_met_and_damage_is_passed_over() -> None:
    failed: Counter[str] = Counter()
    damaged = unacknowledged = 0
    for seed in range(3, 6400, 8):
        outcome = simulate(draw(seed))
        assert outcome.failure is None, f"seed {seed}: {outcome.failure}"
        disk = outcome.worlds[-1].disk
        failed[disk.kind] += disk.spells
        damaged += disk.damaged
        saved = outcome.worlds[-1].resumed
        unacknowledged += saved is not None and disk.kind == "failing"
    assert failed["full"] >= 3
    assert failed["failing"] >= 3
    assert not failed["good"] + failed["slow"]
    assert damaged >= 3, "hardly any save was torn by a crash"
    assert unacknowledged, "no run went on from a disk that fails"


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["worker", "holder", "controller", "supervisor"])
def test_a_part_may_crash_between_any_two_of_its_effects(kind: str, *, is_sync: bool) -> None:
    base = replace(draw(2, "quiet"), is_sync=is_sync, worker_envs=(2, 1), rates=(), resumes=True, checkpoint_interval=3)
    for effect in range(1000):
        outcome = simulate(replace(base, crash_kind=kind, crash_effect=effect))
        assert outcome.failure is None, f"after effect {effect}: {outcome.failure}"
        if not outcome.worlds[0].died:
            break
    assert 5 < effect < 999, "the run ended before it crashed, or it never ended"


def test_profiles_are_drawn_in_turn() -> None:
    assert {draw(seed).profile for seed in range(8)} == set(PROFILES)
