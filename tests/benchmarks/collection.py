"""(a) Collection: a complete training run against the bare exchange loop and against the released trainer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.measure import Case, Figures, NotMeasuredError, Side
from tests.benchmarks.runs import ROOT, Work, run_ours, run_peer
from tests.support.ports import free_port

RATE = "agent steps/s"
BARE_S = 6.0
WALK = 2
"""The action with which agents of `basic` end an episode every 7 steps, as trained ones do; with 0 they stand still."""
BARE_WALK = "bare loop, trained walk"
SMALL_CNN: dict[str, Any] = {  # YAML
    "hyperparameters": {"batch_size": 64, "buffer_size": 640, "learning_rate": 3e-4},
    "network_settings": {"hidden_units": 64, "num_layers": 1, "vis_encode_type": "simple"},
}


def bare(scene: str, envs: int, agents: int, *, action: int = 0) -> Figures:
    """Exchanges and agent steps per second of the bare loop with such players; action: what all agents always do."""
    first = free_port(envs)
    ports = [str(port) for port in range(first, first + envs)]
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.benchmarks.bare_loop",
                    scene,
                    *map(str, (agents, action, BARE_S)),
                    *ports,
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(server.kill)
        players = []
        for port in ports:
            command = [sys.executable, "-m", "fakeunity", scene, "--agents", str(agents), "--mlagents-port", port]
            player = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
            stack.callback(player.kill)
            players.append(psutil.Process(player.pid))
        assert server.stdout is not None
        server.stdout.readline()  # they step from now on
        share = _share_of_a_core(players, BARE_S - 1.0)
        told, _ = server.communicate(timeout=BARE_S + 120)
        if server.returncode != 0:
            raise NotMeasuredError(f"the bare loop ended with exit code {server.returncode}")
    counted = json.loads(told)
    exchanges = counted["exchanges"] / counted["seconds"]
    server_us = 1e6 * counted["cpu_seconds"] / counted["exchanges"]
    return {
        "exchanges/s": exchanges,
        RATE: exchanges * agents,
        "server's µs on a core per exchange": server_us,
        "player's µs on a core per exchange": 1e6 * share / exchanges,
    }


def _share_of_a_core(processes: Sequence[psutil.Process], seconds: float) -> float:
    """Seconds on a core, of all of them, per second of these seconds."""
    began, before = time.monotonic(), _cpu_s(processes)
    threading.Event().wait(seconds)
    return (_cpu_s(processes) - before) / (time.monotonic() - began)


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def ours(work: Work, folder: Path, *flags: str) -> Figures:
    """The steady rate of a complete run of ours."""
    return {RATE: run_ours(work, folder, *flags).steady_rate(work.max_steps)}


def peer(work: Work, folder: Path) -> Figures:
    """The steady rate of the released trainer."""
    return {RATE: run_peer(work, folder).steady_rate(work.max_steps)}


def cases(*, quick: bool = False) -> Iterator[Case]:
    """1x1, 1x8, 4x8, 8x32 environments x agents of `basic`, and pictures."""
    scale = 0.25 if quick else 1.0
    # Environments, agents, agent steps for us, agent steps for the released trainer (0: it is not run).
    for envs, agents, steps, peer_steps in ((1, 1, 16_000, 5_000), (1, 8, 80_000, 12_000), (4, 8, 120_000, 16_000)):
        yield _basic(envs, agents, int(steps * scale), int(peer_steps * scale))
    yield _basic(8, 32, int(600_000 * scale), 0)
    yield _pictures(int(8_000 * scale))


def _basic(envs: int, agents: int, steps: int, peer_steps: int) -> Case:
    work = Work(scene="basic", envs=envs, agents=agents, max_steps=steps, summary_freq=steps // 20)
    sides = [
        Side("bare loop", lambda _folder: bare("basic", envs, agents)),
        Side(BARE_WALK, lambda _folder: bare("basic", envs, agents, action=WALK)),
        Side("ours, sync", lambda folder: ours(work, folder)),
        Side("ours, async", lambda folder: ours(work, folder, "--collection", "async")),
    ]
    if peer_steps:
        less = Work(scene="basic", envs=envs, agents=agents, max_steps=peer_steps, summary_freq=peer_steps // 10)
        sides.append(Side("mlagents-learn", lambda folder: peer(less, folder)))
    return Case("collection", f"{envs}x{agents}", tuple(sides))


def _pictures(steps: int) -> Case:
    work = Work(scene="gridworld", envs=1, agents=8, max_steps=steps, summary_freq=steps // 10, more=SMALL_CNN)
    less = replace(work, max_steps=steps // 4, summary_freq=steps // 20)
    sides = (
        Side("bare loop", lambda _folder: bare("gridworld", 1, 8)),
        Side("ours, sync", lambda folder: ours(work, folder)),
        Side("ours, async", lambda folder: ours(work, folder, "--collection", "async")),
        Side("mlagents-learn", lambda folder: peer(less, folder)),
    )
    return Case("collection", "1x8 pictures 84x84x3", sides)
