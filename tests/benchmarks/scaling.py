"""(g) Cost per agent step from 1 to 64 environments and from 1 to 1,000 agents on the memory link; players alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from fakeunity.memory import open_player
from fakeunity.spec import from_options
from runtime.players.replies import encode_reset
from tests.benchmarks.bare_loop import constant_step, introduction_answer
from tests.benchmarks.measure import Case, Figures, Side
from tests.benchmarks.runs import Work, run_ours

RATE = "agent steps/s"
EXCHANGES = 3000
WARM = 100


def alone(scene: str, agents: int) -> Figures:
    """World and wire of a player without a socket, on one core: the time is this process's own."""
    player = open_player(from_options(scene, [("agents", str(agents))], None), env_id=0, incarnation=0)
    for answer in (None, introduction_answer(), encode_reset()):
        player.exchange(answer)
    step = constant_step(scene, agents, 0)
    for _ in range(WARM):
        player.exchange(step)
    began = time.process_time()
    for _ in range(EXCHANGES):
        player.exchange(step)
    took = time.process_time() - began
    player.close()
    return {"agent steps/s on a core": EXCHANGES * agents / took, "µs on a core per exchange": 1e6 * took / EXCHANGES}


def rate(work: Work, folder: Path, *flags: str) -> Figures:
    """The steady rate of a run whose players are in its EnvWorkers."""
    return {RATE: run_ours(work, folder, *flags, url="&link=memory").steady_rate(work.max_steps)}


def cases(*, quick: bool = False) -> Iterator[Case]:
    """The player alone; a run in one process; environments; agents."""
    scale = 0.25 if quick else 1.0
    for scene in ("basic", "balance", "gridworld"):
        sides = [Side(f"{agents} agents", lambda _f, s=scene, a=agents: alone(s, a)) for agents in (1, 8, 32)]  # type: ignore[misc]
        yield Case("player alone", scene, tuple(sides))
    inline = _work(1, 32, int(400_000 * scale))
    yield Case(
        "one process", "1x32, link=memory", (Side("ours", lambda f: rate(inline, f, "--actor-system", "inline")),)
    )
    yield Case(
        "environments",
        "8 agents, one EnvWorker",
        tuple(_side(f"{envs} environments", _work(envs, 8, int(160_000 * scale))) for envs in (1, 4, 16, 64)),
    )
    yield Case(
        "agents",
        "1 environment",
        tuple(
            _side(f"{agents} agents", _work(1, agents, int(steps * scale)))
            for agents, steps in ((1, 30_000), (10, 150_000), (100, 400_000), (1000, 600_000))
        ),
    )


def _work(envs: int, agents: int, steps: int) -> Work:
    # The update is the same share of the work for all: 64 rows of each agent, at least 640 rows.
    buffer = max(640, 64 * envs * agents)
    settings = {"hyperparameters": {"batch_size": buffer // 10, "buffer_size": buffer, "learning_rate": 3e-4}}
    return Work(scene="basic", envs=envs, agents=agents, max_steps=steps, summary_freq=steps // 20, more=settings)


def _side(name: str, work: Work) -> Side:
    return Side(name, lambda folder: rate(work, folder, "--workers", "1"))
