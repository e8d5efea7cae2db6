"""Many seeds, over one or more processes: how many were simulated, how fast, and which failed."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.pool import Pool

from runtime.simulation.garbage import collected_after
from runtime.simulation.lines import Line
from runtime.simulation.mutations import simulator_of
from runtime.simulation.scenarios import Profile, profile_of

CHUNK = 50


@dataclass(slots=True)
class Tally:
    """What came of some seeds. cpu_s: processor time. failures: the line that repeats each, and what was wrong."""

    schedules: int = 0
    events: int = 0
    cpu_s: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Include what came of other seeds."""
        self.schedules += other.schedules
        self.events += other.events
        self.cpu_s += other.cpu_s
        self.failures.extend(other.failures)
        self.faults.update(other.faults)

    @property
    def rate(self) -> float:
        """Schedules per second of one core."""
        return self.schedules / self.cpu_s if self.cpu_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Which seeds to simulate. profile: None for the one of each seed. mutant: empty for the code as it is."""

    first: int = 0
    count: int = 1000
    profile: Profile | None = None
    mutant: str = ""
    stops_at_failure: bool = False


def run_seeds(campaign: Campaign, seeds: range) -> Tally:
    """What came of these seeds, in this process."""
    total, began_s = Tally(), time.process_time()
    for start in range(seeds.start, seeds.stop, CHUNK):
        with collected_after():
            total.add(_run_chunk(campaign, range(start, min(start + CHUNK, seeds.stop))))
        if total.failures and campaign.stops_at_failure:
            break
    total.cpu_s = time.process_time() - began_s
    return total


def _run_chunk(campaign: Campaign, seeds: range) -> Tally:
    simulate, tally = simulator_of(campaign.mutant), Tally()
    for seed in seeds:
        profile = profile_of(seed) if campaign.profile is None else campaign.profile
        line = Line(profile=profile, seed=seed)
        outcome = simulate(line.scenario())
        tally.schedules += 1
        tally.events += outcome.events
        tally.faults.update(outcome.faults)
        if outcome.failure is not None:
            tally.failures.append((str(line), str(outcome.failure)))
            if campaign.stops_at_failure:
                break
        outcome.forget()
    return tally


def run_campaign(campaign: Campaign, jobs: int, progress: Callable[[Tally], None]) -> Tally:
    """What came of all seeds. progress: called with the sum so far after every chunk."""
    end = campaign.first + campaign.count
    chunks = [(campaign, range(at, min(at + CHUNK, end))) for at in range(campaign.first, end, CHUNK)]
    total = Tally()
    for tally in _tallies(chunks, jobs):
        total.add(tally)
        progress(total)
        if total.failures and campaign.stops_at_failure:
            break
    return total


def _tallies(chunks: list[tuple[Campaign, range]], jobs: int) -> Iterator[Tally]:
    if jobs <= 1:
        yield from (run_seeds(*chunk) for chunk in chunks)
        return
    # Leaving the block ends the processes, also those that a failure made needless.
    with started_processes(jobs) as pool:
        yield from pool.imap(_run_shared, chunks)


def started_processes(jobs: int) -> Pool:
    """Processes that Ctrl-C does not reach: they begin with it blocked, and are ended by the one that started them."""
    context = multiprocessing.get_context("spawn")
    if sys.platform == "win32":
        return context.Pool(jobs)
    resource_tracker.ensure_running()  # starting this one, of multiprocessing's own, would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return context.Pool(jobs)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_shared(chunk: tuple[Campaign, range]) -> Tally:
    return run_seeds(*chunk)
