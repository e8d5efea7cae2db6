"""(b) Updates: one PPO update of ours against the released trainer's loop over minibatches, on the same sizes.

The released trainer's time is what its own timers say of `_update_policy` in a run of its own; ours is taken around
everything from the filled buffer to the finished policy, its compilation left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runtime.learner import BehaviorSettings
from tests.benchmarks.measure import Case, Figures, NotMeasuredError, Side
from tests.benchmarks.runs import ROOT, Work, run_peer
from tests.benchmarks.scenes import behavior_of

UPDATES = 6
WARM = 2
UPDATE_S_MAX = 600.0
AGENTS = 32
MS = "ms per update"


def ours_in_process(scene: str, settings: Mapping[str, Any]) -> Figures:  # YAML
    """Median time of an update, in this process."""
    from tests.support.settings import parse  # noqa: PLC0415 - loads what only this process needs
    from tests.support.training import TrainingLoop  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "update.yaml"
        name = behavior_of(scene).name
        config.write_text(json.dumps({"behaviors": {name: settings}}))
        behavior = parse(str(config)).behaviors[name]
    times: list[float] = []
    if behavior.network_settings.memory is not None:
        return {MS: 1e3 * statistics.median(_recurrent_times(scene, behavior)[WARM:])}

    class TimedLoop(TrainingLoop):
        def update(self, name: str) -> None:
            began = time.perf_counter()
            super().update(name)
            times.append(time.perf_counter() - began)

    loop = TimedLoop(scene, behavior, agents=AGENTS)
    loop.start()
    while len(times) < WARM + UPDATES:
        loop.round()
    return {MS: 1e3 * statistics.median(times[WARM:])}


def _recurrent_times(scene: str, behavior: BehaviorSettings) -> list[float]:
    """Seconds of each update of a policy with memory, whose players are acted for as in an EnvWorker."""
    from tests.support.replicas import ReplicaLoop  # noqa: PLC0415 - as above

    loop, times = ReplicaLoop(scene, behavior, agents=AGENTS), list[float]()
    while len(times) < WARM + UPDATES:
        loop.play(-(-behavior.hyperparameters.buffer_size // AGENTS))
        began = time.perf_counter()
        loop.update()
        times.append(time.perf_counter() - began)
    return times


def ours(scene: str, settings: Mapping[str, Any]) -> Figures:  # YAML
    """The same in a process of its own, so that nothing is left of other measurements."""
    command = [sys.executable, "-m", "tests.benchmarks.update", scene, json.dumps(settings)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=UPDATE_S_MAX, check=False)
    if ran.returncode != 0:
        raise NotMeasuredError(ran.stderr[-1500:])
    figures: Figures = json.loads(ran.stdout.splitlines()[-1])
    return figures


def peer(work: Work, folder: Path) -> Figures:
    """What the released trainer's timers say of its updates."""
    run_peer(work, folder)
    (file,) = folder.glob("results/b/run_logs/timers.json")
    found = list(_named(json.loads(file.read_text()), "update_policy"))
    if not found:
        raise NotMeasuredError("its timers.json tells nothing of updates")
    total, count = max(found)
    return {MS: 1e3 * total / count}


def _named(node: Mapping[str, Any], name: str) -> Iterator[tuple[float, int]]:  # JSON
    """(total seconds, count) of the nodes whose name holds `name`."""
    for key, child in node.get("children", {}).items():
        if name in key:
            yield child["total"], child["count"]
        yield from _named(child, name)


def cases(*, quick: bool = False) -> Iterator[Case]:
    """2x128 and 3x512 over batches, pictures, and a memory."""
    sizes = [(64, 2, 128), (256, 2, 128), (1024, 2, 128), (256, 3, 512)]
    for batch, layers, width in sizes[:2] if quick else sizes:
        yield _case("balance", f"batch {batch}, {layers}x{width}", batch, {"hidden_units": width, "num_layers": layers})
    sight = {"hidden_units": 128, "num_layers": 1, "vis_encode_type": "simple"}
    yield _case("gridworld", "batch 64, pictures, simple", 64, sight)
    memory = {"memory_size": 128, "sequence_length": 64}
    yield _case(
        "hallway", "batch 256, 2x128, memory 128", 256, {"hidden_units": 128, "num_layers": 2, "memory": memory}
    )


def _case(scene: str, name: str, batch: int, network: Mapping[str, Any]) -> Case:  # YAML
    buffer, updates = 10 * batch, WARM + UPDATES + 1
    settings: dict[str, Any] = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": batch, "buffer_size": buffer, "learning_rate": 3e-4, "num_epoch": 3},
        "network_settings": dict(network),
        "time_horizon": 64,
        "max_steps": buffer * updates,
        "summary_freq": buffer,
    }
    work = Work(scene=scene, envs=1, agents=AGENTS, max_steps=buffer * updates, summary_freq=buffer, more=settings)
    sides = (Side("ours", lambda _folder: ours(scene, settings)), Side("mlagents-learn", lambda f: peer(work, f)))
    return Case("update", name, sides)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ours_in_process(sys.argv[1], json.loads(sys.argv[2]))) + "\n")
