"""`python -m tests.learning.table --json OUT [--add] [--missing] [--only ROW,...] [--seeds 1-5]`: trains every row.

A part of the rows, sides or seeds is added to what OUT has; only the whole table replaces it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.results import write_json_atomically
from tests.benchmarks.facts import machine
from tests.benchmarks.measure import NotMeasuredError
from tests.learning.judgement import SEEDS, Run
from tests.learning.page import page
from tests.learning.rows import Row, Side, rows
from tests.learning.runs import measure

Measure = Callable[[Row, Side, int], Run]
"""Trains once; raises NotMeasuredError when that cannot be."""


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


def main(argv: Sequence[str], *, measured: Measure = measure) -> int:
    """Trains what was asked for, some runs at a time, seed by seed. measured: makes one run."""
    known = [row.name for row in rows()]
    parser = argparse.ArgumentParser(prog="python -m tests.learning.table", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="OUT", required=True, help="where the figures go")
    parser.add_argument("--page", type=Path, metavar="PAGE", help="where the page goes that is made of them")
    parser.add_argument("--add", action="store_true", help="keep what OUT has of other runs, as a part always does")
    parser.add_argument("--missing", action="store_true", help="like --add, and make only runs that OUT has not")
    parser.add_argument("--only", help=f"rows: {', '.join(known)}")
    parser.add_argument("--sides", help="sides, such as ours,mlagents-learn")
    parser.add_argument("--seeds", type=_seeds, default=range(1, SEEDS + 1), metavar="1-5", help="a seed, or a range")
    parser.add_argument("--jobs", type=_jobs, default=2, help="runs at a time")
    asked = parser.parse_args(argv)
    names = _chosen("row", asked.only, known, parser)
    there = list(dict.fromkeys(side.name for _, side, _ in work(names, [1])))
    sides = _chosen("side", asked.sides, there, parser)
    planned = [each for each in work(names, asked.seeds) if each[1].name in sides]
    table = _opened(asked.json, keeps=asked.add or asked.missing or not is_whole(planned))
    if asked.missing:
        planned = [each for each in planned if _key(each) not in table.runs]
    with ThreadPoolExecutor(asked.jobs) as pool:
        for future in [pool.submit(_train, table, measured, *each) for each in planned]:
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


def is_whole(planned: Iterable[tuple[Row, Side, int]]) -> bool:
    """Whether that is every side of every row with all the seeds of the table."""
    everything = work([row.name for row in rows()], range(1, SEEDS + 1))
    return {_key(each) for each in everything} <= {_key(each) for each in planned}


def _key(each: tuple[Row, Side, int]) -> tuple[str, str, int]:
    row, side, seed = each
    return row.name, side.name, seed


def _chosen(what: str, asked: str | None, known: Sequence[str], parser: argparse.ArgumentParser) -> Sequence[str]:
    """The names between the commas, or all. Leaves with exit code 2 for one that is not known."""
    names = known if asked is None else asked.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no {what} {unknown[0]!r}; there are {', '.join(known)}")
    return names


def _opened(path: Path, *, keeps: bool) -> Table:
    table = Table(path, machine(), [datetime.now(UTC).isoformat(timespec="seconds")])
    if keeps and path.exists():
        before: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))  # JSON
        table.when = [*before["when"], *table.when]
        table.runs = {(each.row, each.side, each.seed): each for each in map(Run.from_json, before["runs"])}
    return table


def _train(table: Table, measured: Measure, row: Row, side: Side, seed: int) -> None:
    if f"{row.name}, {side.name}" in table.troubles:
        return
    began = time.monotonic()
    try:
        run = measured(row, side, seed)
    except NotMeasuredError as error:
        table.give_up(row, side, f"seed {seed}: {error}")
        told = f"not measured: {error}"
    else:
        table.keep(run)
        told = f"reached at {run.reached}, final {run.final}"
    sys.stderr.write(f"{row.name}, {side.name}, seed {seed}: {told}   ({time.monotonic() - began:.0f} s)\n")


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    found = range(_count(first), _count(last if dash else first) + 1)
    if not found or found.start < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed and no range of seeds; expected such as 3 or 1-5")
    return found


def _jobs(text: str) -> int:
    jobs = _count(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"{text!r} runs at a time; expected 1 or more")
    return jobs


def _count(text: str) -> int:
    """The whole number in digits alone; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
