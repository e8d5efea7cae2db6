"""Whole training runs, ours and the released trainer's, on the same player, and what their progress lines tell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from fakeunity.install import install
from fakeunity.spec import from_options
from tests.benchmarks.measure import NotMeasuredError
from tests.benchmarks.scenes import behavior_of
from tests.peers.released import absent, interpreter
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PROGRESS = re.compile(r"Step: (\d+)\. Time Elapsed: ([\d.]+) s\.(?: Mean Reward: (-?[\d.]+)\.)?")
RUN_S_MAX = 900.0
SAMPLE_S = 0.25
# The share of the steps after which the rate counts as steady: networks are compiled, learning is under way.
WARM_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What both trainers are given to do.

    more: behavior settings besides the usual ones. whole: the whole configuration instead. limit_s: a run that takes
    longer is ended, and not measured.
    """

    scene: str
    envs: int
    agents: int
    max_steps: int
    summary_freq: int
    more: Mapping[str, Any] = field(default_factory=dict)  # YAML
    whole: Mapping[str, Any] | None = None  # YAML
    seed: int = 1
    limit_s: float = RUN_S_MAX

    def document(self) -> dict[str, Any]:  # YAML
        """The configuration file."""
        if self.whole is not None:
            return dict(self.whole)
        settings: dict[str, Any] = {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 640, "learning_rate": 3e-4},
            "network_settings": {"hidden_units": 64, "num_layers": 2},
            "time_horizon": 64,
            "max_steps": self.max_steps,
            "summary_freq": self.summary_freq,
        }
        return {"behaviors": {behavior_of(self.scene).name: {**settings, **self.more}}}


@dataclass(slots=True, kw_only=True)
class Progress:
    """What a run printed. points: (agent steps, seconds since launch, mean reward). took_s: launch to exit.

    rss: the largest resident memory in bytes, by kind of process. worker_rss: (seconds since launch, bytes) of the
    EnvWorkers.
    """

    points: list[tuple[int, float, float | None]] = field(default_factory=list)
    took_s: float = 0.0
    rss: dict[str, int] = field(default_factory=dict)
    worker_rss: list[tuple[float, int]] = field(default_factory=list)
    whole_rss: int = 0
    text: str = ""

    def steady_rate(self, max_steps: int) -> float:
        """Agent steps per second after the first WARM_SHARE of the steps. Raises NotMeasuredError."""
        late = [(steps, at_s) for steps, at_s, _ in self.points if steps >= WARM_SHARE * max_steps]
        if len(late) < 2 or late[-1][1] <= late[0][1]:
            raise NotMeasuredError(f"too few progress lines:\n{self.text[-1500:]}")
        return (late[-1][0] - late[0][0]) / (late[-1][1] - late[0][1])

    def reached_s(self, reward: float) -> float:
        """Seconds from launch to the first line with at least this mean reward. Raises NotMeasuredError."""
        for _, at_s, mean in self.points:
            if mean is not None and mean >= reward:
                return at_s
        raise NotMeasuredError(f"mean reward {reward} was never reached:\n{self.text[-1500:]}")


def run_ours(work: Work, folder: Path, *flags: str, url: str = "", sampled: bool = False) -> Progress:
    """A complete run of `python -m runtime.train`. url: further options of the player's URL."""
    config = _write(work, folder)
    env = f"fake:{work.scene}?agents={work.agents}{url}"
    command = [sys.executable, "-m", "runtime.train", str(config), "--env", env, "--num-envs", str(work.envs)]
    command += ["--run-id", "b", "--seed", str(work.seed), *flags]
    return _run(command, folder, sampled=sampled, limit_s=work.limit_s)


def peer_trainer() -> str:
    """The released trainer's Python. Raises NotMeasuredError when there is none."""
    python = interpreter("trainer-1.1.0")
    if not python:
        raise NotMeasuredError(absent("trainer-1.1.0"))
    return python


def run_peer(work: Work, folder: Path, *, sampled: bool = False) -> Progress:
    """A complete run of the released `mlagents-learn`. Raises NotMeasuredError when it is not installed."""
    python = peer_trainer()
    config = _write(work, folder)
    player = folder / "player.x86_64"
    install(from_options(work.scene, [("agents", str(work.agents))], None), player)
    command = [python, "-m", "mlagents.trainers.learn", str(config), "--env", str(player.with_suffix(""))]
    command += ["--num-envs", str(work.envs), "--run-id", "b", "--seed", str(work.seed)]
    command += ["--no-graphics", "--torch-device", "cpu", "--base-port", str(free_port(work.envs))]
    return _run(command, folder, sampled=sampled, limit_s=work.limit_s)


def _write(work: Work, folder: Path) -> Path:
    config = folder / "work.yaml"
    config.write_text(yaml.safe_dump(work.document()))
    return config


def _run(command: Sequence[str], folder: Path, *, sampled: bool, limit_s: float) -> Progress:
    progress = Progress()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        deadline = threading.Timer(limit_s, process.kill)
        deadline.start()
        has_ended = threading.Event()
        watch = threading.Thread(target=_sample, args=(process, progress, has_ended), daemon=True)
        if sampled:
            watch.start()
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := PROGRESS.search(line):
                mean = float(found[3]) if found[3] else None
                progress.points.append((int(found[1]), time.monotonic() - began, mean))
        code = process.wait()
        deadline.cancel()
        has_ended.set()
        if sampled:
            watch.join(10.0)
    progress.took_s, progress.text = time.monotonic() - began, "".join(lines)
    if code != 0:
        raise NotMeasuredError(f"exit code {code}: {progress.text[-1500:]}")
    return progress


def _sample(process: subprocess.Popen[str], progress: Progress, has_ended: threading.Event) -> None:
    """Notes the largest resident memory of each process of the run and of all together, until it ends."""
    began = time.monotonic()
    while not has_ended.wait(SAMPLE_S):
        whole = 0
        try:
            root = psutil.Process(process.pid)
            for each in (root, *root.children(recursive=True)):
                kind, size = _kind(each, root.pid), each.memory_info().rss
                if kind != "player":
                    whole += size
                progress.rss[kind] = max(progress.rss.get(kind, 0), size)
                if kind == "EnvWorker":
                    progress.worker_rss.append((time.monotonic() - began, size))
        except psutil.Error:
            pass
        progress.whole_rss = max(progress.whole_rss, whole)


def _kind(process: psutil.Process, root: int) -> str:
    words = " ".join(process.cmdline())
    if "fakeunity" in words:
        return "player"
    for kind in ("Supervisor", "TrainerController", "PolicyHolder", "EnvWorker"):
        if f"unity-rl {kind}" in words:
            return kind
    return "launcher" if process.pid == root else "other"
