"""One of eight players is 100 times slower: in asynchronous collection it paces only itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Case, Figures, Side
from tests.benchmarks.runs import Work, run_ours

ENVS, SLOW_ENV = 8, 0
# Players that leave the cores mostly idle, so that the slow one does not make the others faster.
USUAL_MS, SLOW_MS = 20, 2000
FIGURE = "env steps/s of the other seven"


def others(work: Work, folder: Path, fault: str) -> Figures:
    """What the journals of the other players count, per second from the first step on."""
    journal = folder / "journal"
    url = f"&delay_ms={USUAL_MS}-{USUAL_MS}&journal={journal}{fault}"
    run_ours(work, folder, "--collection", "async", url=url)
    summary = json.loads((folder / "results" / "b" / "summary.json").read_text())
    seconds = summary["agent_steps"] / summary["steps_per_s"]
    steps = 0
    for file in journal.iterdir():
        if not file.name.startswith(f"{SLOW_ENV}-"):
            steps += json.loads(file.read_text().splitlines()[-1])["env_steps"]
    return {FIGURE: steps / seconds}


def cases(*, quick: bool = False) -> Iterator[Case]:
    """Eight players alike, and seven beside a slow one."""
    steps = 2_000 if quick else 6_000
    work = Work(scene="basic", envs=ENVS, agents=1, max_steps=steps, summary_freq=steps // 4)
    slow = f"&fault=delay:ms={SLOW_MS}@step%2Benv={SLOW_ENV}"
    sides = (
        Side("with a slow one", lambda folder: others(work, folder, slow)),
        Side("all alike", lambda folder: others(work, folder, "")),
    )
    yield Case("a slow player", f"{ENVS}x1, async, {USUAL_MS} ms a step", sides)
