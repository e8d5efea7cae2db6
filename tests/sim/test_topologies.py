"""In synchronous collection the learner sees the same steps in the same order, whoever hosts the environments."""

from __future__ import annotations

from dataclasses import replace

from runtime.simulation.running import Outcome, simulate
from runtime.simulation.scenarios import Scenario, draw

TOPOLOGIES = ((4,), (1, 1, 1, 1), (2, 2))


def schedules_of(seed: int) -> list[Scenario]:
    """One run in three topologies, each under a schedule of its own, in which nothing is lost."""
    base = replace(
        draw(seed, "quiet"), is_sync=True, rates=(("clog", 0.02),), step_timeout_s=60.0, strategy="walk", deviation=1.0
    )
    return [replace(base, seed=1000 * seed + index, worker_envs=each) for index, each in enumerate(TOPOLOGIES)]


def completed(scenario: Scenario) -> Outcome:
    """The outcome of a run that took all its steps."""
    outcome = simulate(scenario)
    assert outcome.failure is None, f"seed {scenario.seed}: {outcome.failure}"
    assert outcome.worlds[0].supervisor.status.exit_reason == "max_steps"
    return outcome


def seen_by_learner(outcome: Outcome) -> object:
    """Each update's blocks with their content in order, the first rows of each environment, and the weights."""
    learner = outcome.worlds[0].learner
    return learner.batches, sorted(learner.resets.items()), learner.weights


def test_updates_are_made_from_the_same_steps_in_any_topology_under_any_schedule() -> None:
    for seed in range(60):
        first, *others = [seen_by_learner(completed(each)) for each in schedules_of(seed)]
        assert all(other == first for other in others), f"seed {seed}: topologies differ"


def test_runs_of_other_scenes_differ() -> None:
    weights = [completed(schedules_of(seed)[0]).worlds[0].learner.weights for seed in range(3)]
    assert weights[0] != weights[1] != weights[2]


def test_delivering_messages_twice_changes_nothing_that_is_learned() -> None:
    for seed in range(40):
        once = schedules_of(seed)[0]
        twice = replace(once, rates=(("duplicate", 0.2),), faults_max=1000)
        assert seen_by_learner(completed(once)) == seen_by_learner(completed(twice)), f"seed {seed}"


def test_columns_of_the_runtime_say_what_quick_rows_say() -> None:
    for seed in range(0, 160, 8):
        quick = replace(draw(seed), has_columns=False)
        assert simulate(quick).digest == simulate(replace(quick, has_columns=True)).digest
