"""What the runs of a row came to, and whether that is what was wanted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

SEEDS: Final = 5
STEPS_LIMIT: Final = 1.25
"""Times the other side's agent steps that may be needed at most; the aim is no more than theirs."""
SHARE_OF_EXPERT: Final = 0.9

Verdict = Literal["met", "limit met, aim missed", "missed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. reached: agent steps at the first summary with the threshold, None if there was none.

    final: mean reward of the last summary with an episode, None without one. steps: agent steps of the last summary.
    """

    row: str
    side: str
    seed: int
    reached: int | None
    final: float | None
    steps: int
    wall_s: float

    def to_json(self) -> dict[str, Any]:  # JSON
        """As JSON."""
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Run:  # JSON
        """From `to_json()`."""
        return Run(**document)


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of all sides of a row, in the order of their seeds."""

    runs: Mapping[str, Sequence[Run]]

    @staticmethod
    def of(row: str, runs: Sequence[Run]) -> Measured:
        """Those of one row."""
        mine = sorted((each for each in runs if each.row == row), key=lambda each: each.seed)
        return Measured({side: [each for each in mine if each.side == side] for side in {each.side for each in mine}})

    def seeds(self, *sides: str) -> int:
        """The least number of runs of these sides."""
        return min(len(self.runs.get(side, ())) for side in sides)

    def median_steps(self, side: str) -> float:
        """Median of the steps to the threshold; infinite when most runs did not reach it."""
        return statistics.median(math.inf if each.reached is None else each.reached for each in self.runs[side])

    def median_final(self, side: str) -> float:
        """Median of the final rewards; a run without any counts as the lowest there is."""
        return statistics.median(-math.inf if each.final is None else each.final for each in self.runs[side])

    def all_reached(self, side: str) -> int:
        """How many runs reached the threshold."""
        return sum(each.reached is not None for each in self.runs[side])


@dataclass(frozen=True, slots=True)
class Judged:
    """A goal beside what was measured. found: empty when nothing was. verdict: "so far" while seeds are missing."""

    text: str
    found: str
    verdict: str


class Goal(Protocol):
    """What is wanted of a row."""

    @property
    def sides(self) -> tuple[str, ...]:
        """Whose runs are needed."""

    @property
    def text(self) -> str:
        """The goal in words."""

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """What was measured, and whether it is enough; all sides have runs."""


def judged(goal: Goal, measured: Measured) -> Judged:
    """The goal beside what was measured; fewer seeds than the table asks for are said."""
    seeds = measured.seeds(*goal.sides)
    if not seeds:
        return Judged(goal.text, "", "not measured")
    found, verdict = goal.look(measured)
    if seeds >= SEEDS:
        return Judged(goal.text, found, verdict)
    return Judged(goal.text, f"{found} ({seeds} of {SEEDS} seeds)", f"{verdict} so far")


@dataclass(frozen=True, slots=True)
class _OfOne:
    """A goal of one side."""

    side: str

    @property
    def sides(self) -> tuple[str, ...]:
        """The side."""
        return (self.side,)


@dataclass(frozen=True, slots=True)
class _OfTwo:
    """A goal that compares a side with another."""

    side: str
    of: str

    @property
    def sides(self) -> tuple[str, ...]:
        """Both."""
        return self.side, self.of


@dataclass(frozen=True, slots=True)
class Reaches(_OfOne):
    """Every seed of a side reaches the threshold."""

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"every seed of {self.side} reaches the threshold"

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """All, or how many."""
        reached, count = measured.all_reached(self.side), len(measured.runs[self.side])
        return f"{reached} of {count}", "met" if reached == count else "missed"


@dataclass(frozen=True, slots=True)
class Steps(_OfTwo):
    """The median of the steps to the threshold is at most the other side's, or `STEPS_LIMIT` times as many."""

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"median steps to the threshold, {self.side} / {self.of}: at most 1 (limit {STEPS_LIMIT:g})"

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """The ratio; a side that does not reach the threshold is behind any that does."""
        mine, theirs = measured.median_steps(self.side), measured.median_steps(self.of)
        if math.isinf(mine):
            return f"{self.side} does not reach it", "missed"
        if math.isinf(theirs):
            return f"{self.of} does not reach it", "met"
        ratio = mine / theirs
        return f"{ratio:.2f}", "met" if ratio <= 1.0 else "limit met, aim missed" if ratio <= STEPS_LIMIT else "missed"


@dataclass(frozen=True, slots=True)
class FinalNotLower(_OfTwo):
    """The median of the final rewards is not lower than the other side's."""

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"median final reward of {self.side} not lower than of {self.of}"

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """The difference."""
        mine, theirs = measured.median_final(self.side), measured.median_final(self.of)
        return f"{mine:.3f} to {theirs:.3f}", "met" if mine >= theirs else "missed"


@dataclass(frozen=True, slots=True)
class Beats(_OfTwo):
    """The side reaches the threshold in more seeds than the other, and its median final reward is higher."""

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"{self.side} beats {self.of}: more seeds reach the threshold or sooner, and the final reward is higher"

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """Both numbers of both sides."""
        ahead = (-measured.all_reached(self.side), measured.median_steps(self.side))
        behind = (-measured.all_reached(self.of), measured.median_steps(self.of))
        mine, theirs = measured.median_final(self.side), measured.median_final(self.of)
        found = f"{-ahead[0]} seeds to {-behind[0]}, {mine:.3f} to {theirs:.3f}"
        return found, "met" if ahead < behind and mine > theirs else "missed"


@dataclass(frozen=True, slots=True)
class ShareOfExpert(_OfOne):
    """The median final reward is at least `SHARE_OF_EXPERT` of what the expert earns."""

    expert: float

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"{self.side} earns at least {SHARE_OF_EXPERT:.0%} of the expert's {self.expert:g}"

    def look(self, measured: Measured) -> tuple[str, Verdict]:
        """The share."""
        share = measured.median_final(self.side) / self.expert
        return f"{share:.0%}", "met" if share >= SHARE_OF_EXPERT else "missed"
