"""Measures how soon a run is back at its full rate after a kill, and what the other environments keep meanwhile.

`python -m tests.soak.recovery [--kills 12] [--victims player,worker] [--delay-ms 8-12] [--seed N] [--json OUT]`

One asynchronous run of four environments over gRPC, whose players are paced by `delay_ms`; what they use of a core is
told. Kills come one at a time, each after some seconds at the full rate, so that its cost stands alone. `nobody` is
measured like the others without a kill: what the rates do by themselves on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.soak.journals import JournalBook
from tests.soak.judgement import share
from tests.soak.kills import NO_BUDGET, NOTICED_S_MAX, BrokenPromiseError, expect, names
from tests.soak.lives import env_of
from tests.soak.marathon import config
from tests.soak.rates import WINDOW_S, Recovery, Trace, missed_goals
from tests.support.ports import free_port
from tests.support.training_runs import TrainingRun

VICTIMS: Final = ("nobody", "player", "worker", "holder")
WORKERS: Final = 2
LOOK_S: Final = 0.04
USUAL_S: Final = 4.0
SETTLES_S: Final = 1.5
BACK_S_MAX: Final = 30.0
STARTS_S_MAX: Final = 120.0
UPDATES_BEFORE: Final = 6
OTHERS_S_MIN: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Who takes part, and how fast. delay_ms: of each answer of a player."""

    environments: int = 4
    agents: int = 2
    delay_ms: str = "8-12"


class Watched:
    """A run whose environments' rates are followed."""

    def __init__(self, run: TrainingRun, pace: Pace) -> None:
        self.run = run
        self.traces = {env_id: Trace() for env_id in range(pace.environments)}
        self.first_lines: dict[int, float] = {}
        self._book = JournalBook(run.folder / "journal")
        # Times of birth count from a time of boot that is known to the second only.
        self.birth_error_s = psutil.Process(run.pid).create_time() - run.began_at

    def look_for(self, seconds: float) -> None:
        """Follow the rates for so long. Raises BrokenPromiseError when the run ends meanwhile."""
        deadline_s = time.monotonic() + seconds
        while True:
            self._book.read()
            now_s = time.monotonic()
            for env_id, trace in self.traces.items():
                trace.add(now_s, self._book.env_steps_of(env_id))
            for entry in self._book.entries:
                self.first_lines.setdefault(entry.pid, time.time())
            expect(not self.run.has_ended(), "the run has ended while it was measured", self.run)
            if now_s >= deadline_s:
                return
            self.run.until(self.run.has_ended, LOOK_S)

    def pids(self) -> dict[int, int]:
        """The living player of each environment."""
        return {env_id: each.pid for each in self.run.players() if (env_id := env_of(each)) is not None}

    def share_of(self, usual: Mapping[int, float], envs: AbstractSet[int], from_s: float, to_s: float) -> float:
        """How much of their usual rate these environments had together."""
        return sum(self.traces[each].rate(from_s, to_s) for each in envs) / sum(usual[each] for each in envs)

    def players_share(self, seconds: float) -> float:
        """What all players together use of a core while nobody is killed."""
        before, began_s = self._cpu_s(), time.monotonic()
        self.look_for(seconds)
        return (self._cpu_s() - before) / (time.monotonic() - began_s)

    def _cpu_s(self) -> float:
        return sum(each.cpu_times().user + each.cpu_times().system for each in self.run.players())


def recover(watched: Watched, victim: str, rng: random.Random) -> Recovery:
    """Kill one part or player, and measure until its environments step as before."""
    watched.look_for(USUAL_S + rng.uniform(0.0, 1.0))
    process, envs = _victim(watched.run, victim, rng)
    killed_s = time.monotonic()
    usual = {env_id: trace.rate(killed_s - USUAL_S, killed_s) for env_id, trace in watched.traces.items()}
    expect(all(usual.values()), f"not all environments step: {usual}", watched.run)
    noticed_s = 0.0 if process is None else _noticed_s(watched.run, victim, process, killed_s)
    others = {env_id for env_id in usual if env_id not in envs}
    back_s = 0.0 if process is None else _until_back(watched, usual, others, killed_s)
    until_s = killed_s + max(back_s, OTHERS_S_MIN)
    watched.look_for(max(0.0, until_s - time.monotonic()) + SETTLES_S)
    kept = watched.share_of(usual, others, killed_s, until_s)
    start_s = _start_s(watched, envs)
    return Recovery(victim=victim, noticed_s=noticed_s, back_s=back_s, start_s=start_s, others=kept)


