"""Simulate one seed: a run, and the run that goes on from its save where the scenario says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runtime.simulation.describing import describe_entry
from runtime.simulation.disk import SimDisk
from runtime.simulation.draws import NO_SKIPS, Draws, Skips
from runtime.simulation.endings import check_end
from runtime.simulation.engine import Cells
from runtime.simulation.errors import InvariantError
from runtime.simulation.learner import SimLearner
from runtime.simulation.resuming import check_resumed
from runtime.simulation.scenarios import ENDED_BY, Scenario
from runtime.simulation.scheduler import TraceEntry
from runtime.simulation.world import World


@dataclass(slots=True)
class Outcome:
    """What came of one seed. failure: None when every invariant held. worlds: one per run.

    deviated: choices that had not the ordinary outcome; choices: how many there were.
    """

    scenario: Scenario
    failure: InvariantError | None
    events: int
    choices: int
    deviated: list[int]
    trace: list[TraceEntry]
    worlds: list[World] = field(default_factory=list)

    def forget(self) -> None:
        """Take the worlds apart: for whoever makes thousands of outcomes, and has seen what there is to see."""
        for each in self.worlds:
            each.forget()

    @property
    def digest(self) -> str:
        """A hash of all that happened: equal for equal seeds, in every process."""
        lines = (f"{entry[0]:.4f} {entry[1]} {entry[2]} {describe_entry(entry)}" for entry in self.trace)
        text = "\n".join(lines)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def faults(self) -> Mapping[str, int]:
        """Faults that happened, by kind."""
        counts: dict[str, int] = {}
        for world in self.worlds:
            for kind, count in world.faults.counts.items():
                counts[kind] = counts.get(kind, 0) + count
        return counts


def simulate(scenario: Scenario, skips: Skips = NO_SKIPS, cells: Cells | None = None) -> Outcome:
    """The outcome of a scenario; what is wrong is in it, not raised.

    cells: collects which rows of the EnvWorker's table of environments were used.
    """
    draws = Draws(scenario.seed, skips)
    worlds: list[World] = []
    failure: InvariantError | None = None
    try:
        _run_all(scenario, draws, worlds, cells)
    except InvariantError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - whatever a machine raises is a finding, like a broken invariant
        failure = InvariantError(f"RAISED {type(error).__name__}", f"{error}")
        failure.__cause__ = error
    return Outcome(
        scenario=scenario,
        failure=failure,
        events=sum(each.scheduler.events for each in worlds),
        choices=draws.count,
        deviated=draws.deviated,
        trace=[entry for each in worlds for entry in each.trace],
        worlds=worlds,
    )


def _run_all(scenario: Scenario, draws: Draws, worlds: list[World], cells: Cells | None) -> None:
    learner, disk = SimLearner(scenario.buffer_size, scenario.max_steps), SimDisk(scenario.disk)
    world = World(scenario, draws, learner, disk)
    worlds.append(world)
    world.cells = cells
    world.run()
    if not world.is_launcher_gone:
        check_end(world)
    # Whatever process still writes dies with the run.
    disk.crash(draws)
    if not scenario.resumes:
        return
    saved = disk.newest()
    if saved is None:
        return
    learner = SimLearner(scenario.buffer_size, scenario.max_steps)
    learner.restore(saved.learner)
    if all(each.steps >= each.max_steps for each in learner.behaviors.values()):
        return
    following = World(undisturbed(scenario), draws, learner, disk, resumed=saved)
    worlds.append(following)
    following.cells = cells
    following.run()
    check_end(following)
    check_resumed(following)


def undisturbed(scenario: Scenario) -> Scenario:
    """The scenario of a run that goes on: it is not ended by force a second time."""
    rates = tuple((kind, rate) for kind, rate in scenario.rates if kind not in ENDED_BY)
    return replace(scenario, rates=rates, stop_at=0, stop_event=0, safety_events=min(scenario.safety_events, 120))
