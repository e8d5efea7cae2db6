"""The page on learning out of the JSON of a measurement: `python -m tests.learning.page FIGURES PAGE`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.page import machine_table, table
from tests.learning.judgement import SEEDS, Measured, Run, judged
from tests.learning.rows import Row, rows

HOURS_MAX = 3.0
RUNS_AT_ONCE = 2
INTRODUCTION = (
    "This page is made by `python -m tests.learning.page`; the figures come from `python -m tests.learning.table` "
    "(`tox -e learning-table`), in a checkout with the package installed; the tests beside them need "
    '`pip install -e ".[test]"` too. A part that is measured takes the place of itself alone. '
    f"Each side of a row trains {SEEDS} times, with the seeds 1 to {SEEDS}, on the same "
    "bundled player by a complete run of its command: `python -m runtime.train`, and `mlagents-learn` 1.1.0 with the "
    "same configuration file. *Reached* is the number of agent steps at the first summary whose mean reward is at "
    "least the threshold, *final* the mean reward of the last summary, both as the progress lines tell them; a dash "
    "stands for never. Wall times are of two runs side by side on the machine below, launch and compiling included; "
    "rows without sockets (`link=memory`) are compared with nothing but themselves."
)


def page(document: Mapping[str, Any]) -> str:  # JSON
    """The whole page."""
    runs = [Run.from_json(each) for each in document["runs"]]
    parts = [
        f"# Learning\n\n{INTRODUCTION}",
        machine_table(document),
        "## Goals\n\n" + table(("row", "goal", "measured", ""), _goals(runs)),
        *(_section(row, Measured.of(row.name, runs)) for row in rows()),
    ]
    if document["not_measured"]:
        lines = "\n".join(f"- {' '.join(each.split())}" for each in document["not_measured"])
        parts.append(f"## Not measured\n\n{lines}")
    return "\n\n".join(parts) + "\n"


def _goals(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    for row in rows():
        measured = Measured.of(row.name, runs)
        for goal in row.goals:
            found = judged(goal, measured)
            yield row.name, found.text, found.found, found.verdict
    yield _time(runs)


def _time(runs: Sequence[Run]) -> tuple[str, ...]:
    """The goal for the whole table: how long it takes."""
    hours = sum(each.wall_s for each in runs) / RUNS_AT_ONCE / 3600
    planned = SEEDS * sum(len(row.sides) for row in rows())
    verdict = "missed" if hours > HOURS_MAX else "met" if len(runs) >= planned else "not measured"
    text = f"all runs, {RUNS_AT_ONCE} at a time, take at most {HOURS_MAX:g} h"
    return "all", text, f"{hours:.1f} h for {len(runs)} of {planned}", verdict


def _section(row: Row, measured: Measured) -> str:
    scene = "" if row.is_there else " The scene does not exist yet."
    told = f"{row.what}. Threshold {row.threshold:g}; {row.envs} x {row.agents} agents of `{row.scene}`.{scene}"
    head = ("side", "steps", "reached, by seed", "median", "final, by seed", "median", "s, median")
    lines = [_line(side.name, measured) for side in row.sides]
    return f"## {row.name.capitalize()}\n\n{told[0].upper()}{told[1:]}\n\n{table(head, lines)}"


def _line(side: str, measured: Measured) -> tuple[str, ...]:
    runs = measured.runs.get(side, ())
    if not runs:
        return side, "not measured", "", "", "", "", ""
    wall = sorted(each.wall_s for each in runs)[len(runs) // 2]
    return (
        side,
        f"{max(each.steps for each in runs):,}",
        _by_seed(runs, [_steps(each.reached) for each in runs]),
        _steps(measured.median_steps(side)),
        _by_seed(runs, [_reward(each.final) for each in runs]),
        _reward(measured.median_final(side)),
        f"{wall:.0f}",
    )


def _by_seed(runs: Sequence[Run], told: Sequence[str]) -> str:
    """Values in the order of seeds; with their seeds when these are not 1, 2, 3 and so on."""
    if [each.seed for each in runs] == list(range(1, len(runs) + 1)):
        return " · ".join(told)
    return " · ".join(f"{each.seed}: {text}" for each, text in zip(runs, told, strict=True))


def _steps(steps: float | None) -> str:
    return "-" if steps is None or math.isinf(steps) else f"{steps:,.0f}"


def _reward(reward: float | None) -> str:
    return "-" if reward is None or math.isinf(reward) else f"{reward:.3f}"


if __name__ == "__main__":
    figures, written = (Path(name) for name in sys.argv[1:3])
    written.write_text(page(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")
