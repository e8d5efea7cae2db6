"""Whole runs: (c) start-up, (d) memory, (e) traffic between actors, (f) time to a reward."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.benchmarks.measure import Case, Figures, NotMeasuredError, Side
from tests.benchmarks.runs import Progress, Work, run_ours, run_peer

MB = 1e6
SENT = re.compile(r"sent (\w+): (\d+) messages, ([\d,]+) bytes")
# What is said once, when parts start, is no traffic of the work.
ONCE = frozenset({"Start", "Started", "Hello", "Introduction", "StartWorker", "WorkerReady", "BrainsFound"})
BASIC: dict[str, Any] = {  # YAML
    "hyperparameters": {"batch_size": 64, "buffer_size": 512, "learning_rate": 1e-3, "beta": 1e-2, "num_epoch": 8},
    "network_settings": {"hidden_units": 64, "num_layers": 2},
}
BALANCE: dict[str, Any] = {  # YAML
    "hyperparameters": {"batch_size": 256, "buffer_size": 2048, "learning_rate": 1e-3, "beta": 1e-3, "num_epoch": 6},
    "network_settings": {"hidden_units": 64, "num_layers": 2, "normalize": True},
    "reward_signals": {"extrinsic": {"gamma": 0.99}},
}


def startup(work: Work, folder: Path) -> Figures:
    """Seconds from launch to the first accepted step, and to the end of the run."""
    progress = run_ours(work, folder, "--workers", "2")
    summary = json.loads((folder / "results" / "b" / "summary.json").read_text())
    first_s = summary["elapsed_s"] - summary["agent_steps"] / summary["steps_per_s"]
    return {"s to the first accepted step": first_s, "s for the whole run": progress.took_s}


def peer_startup(work: Work, folder: Path) -> Figures:
    """Seconds for the whole run; when its first step is accepted the released trainer does not tell."""
    return {"s for the whole run": run_peer(work, folder).took_s}


def memory(progress: Progress) -> Figures:
    """The largest resident memory of each kind of process, and of all but the players together, in MB."""
    each = {f"MB {kind}": size / MB for kind, size in progress.rss.items() if kind != "player"}
    return {**each, "MB all but the players": progress.whole_rss / MB}


def growth(work: Work, folder: Path) -> Figures:
    """How much an EnvWorker grows while it works: a line through its resident memory, start-up left out."""
    progress = run_ours(work, folder, "--workers", "1", "--collection", "async", sampled=True)
    steady_s = progress.points[len(progress.points) // 4][1]
    late = [(at_s, size) for at_s, size in progress.worker_rss if at_s >= steady_s]
    if len(late) < 10:
        raise NotMeasuredError("too few samples of the EnvWorker's memory")
    rate = progress.steady_rate(work.max_steps)
    bytes_per_s = float(np.polyfit([at_s for at_s, _ in late], [size for _, size in late], 1)[0])
    return {"MB per 10^6 agent steps": bytes_per_s / MB / rate * 1e6}


def traffic(work: Work, folder: Path) -> Figures:
    """Messages and bytes between actors per 1,000 agent steps, after everybody has been introduced."""
    run_ours(work, folder, "--profile")
    sent = SENT.findall((folder / "results" / "b" / "run_logs" / "profile.txt").read_text())
    if not sent:
        raise NotMeasuredError("the profile tells nothing of messages")
    counted = [(int(messages), int(size.replace(",", ""))) for name, messages, size in sent if name not in ONCE]
    thousands = work.max_steps / 1000
    return {
        "messages per 1,000 agent steps": sum(messages for messages, _ in counted) / thousands,
        "bytes per 1,000 agent steps": sum(size for _, size in counted) / thousands,
    }


def cases(*, quick: bool = False) -> Iterator[Case]:
    """Start-up and memory with the usual work, traffic at 4x8, and two goals."""
    scale = 0.25 if quick else 1.0
    work = Work(scene="basic", envs=2, agents=4, max_steps=int(20_000 * scale), summary_freq=2_000)
    yield Case(
        "start-up",
        "2x4, 20,000 agent steps",
        (Side("ours", lambda f: startup(work, f)), Side("mlagents-learn", lambda f: peer_startup(work, f))),
    )
    four = replace(work, envs=4, agents=8, max_steps=int(40_000 * scale), summary_freq=4_000)
    less = replace(four, max_steps=int(12_000 * scale), summary_freq=2_000)
    yield Case(
        "memory",
        "4x8",
        (
            Side("ours", lambda f: memory(run_ours(four, f, sampled=True))),
            Side("mlagents-learn", lambda f: memory(run_peer(less, f, sampled=True))),
        ),
    )
    # A goal per million steps is measured over more than one: what is filled once is filled in the first half million.
    long = replace(four, max_steps=int(2_000_000 * scale), summary_freq=int(100_000 * scale))
    yield Case("memory", "4x8, an EnvWorker's growth", (Side("ours", lambda f: growth(long, f)),))
    # What is told by the clock while everything starts is a small part of a run of ten seconds.
    busy = replace(four, max_steps=int(120_000 * scale), summary_freq=int(12_000 * scale))
    yield Case("traffic", "4x8, buffer 640", (Side("ours", lambda f: traffic(busy, f)),))
    yield _goal("basic", 0.9, Work(scene="basic", envs=1, agents=1, max_steps=16_000, summary_freq=500, more=BASIC))
    if not quick:
        yield _goal(
            "balance",
            44.0,
            Work(scene="balance", envs=2, agents=8, max_steps=150_000, summary_freq=4_000, more=BALANCE),
        )


def _goal(name: str, reward: float, work: Work) -> Case:
    figure = f"s to mean reward {reward}"
    return Case(
        "goals",
        name,
        (
            Side("ours", lambda f: {figure: run_ours(work, f).reached_s(reward)}),
            Side("mlagents-learn", lambda f: {figure: run_peer(work, f).reached_s(reward)}),
        ),
    )


FIGURES_OF_GOALS = MappingProxyType({"basic": "s to mean reward 0.9", "balance": "s to mean reward 44.0"})
