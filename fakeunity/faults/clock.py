"""What happens when: the faults due at each moment of one player's life, and who carries them out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fakeunity.faults.plan import Fault, FaultPlan, Moment, Who


class HangOrderedError(Exception):
    """The player hangs, before its world has moved."""


class CrashOrderedError(Exception):
    """The player crashes, before its world has moved. how: the exit code or the signal's name."""

    def __init__(self, how: str) -> None:
        super().__init__(f"a crash that was asked for: {how}")
        self.how = how


class FaultClock:
    """Counts a player's resets, steps and exchanges, and says which faults of its plan are due.

    `fired` lists, as texts, what happened so far and at which exchange. Fault `once` is taken by the player that first
    makes its file in the plan's folder, and stays with that player. report: gets a line when a fault happens for the
    first time.
    """

    def __init__(self, plan: FaultPlan, who: Who, *, report: Callable[[str], None] | None = None) -> None:
        self._faults = plan.for_player(who)
        self._folder = plan.once_folder
        self._report = report
        self._told: set[Fault] = set()
        self._taken: dict[Fault, bool] = {}
        self._counts: Counter[str] = Counter()
        self._exchange = 0
        self.moment = Moment("connect", 1, 0)
        self.fired: list[str] = []

    def begin_exchange(self) -> None:
        """A reply of the trainer has come."""
        self._exchange += 1
        self.moment = Moment("exchange", self._exchange, self._exchange)

    def enter(self, phase: str) -> None:
        """The player is now in this phase, once more."""
        self._counts[phase] += 1
        self.moment = Moment(phase, self._counts[phase], self._exchange)

    def due(self, *verbs: str, before: bool = False) -> Iterator[Fault]:
        """The faults of these verbs that happen now; being asked for is happening."""
        for fault in self._faults:
            if fault.verb in verbs and fault.before is before and fault.is_due(self.moment) and self._is_ours(fault):
                self._note(fault)
                yield fault

    def interrupt(self) -> None:
        """Raises CrashOrderedError or HangOrderedError when one is due before the world moves."""
        for fault in self.due("crash", "hang", before=True):
            if fault.verb == "crash":
                raise CrashOrderedError(str(fault.value("how")))
            raise HangOrderedError

    def _note(self, fault: Fault) -> None:
        self.fired.append(f"{fault} (exchange {self._exchange})")
        if self._report is not None and fault not in self._told:
            self._told.add(fault)
            self._report(f"as ordered: {self.fired[-1]}")

    def _is_ours(self, fault: Fault) -> bool:
        if not fault.once:
            return True
        if fault not in self._taken:
            self._taken[fault] = self._claim(fault)
        return self._taken[fault]

    def _claim(self, fault: Fault) -> bool:
        """Whether this player is the first to come here; the file is made, never looked for, so only one wins."""
        folder = self._folder or Path()
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(letter if letter.isalnum() or letter in "-=" else "_" for letter in str(fault))
        try:
            os.close(os.open(folder / name[:200], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True
