"""Kills processes of real runs at random instants and checks what is promised then.

`python -m tests.soak.kills --victim VICTIM [--count 30] [--seed N] [--at S] [--keep] [-- ...]`, victims as in VICTIMS.

Each kill happens in a run of its own, at an instant drawn uniformly from the whole life of an undisturbed one:
start-up, updates and saves included. A victim that is not there yet is killed the moment it appears. A kill that comes
when the run, or the victim's part in it, is over does not count and is drawn again. A storm kills one after another in
the same run, from the drawn instant on, while the last victims are being started again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.support.training_runs import (
    PlayersCount,
    TrainingRun,
    journal_lines,
    players_count,
    short_run,
)

VICTIMS = ("launcher", "worker", "player", "holder", "storm")
STORM_KILLS = 8
NO_BUDGET = ("--max-lifetime-restarts", "-1", "--restarts-rate-limit-n", "-1")
RUN_S_MAX = 240.0
APPEARS_S_MAX = 60.0
NOTICED_S_MAX = 5.0
GONE_S_MAX = 10.0
DRAWS_PER_KILL_MAX = 4
CLOSING_S = 2.0


class BrokenPromiseError(AssertionError):
    """What was promised about killed processes did not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The runs in which something is killed.

    lasts_s: how long an undisturbed one takes, 0 if it is to be measured. more: further arguments of the command.
    """

    lasts_s: float = 0.0
    more: tuple[str, ...] = ()
    delay_ms: str = "1-3"
    max_steps: int = 6000
    checkpoint_interval: int = 1000

    def run(self, folder: Path, seed: int) -> AbstractContextManager[TrainingRun]:
        """One run."""
        return short_run(
            folder,
            *("--seed", str(seed), *self.more),
            delay_ms=self.delay_ms,
            max_steps=self.max_steps,
            checkpoint_interval=self.checkpoint_interval,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill that counts. at_s: seconds of the run. noticed_s, stepping_s: seconds after it, None if not measured."""

    victim: str
    at_s: float
    title: str
    noticed_s: float | None = None
    stepping_s: float | None = None
    note: str = ""


def measured(life: Life, folder: Path) -> Life:
    """The life with the time that an undisturbed run takes; its counters must equal its players' exactly."""
    folder.mkdir(parents=True, exist_ok=True)
    with life.run(folder, 1) as run:
        code = run.wait(RUN_S_MAX)
        took_s = time.monotonic() - run.began_s
        expect(code == 0, f"an undisturbed run ended with exit code {code}", run)
        summary, counted = run.summary(), players_count(folder / "journal")
        ours = PlayersCount(summary["env_steps"], summary["agent_steps"], summary["decisions"])
        expect(ours == counted, f"without any death {ours} is not what the players counted, {counted}", run)
    return replace(life, lasts_s=took_s)


def expect(holds: object, text: str, run: TrainingRun) -> None:
    """Raises BrokenPromiseError with what the run printed and logged."""
    if holds:
        return
    log = run.results / "run_logs" / "actors.log"
    logged = log.read_text(errors="replace")[-4000:] if log.exists() else "(none)"
    raise BrokenPromiseError(f"{text}\n--- printed:\n{run.text}\n--- actors.log:\n{logged}\n--- {run.folder}")


def kill_once(victim: str, life: Life, folder: Path, at_s: float, rng: random.Random) -> Kill | None:
    """One run, one kill, all checks; None when the kill came too late to count."""
    folder.mkdir(parents=True)
    life = replace(life, more=(*life.more, *NO_BUDGET)) if victim == "storm" else life
    with life.run(folder, rng.randrange(1000)) as run:
        run.until(run.has_ended, at_s - (time.monotonic() - run.began_s))
        if victim == "launcher":
            return launcher_killed(run)
        return _stormed(run, rng) if victim == "storm" else _part_killed(run, victim, rng)


def launcher_killed(run: TrainingRun) -> Kill | None:
    """Kills the launcher now, and checks what is left; None when the run has ended."""
    if run.has_ended():
        return None
    at_s = time.monotonic() - run.began_s
    gone_s = gone_after(run, run.kill)
    note = "no checkpoint yet"
    if run.checkpoints():
        newest = int(run.checkpoints()[-1].name)
        config = str(run.folder / "short.yaml")
        with TrainingRun(run.folder, config, "--env", "fake:constant", "--resume") as resumed:
            code = resumed.wait(RUN_S_MAX)
            expect(code == 0, f"--resume from step {newest} ended with exit code {code}", resumed)
            note = f"resumed from {newest}"
    return Kill(victim="launcher", at_s=at_s, title="launcher", noticed_s=gone_s, note=note)


