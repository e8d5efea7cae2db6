"""`python -m tests.benchmarks [--json OUT [--add]] [--only SECTION,...] [--rounds N] [--quick]`: measures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.benchmarks import collection, scaling, slow_one, update, whole_runs
from tests.benchmarks.facts import machine
from tests.benchmarks.measure import Case, Results, run_all

SECTIONS: Mapping[str, Callable[..., Iterator[Case]]] = MappingProxyType(
    {
        "collection": collection.cases,
        "update": update.cases,
        "whole-runs": whole_runs.cases,
        "scaling": scaling.cases,
        "slow-one": slow_one.cases,
    }
)


def main(argv: Sequence[str]) -> int:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the figures go (standard output)")
    parser.add_argument("--add", action="store_true", help="keep what OUT has of cases that are not measured now")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--case", default="", help="only cases whose name begins so")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side")
    parser.add_argument("--quick", action="store_true", help="a quarter of the steps, to see that all works")
    asked = parser.parse_args(argv)
    names = asked.only.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    facts = machine()
    cases = [case for name in names for case in SECTIONS[name](quick=asked.quick)]
    out: Path | None = asked.json
    before = json.loads(out.read_text(encoding="utf-8")) if asked.add and out is not None and out.exists() else None

    def write(results: Results) -> None:
        told = document(results, facts) if before is None else added(before, document(results, facts))
        if out is not None:  # after each case: who ends it early keeps what is known
            out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")

    chosen = [case for case in cases if case.name.startswith(asked.case)]
    results = run_all(chosen, asked.rounds, after=write)
    if out is None:
        sys.stdout.write(json.dumps(document(results, facts), indent=1) + "\n")
    return 0


def added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:  # JSON
    """What was measured before, but for the cases that were measured again."""
    again = {(each["section"], each["case"]) for each in now["figures"]}
    names = {f"{section} {case}," for section, case in again}
    return {
        **now,
        "when": [*before["when"], *now["when"]],
        "figures": [
            *(each for each in before["figures"] if (each["section"], each["case"]) not in again),
            *now["figures"],
        ],
        "not_measured": [
            *(each for each in before["not_measured"] if not any(each.startswith(name) for name in names)),
            *now["not_measured"],
        ],
    }


def document(results: Results, facts: Mapping[str, str]) -> dict[str, Any]:  # JSON
    """The JSON of a measurement."""
    return {
        "when": [datetime.now(UTC).isoformat(timespec="seconds")],
        "machine": dict(facts),
        "figures": [
            {"section": section, "case": case, "side": side, "figure": figure, "values": values}
            for (section, case, side, figure), values in results.values.items()
        ],
        "not_measured": results.troubles,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
