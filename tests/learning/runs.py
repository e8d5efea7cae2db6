"""One run of a row, and what its progress lines tell of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from runtime.record_demo import record
from tests.benchmarks.runs import Progress, Work, run_ours, run_peer
from tests.learning.judgement import Run
from tests.learning.rows import DEMO, Row, Side

LINE: Final = re.compile(r"\[INFO\] (.+?)\. Step: (\d+)\. Time Elapsed: [\d.]+ s\.(?: Mean Reward: (-?[\d.]+)\.)?")

Curve = Sequence[tuple[int, float | None]]
"""(agent steps, mean reward) of each summary of a behavior; None without an episode."""


def measure(row: Row, side: Side, seed: int) -> Run:
    """Trains once. Raises NotMeasuredError when the run fails, or its trainer is not installed."""
    settings = next(iter(side.document["behaviors"].values()))
    work = Work(
        scene=row.scene,
        envs=row.envs,
        agents=row.agents,
        max_steps=settings["max_steps"],
        summary_freq=settings["summary_freq"],
        whole=side.document,
        seed=seed,
        limit_s=row.limit_s,
    )
    with tempfile.TemporaryDirectory(prefix="learning-") as name:
        folder = Path(name)
        if side.shows_episodes:
            record(f"fake:{row.scene}", folder / DEMO, episodes=side.shows_episodes)
        progress = run_ours(work, folder, url=side.url) if side.trainer == "ours" else run_peer(work, folder)
    return run_of(row, side, seed, progress)


def run_of(row: Row, side: Side, seed: int, progress: Progress) -> Run:
    """What a finished run came to: of several behaviors the one that is last, and the lowest reward."""
    counted = curves(progress.text, after=side.after)
    names = set(side.document["behaviors"])
    known = [counted.get(name, ()) for name in sorted(names)]
    reached = [first_at(curve, row.threshold) for curve in known]
    finals = [final(curve) for curve in known]
    steps = max((step for curve in curves(progress.text).values() for step, _ in curve), default=0)
    return Run(
        row=row.name,
        side=side.name,
        seed=seed,
        reached=None if None in reached else max(each for each in reached if each is not None),
        final=None if None in finals else min(each for each in finals if each is not None),
        steps=steps,
        wall_s=round(progress.took_s, 1),
    )


def curves(text: str, *, after: str = "") -> Mapping[str, Curve]:
    """The curve of each behavior; of what was printed after `after`, but for one summary, which holds episodes before.

    Without that text nothing counts.
    """
    begin = text.find(after)
    if begin < 0:
        return {}
    told: dict[str, list[tuple[int, float | None]]] = {}
    for name, step, mean in LINE.findall(text[begin:]):
        told.setdefault(name, []).append((int(step), float(mean) if mean else None))
    return {name: curve[1:] if after else curve for name, curve in told.items()}


def first_at(curve: Curve, reward: float) -> int | None:
    """Agent steps at the first summary with at least that mean reward; None if there is none."""
    return next((step for step, mean in curve if mean is not None and mean >= reward), None)


def final(curve: Curve) -> float | None:
    """The mean reward of the last summary that has one."""
    return next((mean for _, mean in reversed(curve) if mean is not None), None)
