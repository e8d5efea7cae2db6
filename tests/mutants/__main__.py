"""`python -m tests.mutants`: how many schedules it takes to find each mutant out, as a table for `docs/testing.md`."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.killing import SCHEDULES_MAX, Kill, kill
from tests.mutants.loading import simulator_of

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BEGIN, END = "<!-- mutants: tox -e mutants -->", "<!-- end of mutants -->"
# The first seeds of searches that have nothing to do with each other, nor with what the tests simulate.
STARTS = (100_000, 200_000, 300_000)


def main() -> int:
    """Search for all mutants; 1 when one lives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants (all)")
    parser.add_argument("--starts", type=int, default=len(STARTS), help="searches for each mutant, at most 3")
    parser.add_argument("--schedules", type=int, default=SCHEDULES_MAX, help="schedules of one search at most")
    parser.add_argument("--write", action="store_true", help="write the table into docs/testing.md")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MUTANTS]
    if unknown:
        parser.error(f"there is no mutant {unknown[0]!r}")
    began_s = time.process_time()
    rows: dict[str, list[Kill]] = {}
    for name in options.names or MUTANTS:
        simulate = simulator_of(name)
        rows[name] = [kill(simulate, start, options.schedules) for start in STARTS[: options.starts]]
        say(row_of(name, rows[name]))
    alive = [name for name, kills in rows.items() if any(each.schedules is None for each in kills)]
    say(f"{len(rows) - len(alive)} of {len(rows)} killed, {time.process_time() - began_s:.0f} s of processor time")
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 1 if alive else 0


def say(line: str) -> None:
    """Print at once: a search takes long."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def row_of(name: str, kills: list[Kill]) -> str:
    """One row of the table."""
    counts = [each.schedules for each in kills if each.schedules is not None]
    invariants = ", ".join(sorted({each.invariant for each in kills if each.invariant}))
    if len(counts) < len(kills):
        median, worst = "-", f"more than {SCHEDULES_MAX:,}"
    else:
        median, worst = f"{statistics.median_low(counts):,}", f"{max(counts):,}"
    return f"| `{name}` | {MUTANTS[name].text} | {invariants} | {median} | {worst} |"


def with_table(page: str, rows: dict[str, list[Kill]]) -> str:
    """The page with this table in the place of the last one."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = ["| mutant | what is wrong | found by | median | worst |", "|---|---|---|---|---|"]
    table = "\n".join([*head, *(row_of(name, kills) for name, kills in rows.items())])
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
