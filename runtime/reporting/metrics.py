"""`run_logs/metrics-<brain>.csv`: a line per update, in the columns that the trainer of 2019 wrote.

Each line is appended when its update is finished, so a run that is killed keeps what it had, and one that goes on
writes below it. Times of a resumed run begin again at 0.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.reporting.spells import Say, Spells

COLUMNS: Final = (
    "Brain name",
    "Time to update policy",
    "Time since start of training",
    "Time for last experience collection",
    "Number of experiences used for training",
    "Mean return",
)

Row = tuple[str, ...]
"""What is written of one update, in the order of COLUMNS."""


@dataclass(slots=True)
class _Update:
    """An update under way. collection_s: seconds in which its experience was collected."""

    experiences: int
    collection_s: float


class UpdateMetrics:
    """The metrics of all behaviors of a run.

    path_for: the file of a behavior. warn: takes one sentence when a file cannot be written, once; training goes on.
    note: hears, once, when it can be again.
    All times are monotonic seconds.
    """

    def __init__(self, path_for: Callable[[str], Path], warn: Say, note: Say | None = None) -> None:
        self._path_for = path_for
        self._spells = Spells(warn, note, "the metrics of updates are written again")
        self._started_s: float | None = None
        self._since_s: dict[str, float] = {}
        self._updates: dict[str, _Update] = {}

    def start(self, now_s: float) -> None:
        """The first experience of the run came now; a second call changes nothing."""
        if self._started_s is None:
            self._started_s = now_s

    def begin_update(self, behavior: str, experiences: int, now_s: float) -> None:
        """An update from so many agent steps begins; they were collected since the one before had ended."""
        self.start(now_s)
        assert self._started_s is not None
        since_s = self._since_s.get(behavior, self._started_s)
        self._updates[behavior] = _Update(experiences, now_s - since_s)

    def finish_update(self, behavior: str, *, update_s: float, mean_return: float | None, now_s: float) -> Row:
        """The row of the update that began last. update_s: of computing. mean_return: None leaves it empty."""
        update = self._updates.pop(behavior)
        self._since_s[behavior] = now_s
        assert self._started_s is not None
        times = (update_s, now_s - self._started_s, update.collection_s)
        mean = "" if mean_return is None else f"{mean_return:.6g}"
        return (behavior, *(f"{each:.3f}" for each in times), str(update.experiences), mean)

    def write(self, row: Row) -> None:
        """Append a row to the file of its behavior; apart from finishing, since players wait for what was learned."""
        behavior = row[0]
        try:
            _append(self._path_for(behavior), row)
        except OSError as error:
            reason = error.strerror or str(error)
            text = f"cannot write {self._path_for(behavior)}: {reason}. Training goes on; lines are missing."
            self._spells.failed(behavior, text)
        else:
            self._spells.written(behavior)


def _append(path: Path, row: Row) -> None:
    """Adds a line, below the names of the columns in a new file. Raises OSError; no half line stays then."""
    with path.open("a+b", buffering=0) as file:
        size = _end_of_last_line(file)
        file.truncate(size)
        try:
            left = memoryview(_lines(*((COLUMNS, row) if not size else (row,))))
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(size)
            raise


def _end_of_last_line(file: io.FileIO) -> int:
    """Bytes that are whole lines: a machine that stopped may have left half of one."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - 4096)
    file.seek(start)
    tail = file.read()
    return size if tail.endswith(b"\n") else start + tail.rfind(b"\n") + 1


def _lines(*rows: Row) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    # A name from the wire may hold half a surrogate pair, which UTF-8 cannot carry.
    return text.getvalue().encode("utf-8", "backslashreplace")