def _noticed_s(run: TrainingRun, victim: str, process: psutil.Process, killed_s: float) -> float:
    process.kill()
    line = run.wait_for(names(victim, process.pid), NOTICED_S_MAX, after_s=killed_s)
    expect(line is not None, f"{victim} (pid {process.pid}): no line within 5 s", run)
    assert line is not None
    return line.at_s - killed_s


def _victim(run: TrainingRun, victim: str, rng: random.Random) -> tuple[psutil.Process | None, set[int]]:
    """A process to kill, and the environments that go with it; None for nobody."""
    if victim == "nobody":
        return None, set()
    if victim == "holder":
        found = [run.titled("PolicyHolder")]
    elif victim == "worker":
        found = [run.titled(f"EnvWorker {number}") for number in range(WORKERS)]
    else:
        found = [*run.players()]
    there = sorted((each for each in found if each is not None), key=lambda each: each.pid)
    expect(there, f"there is no {victim}", run)
    process = rng.choice(there)
    of_it = {"holder": [], "worker": process.children(), "player": [process]}[victim]
    return process, {env_id for each in of_it if (env_id := env_of(each)) is not None}


def _until_back(watched: Watched, usual: Mapping[int, float], others: AbstractSet[int], killed_s: float) -> float:
    """Seconds until all that went with the victim step as before; until all do, where nothing went with it.

    BACK_S_MAX when they do not in that time.
    """
    envs = usual.keys() - others or usual.keys()

    def share_of_usual(at_s: float) -> float:
        if envs != usual.keys():
            return watched.share_of(usual, others, at_s, at_s + WINDOW_S)
        # Nobody was spared: what they do in the two windows after this one is what the machine has to give.
        return watched.share_of(usual, envs, at_s + WINDOW_S, at_s + 3 * WINDOW_S)

    needs_s = WINDOW_S if envs != usual.keys() else 3 * WINDOW_S
    while time.monotonic() < killed_s + BACK_S_MAX:
        watched.look_for(WINDOW_S / 4)
        found = [
            watched.traces[each].full_from(killed_s, usual[each], share_of_usual, needs_s=needs_s) for each in envs
        ]
        at_s = [each for each in found if each is not None]
        if len(at_s) == len(found):
            return max(at_s) - killed_s
    return BACK_S_MAX


