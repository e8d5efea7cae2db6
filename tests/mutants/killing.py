"""How many schedules it takes to find a mutant out."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.simulation.mutations import Simulate
from runtime.simulation.scenarios import draw

SCHEDULES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Kill:
    """schedules: how many it took, None when they were not enough. invariant: which one was broken."""

    schedules: int | None
    invariant: str = ""
    seed: int = -1


def kill(simulate: Simulate, first: int, schedules_max: int = SCHEDULES_MAX) -> Kill:
    """The first schedule from seed `first` on that breaks an invariant."""
    for count in range(schedules_max):
        outcome = simulate(draw(first + count))
        if outcome.failure is not None:
            return Kill(count + 1, outcome.failure.invariant, first + count)
    return Kill(None)
