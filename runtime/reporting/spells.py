"""Spells in which files cannot be written: the beginning of each is said once, and so is its end."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


class Spells:
    """What is said about files that belong together.

    warn: takes the sentence about the first failure of a spell. note: takes `recovered` once everything that failed in
    the spell has been written; by default it goes to `warn`.
    """

    def __init__(self, warn: Say, note: Say | None, recovered: str) -> None:
        self._warn = warn
        self._note = note or warn
        self._recovered = recovered
        self._failing: set[str] = set()

    def failed(self, name: str, text: str) -> None:
        """The file of this name could not be written; `text` is said if none is failing yet."""
        if not self._failing:
            self._warn(text)
        self._failing.add(name)

    def written(self, name: str) -> None:
        """The file of this name was written."""
        if name in self._failing:
            self._failing.remove(name)
            if not self._failing:
                self._note(self._recovered)
