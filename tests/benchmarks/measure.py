"""What a benchmark is made of, and the loop that takes turns between its sides.

Machines are shared and noisy: no side is measured alone. In each round every side of a case runs once, in an order that
turns round by round, and a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Figures = Mapping[str, float]
"""What one measurement gave: unit or name of the figure -> value."""


class NotMeasuredError(Exception):
    """A measurement could not be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things that are compared. measure: takes a fresh folder."""

    name: str
    measure: Callable[[Path], Figures]


@dataclass(frozen=True, slots=True)
class Case:
    """Sides that are measured in turns, under conditions that are the same for all."""

    section: str
    name: str
    sides: tuple[Side, ...]


@dataclass(slots=True)
class Results:
    """values: (section, case, side, figure) -> one value per round. troubles: what could not be measured, and why."""

    values: dict[tuple[str, str, str, str], list[float]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def add(self, case: Case, side: Side, figures: Figures) -> None:
        """Notes what a side gave in one round."""
        for name, value in figures.items():
            self.values.setdefault((case.section, case.name, side.name, name), []).append(value)

    def median(self, section: str, case: str, side: str, figure: str) -> float | None:
        """The median over the rounds; None when it was not measured."""
        values = self.values.get((section, case, side, figure))
        return statistics.median(values) if values else None

    def ratio(self, section: str, case: str, sides: tuple[str, str], figure: str) -> float | None:
        """The median over the rounds of first side / second side; None when one of them was not measured."""
        first, second = (self.values.get((section, case, side, figure), []) for side in sides)
        pairs = [one / other for one, other in zip(first, second, strict=False) if other]
        return statistics.median(pairs) if pairs else None


def run_all(cases: Iterable[Case], rounds: int, *, after: Callable[[Results], None] = lambda _: None) -> Results:
    """Measures every case `rounds` times. A side that cannot be measured is named, and left out from then on.

    after: called with what is known after each case.
    """
    results = Results()
    for case in cases:
        sides = list(case.sides)
        for number in range(rounds):
            for side in _turned(sides, number):
                began = time.monotonic()
                with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                    try:
                        figures = side.measure(Path(folder))
                    except NotMeasuredError as error:
                        results.troubles.append(f"{case.section} {case.name}, {side.name}: {error}")
                        sides.remove(side)
                        _say(f"{case.section} {case.name} {side.name}: not measured: {error}")
                        continue
                results.add(case, side, figures)
                told = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                _say(f"{case.section} {case.name} {side.name}: {told}   ({time.monotonic() - began:.0f} s)")
        after(results)
    return results


def _turned(sides: Sequence[Side], number: int) -> list[Side]:
    turn = number % len(sides) if sides else 0
    return [*sides[turn:], *sides[:turn]]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
