"""Choices: one number per choice from one seed, each of which can be taken back alone.

A simulation asks for one number at every point where something else than the ordinary could happen. A choice that is
taken back (`skipped`) has the ordinary outcome, and all others keep their numbers: so a failure can be reduced by
taking back choices, and replayed from its seed and the list of those that were taken back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from runtime.errors import UsageError

ORDINARY = 2.0
# A run makes some thousand choices.
CHOICES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Skips:
    """Choices that are taken back: these, or all but these."""

    numbers: frozenset[int] = frozenset()
    is_inverted: bool = False

    def __contains__(self, number: int) -> bool:
        return (number in self.numbers) != self.is_inverted

    def text(self) -> str:
        """As `skip=3,7-12` or `only=18,76`; empty when nothing is taken back."""
        if not self.numbers and not self.is_inverted:
            return ""
        parts: list[str] = []
        numbers = sorted(self.numbers)
        firsts = [each for each in numbers if each - 1 not in self.numbers]
        lasts = [each for each in numbers if each + 1 not in self.numbers]
        for first, last in zip(firsts, lasts, strict=True):
            parts.append(f"{first}" if first == last else f"{first}-{last}")
        return f"{'only' if self.is_inverted else 'skip'}={','.join(parts)}"

    @staticmethod
    def parse(key: str, text: str) -> Skips:
        """The inverse of `text`, from what stands before and behind the sign.

        Raises ValueError for anything else, UsageError for choices beyond those of any run.
        """
        numbers: set[int] = set()
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span:
                raise ValueError(f"{part} is a range from a number to a smaller one")
            if span[-1] >= CHOICES_MAX:
                raise UsageError(
                    f"{key}: {part[:60]} is beyond every choice of a run; expected numbers below {CHOICES_MAX}"
                )
            numbers.update(span)
        return Skips(frozenset(numbers), key == "only")


NO_SKIPS = Skips()


class Draws:
    """Numbers in 0..1, one per choice. deviated: choices whose outcome was not the ordinary one."""

    def __init__(self, seed: int, skips: Skips = NO_SKIPS) -> None:
        # A text as the seed is hashed by the library with SHA-512, the same in every process.
        self._random = random.Random(f"choices {seed}").random
        self._skips = skips
        self._has_skips = bool(skips.numbers) or skips.is_inverted
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
