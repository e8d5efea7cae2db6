"""Plans of faults drawn from a seed, for tests that have no Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fakeunity.errors import SpecError
from fakeunity.faults.plan import NUMBERED, FaultPlan, parse_fault
from fakeunity.faults.verbs import VERBS
from fakeunity.nearest import unknown_word


def drawn_plan(
    seed: int, verbs: Sequence[str] = (), *, phases: Sequence[str] = (), faults_max: int = 1, numbers_max: int = 20
) -> FaultPlan:
    """A plan of one to `faults_max` faults, the same for the same seed.

    verbs, phases: to choose from, all by default; parameters are those that count where none are given. numbers_max:
    of the resets, steps and exchanges at which they happen. Raises SpecError for an unknown verb, and where none of
    the verbs can happen at any of the phases.
    """
    unknown = next((verb for verb in verbs if verb not in VERBS), None)
    if unknown is not None:
        raise SpecError(unknown_word("fault", unknown, VERBS))
    places = [
        (verb, phase)
        for verb in verbs or sorted(VERBS)
        for phase in VERBS[verb].phases
        if not phases or phase in phases
    ]
    if not places:
        raise SpecError(f"none of {', '.join(verbs) or 'the faults'} can happen at {', '.join(phases)}")
    rng = random.Random(seed)
    drawn = []
    for _ in range(rng.randint(1, faults_max)):
        verb, phase = rng.choice(places)
        drawn.append(parse_fault(f"{verb}@{phase}" + f"={rng.randint(1, numbers_max)}" * (phase in NUMBERED)))
    return FaultPlan(tuple(drawn))