def _start_s(watched: Watched, envs: set[int]) -> float:
    """From birth to the first exchange, the slowest of the new players; 0 where none was started."""
    found = [0.0]
    for env_id, pid in watched.pids().items():
        if env_id in envs and pid in watched.first_lines:
            with contextlib.suppress(psutil.Error):
                born_at = psutil.Process(pid).create_time() - watched.birth_error_s
                found.append(watched.first_lines[pid] - born_at)
    return max(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of one kind of victim."""

    victim: str
    kills: int
    noticed_s: tuple[float, float]
    back_s: tuple[float, float, float]
    start_s: float
    others: float
    others_worst: float

    @staticmethod
    def of(recoveries: Sequence[Recovery]) -> Measured:
        """Median and maximum; median, p95 and maximum; median; mean and minimum."""
        noticed, back = [each.noticed_s for each in recoveries], [each.back_s for each in recoveries]
        others = [each.others for each in recoveries]
        return Measured(
            victim=recoveries[0].victim,
            kills=len(recoveries),
            noticed_s=(statistics.median(noticed), max(noticed)),
            back_s=(statistics.median(back), share(back, 0.95), max(back)),
            start_s=statistics.median(each.start_s for each in recoveries),
            others=statistics.mean(others),
            others_worst=min(others),
        )

    def faults(self, steady: float) -> tuple[str, ...]:
        """Which goals it misses. steady: what all kept of their rate while nobody was killed, 1 if not measured."""
        # Everybody acts with what the PolicyHolder hands on: there are no others then.
        others = self.others / min(1.0, steady) if self.victim in {"player", "worker"} else None
        return missed_goals(self.victim, back_s_p95=self.back_s[1], start_s=self.start_s, others=others)

    @property
    def row(self) -> str:
        """For a person."""
        others = f"{self.others:.1%} (worst {self.others_worst:.1%})"
        noticed, back = (" / ".join(f"{each:.2f}" for each in figures) for figures in (self.noticed_s, self.back_s))
        return f"{self.victim:8}{self.kills:>6}  {noticed:24}{back:30}{self.start_s:>8.2f}    {others}"


HEADER: Final = (
    f"{'victim':8}{'kills':>6}  {'noticed s: median/max':24}{'full rate s: median/p95/max':30}{'start s':>8}"
    "    others keep of their rate"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that was measured. players_share: what all players together used of a core. usual: env steps/s of the run."""

    seed: int
    pace: Pace
    loads: tuple[float, float]
    players_share: float
    usual: float
    measured: tuple[Measured, ...]
    faults: tuple[str, ...]
    recoveries: tuple[Recovery, ...]


def measure(victims: Sequence[str], kills: int, seed: int, pace: Pace, folder: Path) -> Outcome:
    """`kills` of each victim, in turn: when the machine is busy for a while, all of them meet it."""
    load, rng, recoveries = os.getloadavg()[0], random.Random(seed), []
    with _run(folder, seed, pace) as run:
        watched = Watched(run, pace)
        # The first updates wait for their compilation, and everybody for them.
        run.until(lambda: _updates(run) >= UPDATES_BEFORE or run.has_ended(), STARTS_S_MAX)
        players_share, now_s = watched.players_share(USUAL_S), time.monotonic()
        usual = sum(each.rate(now_s - USUAL_S, now_s) for each in watched.traces.values())
        _say(f"{usual:.0f} env steps/s; all players together use {players_share:.0%} of a core")
        for _ in range(kills):
            for victim in victims:
                recoveries.append(recover(watched, victim, rng))
                _say(_described(recoveries[-1]))
    measured = tuple(Measured.of([each for each in recoveries if each.victim == victim]) for victim in victims)
    steady = next((each.others for each in measured if each.victim == "nobody"), 1.0)
    return Outcome(
        seed=seed,
        pace=pace,
        loads=(load, os.getloadavg()[0]),
        players_share=players_share,
        usual=usual,
        measured=measured,
        faults=tuple(fault for each in measured for fault in each.faults(steady)),
        recoveries=tuple(recoveries),
    )


def _updates(run: TrainingRun) -> int:
    return sum(run.summary().get("policy_version", {}).values())


def _run(folder: Path, seed: int, pace: Pace) -> TrainingRun:
    player = f"fake:constant?agents={pace.agents}&journal={folder / 'journal'}&delay_ms={pace.delay_ms}"
    command = [str(config(folder, 100_000_000)), "--env", player, "--seed", str(seed), "--collection", "async"]
    command += ["--num-envs", str(pace.environments), "--workers", str(WORKERS), "--base-port", str(free_port())]
    return TrainingRun(folder, *command, *NO_BUDGET)


def _described(one: Recovery) -> str:
    times = f"noticed {one.noticed_s:.2f} s, full rate {one.back_s:.2f} s, start {one.start_s:.2f} s"
    return f"{one.victim}: {times}, others {one.others:.1%}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell; 0 when the goals were reached, 1 when not."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.recovery")
    parser.add_argument("--kills", type=int, default=12, help="of each kind of victim (12)")
    parser.add_argument("--victims", default=",".join(VICTIMS), help=f"which ({', '.join(VICTIMS)})")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--delay-ms", default=Pace().delay_ms, help="what a player waits before each answer (8-12)")
    parser.add_argument("--environments", type=int, default=4)
    parser.add_argument("--agents", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the figures go, too")
    asked = parser.parse_args(arguments)
    pace = Pace(environments=asked.environments, agents=asked.agents, delay_ms=asked.delay_ms)
    folder = Path(tempfile.mkdtemp(prefix="recovery-"))
    _say(f"seed {asked.seed}, in {folder}")
    try:
        outcome = measure(asked.victims.split(","), asked.kills, asked.seed, pace, folder)
    except BrokenPromiseError as error:
        _say(f"BROKEN: {error}\nreproduce: python -m tests.soak.recovery --seed {asked.seed} --kills {asked.kills}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    _say("\n".join([HEADER, *(each.row for each in outcome.measured)]))
    _say(f"load of the machine {outcome.loads[0]:.1f} before, {outcome.loads[1]:.1f} after")
    _say("PASSED" if not outcome.faults else "\n".join(f"FAILED: {each}" for each in outcome.faults))
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(outcome), indent=1) + "\n", encoding="utf-8")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
