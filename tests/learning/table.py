"""`python -m tests.learning.table --json OUT [--add] [--missing] [--only ROW,...] [--seeds 1-5]`: trains every row."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.results import write_json_atomically
from tests.benchmarks.facts import machine
from tests.benchmarks.measure import NotMeasuredError
from tests.learning.judgement import Run
from tests.learning.page import page
from tests.learning.rows import Row, Side, rows
from tests.learning.runs import measure


@dataclass(slots=True)
class Table:
    """The runs so far, in a file that is whole after each of them. troubles: what could not be measured, by side."""

    path: Path
    facts: Mapping[str, str]
    when: list[str]
    runs: dict[tuple[str, str, int], Run] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, run: Run) -> None:
        """Adds a run, in place of an earlier one of the same row, side and seed."""
        with self.lock:
            self.runs[run.row, run.side, run.seed] = run
            self.write()

    def give_up(self, row: Row, side: Side, why: str) -> None:
        """Notes why a side cannot be measured."""
        with self.lock:
            self.troubles[f"{row.name}, {side.name}"] = why
            self.write()

    def write(self) -> None:
        """Writes the file."""
        runs = [self.runs[key].to_json() for key in sorted(self.runs)]
        troubles = [f"{name}: {why}" for name, why in sorted(self.troubles.items())]
        document: dict[str, Any] = {
            "when": self.when,
            "machine": dict(self.facts),
            "runs": runs,
            "not_measured": troubles,
        }
        write_json_atomically(self.path, document)


def main(argv: Sequence[str]) -> int:
    """Trains what was asked for, two runs at a time, seed by seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.learning.table", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="OUT", required=True, help="where the figures go")
    parser.add_argument("--page", type=Path, metavar="PAGE", help="where the page goes that is made of them")
    parser.add_argument("--add", action="store_true", help="keep what OUT has of runs that are not made now")
    parser.add_argument("--missing", action="store_true", help="like --add, and make only runs that OUT has not")
    parser.add_argument("--only", help=f"rows: {', '.join(row.name for row in rows())}")
    parser.add_argument("--sides", help="sides, such as ours,mlagents-learn")
    parser.add_argument("--seeds", type=_seeds, default=range(1, 6), metavar="1-5", help="a seed, or a range")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    asked = parser.parse_args(argv)
    known = [row.name for row in rows()]
    names = known if asked.only is None else asked.only.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no row {unknown[0]!r}; there are {', '.join(known)}")
    table = _opened(asked.json, keeps=asked.add or asked.missing)
    sides = None if asked.sides is None else set(asked.sides.split(","))
    planned = [
        each
        for each in work(names, asked.seeds)
        if (sides is None or each[1].name in sides)
        and not (asked.missing and (each[0].name, each[1].name, each[2]) in table.runs)
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        for future in [pool.submit(_train, table, *each) for each in planned]:
            future.result()
    table.write()
    if asked.page is not None:
        asked.page.write_text(page(json.loads(asked.json.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


def work(names: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[Row, Side, int]]:
    """What is to be trained: every side of every row that is there, one seed after the other."""
    chosen = [row for row in rows() if row.name in names and row.is_there]
    for seed in seeds:
        for row in chosen:
            for side in row.sides:
                yield row, side, seed


def _opened(path: Path, *, keeps: bool) -> Table:
    table = Table(path, machine(), [datetime.now(UTC).isoformat(timespec="seconds")])
    if keeps and path.exists():
        before: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))  # JSON
        table.when = [*before["when"], *table.when]
        table.runs = {(each.row, each.side, each.seed): each for each in map(Run.from_json, before["runs"])}
    return table


def _train(table: Table, row: Row, side: Side, seed: int) -> None:
    if f"{row.name}, {side.name}" in table.troubles:
        return
    began = time.monotonic()
    try:
        run = measure(row, side, seed)
    except NotMeasuredError as error:
        table.give_up(row, side, f"seed {seed}: {error}")
        told = f"not measured: {error}"
    else:
        table.keep(run)
        told = f"reached at {run.reached}, final {run.final}"
    sys.stderr.write(f"{row.name}, {side.name}, seed {seed}: {told}   ({time.monotonic() - began:.0f} s)\n")


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
