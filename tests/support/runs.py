"""Whole runs of `runtime.train`, in this process (inline actors, TensorFlow loaded once) or in one of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.train import main

ROOT = Path(__file__).parents[2]
RUN_S_MAX = 200.0
TIMES = frozenset({"elapsed_s", "steps_per_s"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has ended: its exit code, what it said, and its folder."""

    code: int
    text: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:  # JSON
        document: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return document

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def lasting(self, *without: str) -> dict[str, Any]:  # JSON
        """The summary without what depends on time, and without the keys named."""
        return {key: value for key, value in self.summary.items() if key not in TIMES.union(without)}

    def files(self, pattern: str = "**/*") -> dict[str, bytes]:
        """The content of the run's files, by their path below its folder."""
        found = [path for path in self.folder.glob(pattern) if path.is_file()]
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in sorted(found)}


def train(results: Path, run_id: str, *argv: str) -> FinishedRun:
    """A run in this process, all actors inline; its player, unless `link=memory`, has a process of its own.

    run_id: empty for none on the command line.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["--actor-system", "inline", *_words(results, run_id), *argv])
    return FinishedRun(code=code, text=said.getvalue(), folder=_folder(results, run_id, said.getvalue()))


def train_in_processes(
    results: Path, run_id: str, *argv: str, variables: Mapping[str, str] | None = None
) -> FinishedRun:
    """The command as a user starts it, its actors in processes. variables: of its environment, beside ours."""
    done = subprocess.run(
        [sys.executable, "-m", "runtime.train", *_words(results, run_id), *argv],
        cwd=results,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    return FinishedRun(code=done.returncode, text=done.stdout, folder=_folder(results, run_id, done.stdout))


def _words(results: Path, run_id: str) -> list[str]:
    return ["--results-dir", str(results), *(["--run-id", run_id] if run_id else [])]


def _folder(results: Path, run_id: str, text: str) -> Path:
    claimed = re.search(r"^\[INFO\] Run ([^:]+): ", text, re.MULTILINE)
    return results / (claimed[1] if claimed and not run_id else run_id)


def config(folder: Path, *behaviors: str, name: str = "tiny.yaml", more: str = "", **values: object) -> Path:
    """A configuration for short runs, the same for each behavior. values: `hyperparameters` and other keys by name."""
    hyper: dict[str, object] = {"batch_size": 32, "buffer_size": 128, "learning_rate": "1.0e-3", "num_epoch": 2}
    network: dict[str, object] = {"normalize": "false", "hidden_units": 16, "num_layers": 1, "memory": "null"}
    network["vis_encode_type"] = "simple"
    rest: dict[str, object] = {"max_steps": 1500, "time_horizon": 32, "summary_freq": 500, "keep_checkpoints": 5}
    for key, value in values.items():
        next((part for part in (hyper, network) if key in part), rest)[key] = value
    lines = ["behaviors:"]
    for behavior in behaviors or ("Basic",):
        lines += [f"  {behavior}:", "    trainer_type: ppo", "    hyperparameters:"]
        lines += [f"      {key}: {value}" for key, value in hyper.items()]
        lines += ["    network_settings:", *(f"      {key}: {value}" for key, value in network.items())]
        lines += [f"    {key}: {value}" for key, value in rest.items()]
    path = folder / name
    path.write_text("\n".join(lines) + "\n" + more)
    return path


def journals(folder: Path) -> list[list[dict[str, Any]]]:  # JSON
    """What each player wrote of itself, one list of lines per player: a handshake begins a new one.

    By environment, and in each who ended first: numbers of processes, by which files are named, begin again some day.
    """
    players: list[list[dict[str, Any]]] = []
    for path in sorted(
        folder.glob("*.jsonl"), key=lambda path: (int(path.name.split("-")[0]), path.stat().st_mtime_ns)
    ):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["command"] == "HANDSHAKE":
                players.append([])
            players[-1].append(line)
    return players


def journal_totals(folder: Path) -> dict[str, int]:
    """The sums over all players of their last counts."""
    last = [player[-1] for player in journals(folder)]
    return {key: sum(each[key] for each in last) for key in ("env_steps", "agent_steps", "decisions", "episodes")}
