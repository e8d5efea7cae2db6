"""How many schedules it takes to find a mutant out."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.simulation.campaign import CHUNK
from runtime.simulation.garbage import collected_after
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
    end = first + schedules_max
    for start in range(first, end, CHUNK):
        with collected_after():
            for seed in range(start, min(start + CHUNK, end)):
                outcome = simulate(draw(seed))
                outcome.forget()
                if outcome.failure is not None:
                    return Kill(seed - first + 1, outcome.failure.invariant, seed)
    return Kill(None)
