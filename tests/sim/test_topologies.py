"""In synchronous collection the learner sees the same steps in the same order, whoever hosts the environments."""

from __future__ import annotations

from dataclasses import replace

from tests.sim.checks import check_completed, simulate
from tests.sim.scenarios import Scenario, quiet
from tests.sim.world import SimRun

HERE = "test_topologies.py"
TOPOLOGIES = ((4,), (1, 1, 1, 1), (2, 2))


def schedules_of(seed: int) -> list[Scenario]:
    """One run in three topologies, each under a schedule of its own."""
    base = replace(quiet(seed, is_sync=True), duplicates=0.0)
    return [
        replace(base, schedule_seed=1000 * seed + index, worker_envs=each, jump_share=0.02 * (index % 2))
        for index, each in enumerate(TOPOLOGIES)
    ]


def seen_by_learner(run: SimRun) -> object:
    """Each update's blocks with their content in order, the first rows of each environment, and the weights."""
    return run.learner.batches, sorted(run.learner.resets.items()), run.learner.weights


def test_updates_are_made_from_the_same_steps_in_any_topology_under_any_schedule(seeds: range) -> None:
    for seed in seeds[::3]:
        runs = [simulate(each, HERE) for each in schedules_of(seed)]
        for run in runs:
            check_completed(run)
        first = seen_by_learner(runs[0])
        assert all(seen_by_learner(run) == first for run in runs), f"--sim-seed={seed}: topologies differ"


def test_runs_of_other_scenes_differ() -> None:
    weights = [simulate(schedules_of(seed)[0], HERE).learner.weights for seed in range(3)]
    assert weights[0] != weights[1] != weights[2]


def test_delivering_messages_twice_changes_nothing_that_is_learned(seeds: range) -> None:
    for seed in seeds[::5]:
        once = simulate(replace(quiet(seed, is_sync=True), duplicates=0.0), HERE)
        twice = simulate(replace(quiet(seed, is_sync=True), duplicates=0.4), HERE)
        assert seen_by_learner(once) == seen_by_learner(twice), f"--sim-seed={seed}"