def gone_after(run: TrainingRun, kill: Callable[[], object]) -> float:
    """Kills what the run cannot live without; seconds until no process and no port was left, the launcher aside."""
    ports = run.ports()
    at_s = time.monotonic() - run.began_s
    kill()
    left = run.nothing_left(GONE_S_MAX)
    expect(not left, f"10 s after the death at {at_s:.2f} s there still is: {left}", run)
    killed_at = run.began_at + at_s
    left_s = GONE_S_MAX - (time.monotonic() - run.began_s - at_s)
    run.until(lambda: not _still_held(ports, run.began_at, killed_at), left_s)
    gone_s = time.monotonic() - run.began_s - at_s
    held = _still_held(ports, run.began_at, killed_at)
    expect(not held, f"ports still open after {gone_s:.1f} s: {held}", run)
    return gone_s


def _still_held(ports: Sequence[int], began_at: float, killed_at: float) -> list[str]:
    """Those ports on which a process listens that was born in the run's time: it may have inherited them from the run.

    Others may be given a port again at once.
    """
    held = []
    for each in psutil.net_connections("tcp"):
        if each.status != psutil.CONN_LISTEN or not each.laddr or each.laddr.port not in ports or not each.pid:
            continue
        with contextlib.suppress(psutil.Error):
            owner = psutil.Process(each.pid)
            if began_at <= owner.create_time() <= killed_at:
                held.append(f"port {each.laddr.port} by {owner}")
    return held


def _part_killed(run: TrainingRun, victim: str, rng: random.Random) -> Kill | None:
    find: Callable[[], list[psutil.Process]] = run.players if victim == "player" else lambda: run.parts(victim)
    run.until(lambda: find() or run.has_ended(), APPEARS_S_MAX)
    found = find()
    if run.has_ended() or not found:
        return None
    process = rng.choice(sorted(found, key=lambda each: each.pid))
    title, journals = _title(process), set((run.folder / "journal").glob("*.jsonl"))
    killed_s = time.monotonic()  # before it: on a busy machine this process may not go on until it was told of
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return None
    at_s = killed_s - run.began_s
    if run.summary().get("exit_reason") is not None:
        return None
    line = run.wait_for(names(victim, process.pid), NOTICED_S_MAX, after_s=killed_s)
    stepping_s = None if victim == "holder" else _stepping_again(run, journals, killed_s)
    code = run.wait(RUN_S_MAX)
    expect(code == 0, f"{title} (pid {process.pid}) was killed at {at_s:.2f} s; exit code {code}", run)
    _check_counters(run)
    if line is None and _was_dismissed(run, victim, process.pid, killed_s):
        return None
    expect(line is not None, f"{title} (pid {process.pid}), killed at {at_s:.2f} s: no line within 5 s", run)
    assert line is not None
    is_over = "was not needed any more" in line.text
    expect(is_over or _is_in_summary(run, victim), f"{title}, killed at {at_s:.2f} s: not in summary.json", run)
    note = "at the end" if is_over else ""
    return Kill(victim=victim, at_s=at_s, title=title, noticed_s=line.at_s - killed_s, stepping_s=stepping_s, note=note)


def _stormed(run: TrainingRun, rng: random.Random) -> Kill | None:
    """Kills parts and players until it has been enough or the run is over; all of it must be survived."""
    at_s, killed = time.monotonic() - run.began_s, 0
    while killed < STORM_KILLS and not run.has_ended() and run.summary().get("exit_reason") is None:
        found = sorted((*run.all_parts()[1:], *run.players()), key=lambda each: each.pid)
        if found:
            with contextlib.suppress(psutil.NoSuchProcess):
                rng.choice(found).kill()
                killed += 1
        run.until(run.has_ended, rng.uniform(0.0, 1.5))
    code = run.wait(RUN_S_MAX)
    expect(code == 0, f"a storm of {killed} kills from {at_s:.2f} s on: exit code {code}", run)
    _check_counters(run)
    summary = run.summary()
    told = sum(summary["restarts"].values()) + sum(summary["workers"].values()) + summary["holder"]
    expect(told <= killed, f"{told} restarts after {killed} kills", run)
    return Kill(victim="storm", at_s=at_s, title=f"{killed} kills") if killed else None


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:60]
    except psutil.Error:
        return "?"


def names(victim: str, pid: int) -> Callable[[str], bool]:
    """Whether a line tells of this death. A process that is killed before its first own instruction has told no pid."""
    word = {"player": "environment ", "worker": "EnvWorker ", "holder": "PolicyHolder"}[victim]
    return lambda text: word in text and (f"pid {pid}" in text or "ended before it ran" in text)


