"""Choices: one number per choice from one seed, each of which can be taken back alone.

A simulation asks for one number at every point where something else than the ordinary could happen. A choice that is
taken back (`skipped`) has the ordinary outcome, and all others keep their numbers: so a failure can be reduced by
taking back choices, and replayed from its seed and the list of those that were taken back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ORDINARY = 2.0


@dataclass(frozen=True, slots=True)
class Skips:
    """Choices that are taken back: these, and all from number `start` on when it is not negative."""

    numbers: frozenset[int] = frozenset()
    start: int = -1

    def __contains__(self, number: int) -> bool:
        return number in self.numbers or 0 <= self.start <= number

    def text(self) -> str:
        """As `3,7-12,40-`; empty for none."""
        parts: list[str] = []
        first = last = -2
        for number in [*sorted(each for each in self.numbers if not 0 <= self.start <= each), -1]:
            if number == last + 1 and number > 0:
                last = number
                continue
            if first >= 0:
                parts.append(f"{first}" if first == last else f"{first}-{last}")
            first = last = number
        if self.start >= 0:
            parts.append(f"{self.start}-")
        return ",".join(parts)

    @staticmethod
    def parse(text: str) -> Skips:
        """The inverse of `text`. Raises ValueError for anything else."""
        numbers: set[int] = set()
        start = -1
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            if dash and not last:
                start = int(first)
            else:
                numbers.update(range(int(first), int(last or first) + 1))
        return Skips(frozenset(numbers), start)


NO_SKIPS = Skips()


class Draws:
    """Numbers in 0..1, one per choice. deviated: choices whose outcome was not the ordinary one."""

    def __init__(self, seed: int, skips: Skips = NO_SKIPS) -> None:
        # A text as the seed is hashed by the library with SHA-512, the same in every process.
        self._random = random.Random(f"choices {seed}").random
        self._skips = skips
        self._has_skips = bool(skips.numbers) or skips.start >= 0
        self.count = 0
        self.deviated: list[int] = []

    def take(self) -> float:
        """The next number; ORDINARY, which is more than 1, when that choice is taken back."""
        value = self._random()
        self.count += 1
        if self._has_skips and self.count - 1 in self._skips:
            return ORDINARY
        return value

    def deviate(self) -> None:
        """Note that the choice just made changes what happens."""
        self.deviated.append(self.count - 1)

    def tosses(self, share: float = 0.5) -> bool:
        """True for `share` of the draws; ordinarily False."""
        if self.take() < share:
            self.deviate()
            return True
        return False

    def choose(self, values: tuple[float, ...]) -> float:
        """One of `values`, the first of which is the ordinary one."""
        value = self.take()
        if value > 1.0 or len(values) < 2:
            return values[0]
        index = int(value * len(values))
        if index:
            self.deviate()
        return values[index]
