"""What is wrong with a configuration: where it stands, what was found, what is allowed, and the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NoReturn

from runtime.errors import ConfigError
from runtime.reporting.lines import printable

SHOWN_CHARACTERS_MAX = 60
SHOWN_NAMES_MAX = 24
ABBREVIATION_CHARACTERS_MIN = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written.

    file: name of the file, None for the command line. line: from 1, or 0 when there is none. key: dotted path in the
    file, or the flag.
    """

    file: str | None
    line: int
    key: str

    def __str__(self) -> str:
        where = "command line" if self.file is None else self.file
        return ": ".join(part for part in (f"{where}:{self.line}" if self.line else where, self.key) if part)


COMMAND_LINE = Place(None, 0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One mistake. value: as written, None when the key itself is the mistake. allowed, nearest: None when unknown."""

    place: Place
    problem: str
    value: str | None = None
    allowed: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        found = self.problem if self.value is None else f"{shown(self.value)} {self.problem}"
        text = f"{self.place}: {found}"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        if self.nearest is not None:
            text += f"; nearest: {self.nearest}"
        # Keys may hold anything: none may look like a line of its own.
        return printable(text)


class FaultsError(ConfigError):
    """All faults of a configuration at once; the text has one line for each."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[FaultsError], tuple[tuple[Fault, ...]]]:
        return FaultsError, (self.faults,)


class Findings:
    """Collects faults and warnings while a configuration is read; the same one twice counts once."""

    def __init__(self) -> None:
        self._faults: dict[Fault, None] = {}
        self._warnings: dict[str, None] = {}

    def add(self, fault: Fault) -> None:
        """Notes a fault; reading goes on, so that all are found at once."""
        self._faults[fault] = None

    def note(self, sentence: str) -> None:
        """Notes something odd that does no harm."""
        self._warnings[sentence] = None

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults in the order of their lines, those of the command line last."""
        return tuple(sorted(self._faults, key=lambda fault: (fault.place.file is None, fault.place.line)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings in the order in which they were met."""
        return tuple(self._warnings)

    def raise_if_any(self) -> None:
        """Raises FaultsError when a fault was noted."""
        if self._faults:
            raise FaultsError(self.faults)


def refuse(place: Place, problem: str) -> NoReturn:
    """Raises FaultsError with one fault: nothing can be read beyond this point."""
    raise FaultsError((Fault(place=place, problem=problem),))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, case aside, or that it abbreviates; None when none is alike."""
    folded = word.casefold()[:200]
    by_folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.55)
    if not found and len(folded) >= ABBREVIATION_CHARACTERS_MIN:
        found = [name for name in by_folded if name.startswith(folded)]
    return by_folded[found[0]] if found else None


def listed(names: Collection[str]) -> str:
    """The names with commas between, the first two dozen of them if there are more."""
    some = list(names)[:SHOWN_NAMES_MAX]
    rest = len(names) - len(some)
    return ", ".join(printable(name) for name in some) + (f" and {rest} more" if rest else "")


def shown(value: str) -> str:
    """A value as it stands in a message: one line, printable, not too long."""
    text = printable(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