def _stepping_again(run: TrainingRun, before: set[Path], killed_s: float) -> float | None:
    """Seconds until a new player had taken steps; None when the run ended before."""

    def is_stepping() -> bool:
        new = set((run.folder / "journal").glob("*.jsonl")) - before
        return any((lines := journal_lines(file)) and lines[-1]["agent_steps"] for file in new)

    run.until(lambda: is_stepping() or run.has_ended(), RUN_S_MAX)
    return time.monotonic() - killed_s if is_stepping() and not run.has_ended() else None


def _check_counters(run: TrainingRun) -> None:
    summary, counted = run.summary(), players_count(run.folder / "journal").agent_steps
    known = summary["agent_steps"] + sum(summary["lost_steps"].values())
    bound = known + summary["unreported_steps_max"]
    text = f"accepted + declared lost {known} <= the players' {counted} <= {bound} (with the unreported) does not hold"
    expect(known <= counted <= bound, text, run)


def _was_dismissed(run: TrainingRun, victim: str, pid: int, killed_s: float) -> bool:
    """Whether the victim had been told to leave, or the run was over but for the end of its processes."""
    summary_s = time.monotonic() - (time.time() - (run.results / "summary.json").stat().st_mtime)
    if victim == "player":
        ends = [journal_lines(file)[-1]["command"] for file in (run.folder / "journal").glob(f"*-{pid}.jsonl")]
        return ends in (["CLOSE"], ["QUIT"]) or killed_s > summary_s - CLOSING_S
    return killed_s > summary_s


def _is_in_summary(run: TrainingRun, victim: str) -> bool:
    summary = run.summary()
    if victim == "holder":
        return bool(summary["holder"])
    return any(summary["restarts" if victim == "player" else "workers"].values())


def kills(
    victim: str, count: int, seed: int, life: Life, *, folder: Path, at_s: float | None = None, keeps: bool = False
) -> list[Kill]:
    """`count` kills that count. Raises BrokenPromiseError that ends with the command to see it again.

    at_s: the instant of each, instead of drawn ones. keeps: the folders of runs in which all was well stay, too.
    """
    done: list[Kill] = []
    for number in range(count * DRAWS_PER_KILL_MAX):
        if len(done) == count:
            break
        rng = random.Random(f"{victim} {seed} {number}")
        instant_s = rng.uniform(0.0, life.lasts_s) if at_s is None else at_s
        place = folder / f"{victim}-{seed}-{number}"
        try:
            kill = kill_once(victim, life, place, instant_s, rng)
        except AssertionError as error:
            again = f"python -m tests.soak.kills --victim {victim} --count 1 --seed {seed} --at {instant_s:.3f} --keep"
            again += " -- " + " ".join(life.more) if life.more else ""
            raise BrokenPromiseError(f"{error}\nseed {seed}, draw {number}; reproduce: {again}") from error
        if not keeps:
            shutil.rmtree(place, ignore_errors=True)
        if kill is not None:
            done.append(kill)
            sys.stdout.write(f"{len(done):3} {_described(kill)}\n")
            sys.stdout.flush()
    return done


def _described(kill: Kill) -> str:
    noticed = "" if kill.noticed_s is None else f"noticed {kill.noticed_s:.2f} s"
    stepping = "" if kill.stepping_s is None else f", stepping {kill.stepping_s:.2f} s"
    return f"{kill.victim} at {kill.at_s:6.2f} s: {noticed}{stepping} {kill.note} [{kill.title}]"


def figures(done: Sequence[Kill]) -> str:
    """Medians and maxima of what was measured."""
    told = []
    for name in ("noticed_s", "stepping_s"):
        values = sorted(value for each in done if (value := getattr(each, name)) is not None)
        if values:
            told.append(f"{name}: median {statistics.median(values):.2f}, max {values[-1]:.2f} of {len(values)}")
    return "; ".join(told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, check, print figures; 0 when every promise held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kills")
    parser.add_argument("--victim", choices=VICTIMS, required=True)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--at", type=float, help="kill at this second of each run instead of a drawn one")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    parser.add_argument("more", nargs="*", help="after `--`: further arguments of the training command")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    sys.stdout.write(f"seed {options.seed}, in {folder}\n")
    try:
        life = Life(lasts_s=options.at or 0.0, more=tuple(options.more))
        if options.at is None:
            life = measured(life, folder / "undisturbed")
            sys.stdout.write(f"an undisturbed run takes {life.lasts_s:.1f} s and counts what its players count\n")
        place = folder / "runs"
        done = kills(
            options.victim, options.count, options.seed, life, folder=place, at_s=options.at, keeps=options.keep
        )
    except BrokenPromiseError as error:
        sys.stdout.write(f"BROKEN: {error}\n")
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{len(done)} kills of {options.victim}; {figures(done)}\n")
    return 0 if len(done) == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
