"""How fast an environment steps before and after a kill, from samples of what its player has counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 1.0
FULL_SHARE: Final = 0.95
BACK_S_MAX: Final = 5.0
OTHERS_SHARE_MIN: Final = 0.95


@dataclass(slots=True)
class Trace:
    """Env steps of one environment, all lives of its player together, as they were counted over time (seconds)."""

    at_s: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def add(self, at_s: float, steps: int) -> None:
        """One more sample, later than all before."""
        self.at_s.append(at_s)
        self.steps.append(float(steps))

    def steps_at(self, at_s: float) -> float:
        """How many steps there were then: between two samples on a straight line, beyond them the nearest."""
        place = bisect_left(self.at_s, at_s)
        if place == 0:
            return self.steps[0]
        if place == len(self.at_s):
            return self.steps[-1]
        early, late = self.at_s[place - 1], self.at_s[place]
        part = (at_s - early) / (late - early)
        return self.steps[place - 1] + part * (self.steps[place] - self.steps[place - 1])

    def rate(self, from_s: float, to_s: float) -> float:
        """Steps per second between two instants."""
        return (self.steps_at(to_s) - self.steps_at(from_s)) / (to_s - from_s)

    def full_from(
        self, from_s: float, usual: float, share_of_usual: Callable[[float], float], *, needs_s: float = WINDOW_S
    ) -> float | None:
        """From when on a whole window has the usual rate again, not before `from_s`; None if that was not seen.

        share_of_usual: how much of their own usual rate its peers have in the window that begins then; a machine that
        is slower for everybody is nothing that this environment has to recover from. needs_s: how long after the
        beginning of a window there must be samples, for `share_of_usual` to look at.
        """
        for at_s in [from_s, *(each for each in self.at_s if each > from_s)]:
            if at_s + needs_s > self.at_s[-1]:
                return None
            if self.rate(at_s, at_s + WINDOW_S) >= FULL_SHARE * usual * min(1.0, share_of_usual(at_s)):
                return at_s
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What one kill cost.

    back_s: until all its environments step at the usual rate. start_s: what of it a new player took from its birth to
    its first exchange. others: the rate of the other environments meanwhile (of all, where none is lost), in shares of
    their usual one.
    """

    victim: str
    noticed_s: float
    back_s: float
    start_s: float
    others: float


def missed_goals(victim: str, *, back_s_p95: float, start_s: float, others: float | None) -> tuple[str, ...]:
    """Which goals the figures of a kind of victim miss: full rate in 5 s plus a player's start, others at 95 %."""
    limit_s = BACK_S_MAX + start_s
    faults = []
    if back_s_p95 > limit_s:
        faults.append(f"{victim}: back at the full rate after {back_s_p95:.2f} s (p95), more than {limit_s:.2f} s")
    if others is not None and others < OTHERS_SHARE_MIN:
        faults.append(f"{victim}: the others kept {others:.1%} of their rate, less than {OTHERS_SHARE_MIN:.0%}")
    return tuple(faults)
