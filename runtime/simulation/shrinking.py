"""Reduce a failure: fewer agents, workers and brains first, then as few deviating choices as still break the invariant.

Delta debugging over the choices (Zeller and Hildebrandt, 2002): halves, quarters and so on of the choices that deviate
are taken back; what still fails in the same way is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.errors import UsageError
from runtime.simulation.draws import Skips
from runtime.simulation.lines import Line
from runtime.simulation.running import Outcome
from runtime.simulation.scenarios import Scenario

RUNS_MAX = 2_000
SIMPLER: tuple[tuple[str, str], ...] = (
    ("strategy", "calm"),
    ("instant", "1"),
    ("columns", "0"),
    ("lessons", "0"),
    ("brains", "1"),
    ("workers", "1"),
    ("workers", "1.1"),
    ("workers", "2"),
    ("agents", "1"),
)

Simulate = Callable[[Scenario, Skips], Outcome]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest failure that was found. runs: simulations that it took."""

    line: Line
    outcome: Outcome
    runs: int


class Shrinker:
    """Holds the smallest failure so far; what is tried must break the same invariant."""

    def __init__(self, line: Line, simulate: Simulate) -> None:
        self._simulate = simulate
        self.line = line
        self.outcome = simulate(line.scenario(), line.skips)
        self.runs = 1
        if self.outcome.failure is None:
            raise UsageError(f"{line} does not fail, so there is nothing to shrink")
        self._invariant = self.outcome.failure.invariant

    def try_line(self, line: Line) -> bool:
        """Keep a line if it fails in the same way."""
        if self.runs >= RUNS_MAX:
            return False
        self.runs += 1
        outcome = self._simulate(line.scenario(), line.skips)
        if outcome.failure is None or outcome.failure.invariant != self._invariant:
            return False
        self.line, self.outcome = line, outcome
        return True

    def simplify(self) -> None:
        """Smaller scenarios, one option after another; what choices mean shifts with them, so this is luck."""
        for key, value in SIMPLER:
            if key not in self.line.options:
                self.try_line(replace(self.line, options={**self.line.options, key: value}))

    def take_back_choices(self) -> None:
        """As few deviating choices as possible."""
        parts = 2
        while True:
            deviated = self.outcome.deviated
            if not deviated or self.runs >= RUNS_MAX:
                return
            size = max(1, -(-len(deviated) // parts))
            chunks = [deviated[start : start + size] for start in range(0, len(deviated), size)]
            if any(self._without(chunk) for chunk in chunks):
                parts = max(2, parts - 1)
            elif size == 1:
                return
            else:
                parts = min(len(deviated), parts * 2)

    def _without(self, choices: list[int]) -> bool:
        skips = Skips(frozenset(self.outcome.deviated) - frozenset(choices), is_inverted=True)
        return self.try_line(replace(self.line, skips=skips))


def shrink(line: Line, simulate: Simulate) -> Shrunk:
    """The smallest failure found from `line`. Raises UsageError when it does not fail at all."""
    shrinker = Shrinker(line, simulate)
    shrinker.simplify()
    shrinker.take_back_choices()
    shrinker.simplify()
    shrinker.take_back_choices()
    return Shrunk(shrinker.line, shrinker.outcome, shrinker.runs)
