"""A page out of the JSON of a measurement: `python -m tests.benchmarks.page FIGURES PAGE`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.collection import BARE_WALK
from tests.benchmarks.measure import Results

RATE = "agent steps/s"
INTRODUCTION = (
    "This page is made by `python -m tests.benchmarks.page`; the figures come from `python -m tests.benchmarks`. "
    "Sides of a case took turns, round by round, on one machine; a figure is the median of the rounds, a ratio the "
    "median of the rounds' ratios. `1x8` is one environment with eight agents."
)
ABOUT_WALK = (
    " In the bare loop agents of `basic` stand still, and no episode ends in 100 steps; in "
    f"`{BARE_WALK}` they walk as trained ones do, so that each of them ends an episode every 7 steps, as in training."
)
TITLES: Mapping[str, str] = {
    "collection": "Collection: complete training runs against the bare loop and the released trainer",
    "update": "Updates: one PPO update, from the filled buffer to the finished policy",
    "start-up": "Start-up and short runs",
    "memory": "Resident memory, the largest seen",
    "traffic": "Traffic between actors",
    "goals": "Wall time to a good policy",
    "player alone": "The fake player alone: world and wire, no socket, one core",
    "one process": "A whole training run in one process",
    "environments": "More environments on the memory link",
    "agents": "More agents on the memory link",
    "a slow player": "One of eight players is 100 times slower",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A goal for a ratio of two sides, or for one side alone (of = '')."""

    text: str
    section: str
    case: str
    side: str
    figure: str
    of: str = ""
    at_least: float | None = None
    at_most: float | None = None


BARE, PEER = "bare loop", "mlagents-learn"
TARGETS = (
    *(
        Target(
            text=f"{case}: {side} / {of}",
            section="collection",
            case=case,
            side=side,
            figure=RATE,
            of=of,
            at_least=low,
        )
        for case, of, low in (
            ("1x1", BARE, 0.75),
            ("1x8", BARE, 0.75),
            ("4x8", BARE, 0.6),
            ("1x1", PEER, 4.0),
            ("4x8", PEER, 10.0),
        )
        for side in ("ours, sync", "ours, async")
    ),
    *(
        Target(
            text=f"update, {case}: mlagents-learn / ours",
            section="update",
            case=case,
            side=PEER,
            figure="ms per update",
            of="ours",
            at_least=low,
        )
        for case, low in (
            ("batch 64, 2x128", 4.0),
            ("batch 256, 2x128", 4.0),
            ("batch 256, 3x512", 1.5),
            ("batch 64, pictures, simple", 1.5),
        )
    ),
    Target(
        text="first accepted step with 2 EnvWorkers, s",
        section="start-up",
        case="2x4, 20,000 agent steps",
        side="ours",
        figure="s to the first accepted step",
        at_most=6.0,
    ),
    Target(
        text="a run of 20,000 steps: ours / mlagents-learn",
        section="start-up",
        case="2x4, 20,000 agent steps",
        side="ours",
        figure="s for the whole run",
        of=PEER,
        at_most=0.5,
    ),
    Target(text="an EnvWorker, MB", section="memory", case="4x8", side="ours", figure="MB EnvWorker", at_most=120.0),
    Target(
        text="growth of an EnvWorker, MB per 10^6 agent steps",
        section="memory",
        case="4x8, an EnvWorker's growth",
        side="ours",
        figure="MB per 10^6 agent steps",
        at_most=1.0,
    ),
    Target(
        text="the run without its players: ours / mlagents-learn",
        section="memory",
        case="4x8",
        side="ours",
        figure="MB all but the players",
        of=PEER,
        at_most=1.0,
    ),
    Target(
        text="messages between actors per 1,000 agent steps",
        section="traffic",
        case="4x8, buffer 640",
        side="ours",
        figure="messages per 1,000 agent steps",
        at_most=10.0,
    ),
    Target(
        text="64 environments / 1, per agent step",
        section="environments",
        case="8 agents, one EnvWorker",
        side="64 environments",
        figure=RATE,
        of="1 environments",
        at_least=0.9,
    ),
    Target(
        text="1,000 agents / 1, per agent step",
        section="agents",
        case="1 environment",
        side="1000 agents",
        figure=RATE,
        of="1 agents",
        at_least=0.9,
    ),
    Target(
        text="seven players beside one that is 100 times slower / eight alike",
        section="a slow player",
        case="8x1, async, 20 ms a step",
        side="with a slow one",
        figure="env steps/s of the other seven",
        of="all alike",
        at_least=0.8,
    ),
    Target(
        text="player alone, 32 agents, agent steps/s on a core",
        section="player alone",
        case="basic",
        side="32 agents",
        figure="agent steps/s on a core",
        at_least=50_000,
    ),
    Target(
        text="a whole training run in one process, agent steps/s",
        section="one process",
        case="1x32, link=memory",
        side="ours",
        figure=RATE,
        at_least=20_000,
    ),
)


def results_of(document: Mapping[str, Any]) -> Results:  # JSON
    """The figures of a measurement."""
    results = Results(troubles=list(document["not_measured"]))
    for each in document["figures"]:
        results.values[each["section"], each["case"], each["side"], each["figure"]] = each["values"]
    return results


def page(document: Mapping[str, Any]) -> str:  # JSON
    """The whole page."""
    results = results_of(document)
    parts = [
        f"# Performance\n\n{INTRODUCTION}{ABOUT_WALK if any(each[2] == BARE_WALK for each in results.values) else ''}",
        machine_table(document),
        _targets(results),
        *(_section(results, section, title) for section, title in TITLES.items()),
    ]
    if results.troubles:
        parts.append("## Not measured\n\n" + "\n".join(f"- {' '.join(each.split())}" for each in results.troubles))
    return "\n\n".join(part for part in parts if part) + "\n"


def machine_table(document: Mapping[str, Any]) -> str:  # JSON
    """What machine it was measured on, and when."""
    rows = [("measured", ", ".join(document["when"])), *document["machine"].items()]
    return "## Machine\n\n" + table(("", ""), rows)


def _targets(results: Results) -> str:
    rows = [
        (each.text, _goal(each), "not measured" if value is None else f"{value:.3g}", _verdict(each, value))
        for each in TARGETS
        for value in (reached(results, each),)
    ]
    return "## Goals\n\n" + table(("what", "goal", "measured", ""), rows)


def reached(results: Results, target: Target) -> float | None:
    """What was measured of a target."""
    if target.of:
        return results.ratio(target.section, target.case, (target.side, target.of), target.figure)
    return results.median(target.section, target.case, target.side, target.figure)


def _goal(target: Target) -> str:
    return f"at least {target.at_least:g}" if target.at_least is not None else f"at most {target.at_most:g}"


def _verdict(target: Target, value: float | None) -> str:
    if value is None:
        return ""
    low = target.at_least is None or value >= target.at_least
    high = target.at_most is None or value <= target.at_most
    return "reached" if low and high else "missed"


def _section(results: Results, section: str, title: str) -> str:
    rows = [
        (
            case,
            side,
            figure,
            _number(statistics.median(values)),
            f"{_number(min(values))} to {_number(max(values))}",
            str(len(values)),
        )
        for (its, case, side, figure), values in results.values.items()
        if its == section
    ]
    return f"## {title}\n\n" + table(("case", "side", "figure", "median", "range", "rounds"), rows) if rows else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    figures, written = (Path(name) for name in sys.argv[1:3])
    written.write_text(page(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")
