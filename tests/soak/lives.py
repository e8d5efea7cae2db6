"""One life of the training command under kills: what is looked at while it goes on, and what must hold at its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import psutil

from runtime.train import peek_run_state
from tests.soak.journals import JournalBook
from tests.soak.judgement import Account, Sample, Struck, account_of, account_saved, imbalance
from tests.soak.kills import GONE_S_MAX, NOTICED_S_MAX, expect, gone_after, names
from tests.soak.schedule import Planned
from tests.support.training_runs import TrainingRun, checkpoints_in, summary_in

LOOK_S: Final = 0.1
SAMPLE_S: Final = 1.0
APPEARS_S_MAX: Final = 30.0
BLOCKS_UNACKNOWLEDGED: Final = 2
BLOCK_STEPS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who takes part in a run."""

    environments: int = 4
    workers: int = 2
    agents: int = 2

    @property
    def in_flight_max(self) -> int:
        """Agent steps that may be on their way to the TrainerController: two blocks of each environment."""
        return BLOCKS_UNACKNOWLEDGED * BLOCK_STEPS_MAX * self.agents * self.environments


@dataclass(slots=True)
class _Awaited:
    """Environments that have to step again after a kill."""

    struck: Struck
    killed_s: float
    before: dict[int, frozenset[int]]


@dataclass(slots=True)
class Notes:
    """What a marathon has seen so far.

    memory: by (role, process id, birth). rolled_back: steps that no save held. comparisons: accounts held against the
    players' counts while a run went on. orderly: the players' count and the account of each run that ended in order.
    """

    began_s: float = field(default_factory=time.monotonic)
    struck: list[Struck] = field(default_factory=list)
    memory: dict[tuple[str, int, float], list[Sample]] = field(default_factory=dict)
    rolled_back: int = 0
    comparisons: int = 0
    orderly: list[tuple[int, Account]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What a run goes on from. elapsed_s: of the summary that its predecessor left, by which it is told apart."""

    base: Account
    has_save: bool
    elapsed_s: float | None


def inherited_in(results: Path) -> Inherited:
    """What there is in a run's folder; nothing, before the first."""
    has_save, elapsed_s = bool(checkpoints_in(results)), summary_in(results).get("elapsed_s")
    return Inherited(base=saved_account(results), has_save=has_save, elapsed_s=elapsed_s)


def journal_name(leg: int) -> str:
    """The folder in which the players of a leg count."""
    return f"journal-{leg}"


class Life:
    """A running command, looked at from outside.

    inherited: what its predecessor had left when it was started.
    """

    def __init__(self, run: TrainingRun, leg: int, inherited: Inherited, crew: Crew, notes: Notes) -> None:
        self.run = run
        self.kills = 0
        self._base, self._seen = inherited.base, inherited.elapsed_s
        self._leg, self._crew, self._notes = leg, crew, notes
        self._book = JournalBook(run.folder / journal_name(leg))
        self._counts: list[tuple[float, int]] = []
        self._awaited: list[_Awaited] = []
        self._sampled_s = 0.0

    # ---- looking

    def look_for(self, seconds: float, is_done: Callable[[], object] = lambda: False) -> bool:
        """Look at everything until something is so, for so many seconds at most; whether it is."""
        deadline_s = time.monotonic() + seconds
        while True:
            self.look()
            if is_done():
                return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or self.run.has_ended():
                return False
            self.run.until(self.run.has_ended, min(LOOK_S, left_s))

    def look(self) -> None:
        """Once: memory, the players' counts, who steps again, and the newest summary."""
        now_s = time.monotonic()
        self._book.read()
        self._counts.append((time.time(), self._book.agent_steps))
        self._note_who_is_back(now_s)
        if now_s - self._sampled_s >= SAMPLE_S:
            self._sampled_s = now_s
            self._sample_memory()
        self._check_summary()

    def _note_who_is_back(self, now_s: float) -> None:
        for each in list(self._awaited):
            if all(self._book.has_stepped(env_id, not_in=pids) for env_id, pids in each.before.items()):
                self._awaited.remove(each)
                place = next(n for n, struck in enumerate(self._notes.struck) if struck.number == each.struck.number)
                self._notes.struck[place] = replace(each.struck, back_s=now_s - each.killed_s)

    def _sample_memory(self) -> None:
        at_s = time.monotonic() - self._notes.began_s
        for process in self.run.family():
            with contextlib.suppress(psutil.Error):
                role, born_at = role_of(process, self.run.pid), process.create_time()
                cpu_s = sum(process.cpu_times()[:2])
                sample = Sample(at_s, time.time() - born_at, process.memory_info().rss / 2**20, cpu_s)
                self._notes.memory.setdefault((role, process.pid, born_at), []).append(sample)

    def _check_summary(self) -> None:
        summary = self.run.summary()
        if not summary or summary["elapsed_s"] == self._seen:
            return
        self._seen = summary["elapsed_s"]
        if summary["exit_reason"] is not None:
            return  # checked at the end, with nothing in flight, if this end was in order
        written_at = (self.run.results / "summary.json").stat().st_mtime
        before = max((count for at, count in self._counts if at < written_at), default=0)
        self._counts = self._counts[-1:]
        self._book.read()
        account = account_of(summary).since(self._base)
        self._notes.comparisons += 1
        text = imbalance(
            account,
            counted_before=before,
            counted_after=self._book.agent_steps,
            in_flight_max=self._crew.in_flight_max,
        )
        expect(not text, f"leg {self._leg}, after {self.kills} kills: {text}", self.run)
        text = f"leg {self._leg}: {account.restarts} restarts after {self.kills} kills"
        expect(account.restarts <= self.kills, text, self.run)

    # ---- killing

    def strike_part(self, kill: Planned) -> None:
        """Kill a player, an EnvWorker or the PolicyHolder; it must be told of in time."""
        found: list[psutil.Process] = []

        def look() -> bool:
            found[:] = self._victims(kill)
            return bool(found)

        self.look_for(APPEARS_S_MAX, look)
        expect(found, f"kill {kill.number}: there is no {kill.victim}, or the run has ended", self.run)
        process = found[kill.which % len(found)]
        before = self._before(kill, process)
        killed_s = time.monotonic()  # before it: on a busy machine this process may not go on until it was told of
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        self.kills += 1
        line = self.run.wait_for(names(kill.victim, process.pid), NOTICED_S_MAX, after_s=killed_s)
        earlier = [f"{each.at_s - killed_s:.2f} s" for each in self.run.lines if f"pid {process.pid}" in each.text]
        text = f"kill {kill.number}: {kill.victim} (pid {process.pid}), leg {self._leg}: no line within 5 s of it"
        text += f" (others that name it, relative to the kill: {earlier})"
        expect(line is not None, text, self.run)
        assert line is not None
        struck = self._note(kill, killed_s, line.at_s - killed_s)
        if before:
            self._awaited = [each for each in self._awaited if not before.keys() & each.before.keys()]
            self._awaited.append(_Awaited(struck, killed_s, before))

    def _victims(self, kill: Planned) -> list[psutil.Process]:
        if kill.victim == "holder":
            found = self.run.titled("PolicyHolder")
            return [] if found is None else [found]
        if kill.victim == "worker":
            each = self.run.titled(f"EnvWorker {kill.which % self._crew.workers}")
            return [] if each is None else [each]
        env_id = kill.which % self._crew.environments
        return [each for each in self.run.players() if env_of(each) == env_id]

    def _before(self, kill: Planned, process: psutil.Process) -> dict[int, frozenset[int]]:
        """The environments that the victim has, with the players that they had so far."""
        if kill.victim == "holder":
            return {}
        with contextlib.suppress(psutil.Error):
            players = [process] if kill.victim == "player" else process.children()
            self._book.read()
            envs = {env_id for each in players if (env_id := env_of(each)) is not None}
            doomed = frozenset(each.pid for each in players)
            return {env_id: self._book.pids_of(env_id) | doomed for env_id in envs}
        return {}

    def _note(self, kill: Planned, killed_s: float, noticed_s: float) -> Struck:
        struck = Struck(
            number=kill.number,
            victim=kill.victim,
            leg=self._leg,
            at_s=killed_s - self._notes.began_s,
            noticed_s=noticed_s,
        )
        self._notes.struck.append(struck)
        return struck

    def strike_heart(self, kill: Planned) -> None:
        """Kill the launcher or the TrainerController: nothing may be left, and the last save stands."""
        found: Sequence[psutil.Process] = ()

        def look() -> bool:
            nonlocal found
            found = self.run.parts("controller")
            return bool(found)

        if kill.victim == "controller":
            self.look_for(APPEARS_S_MAX, look)
            expect(found, f"kill {kill.number}: there is no TrainerController", self.run)
        expect(not self.run.has_ended(), f"kill {kill.number}: the run has ended before it", self.run)
        before = len(self.run.lines)
        killed_s = time.monotonic()
        if kill.victim == "launcher":
            noticed_s = gone_after(self.run, self.run.kill)
        else:
            gone_after(self.run, found[0].kill)
            noticed_s = self._controller_noticed_s(kill, before, killed_s)
        self._note(kill, killed_s, noticed_s)
        self._book.read()
        self._notes.rolled_back += self._book.agent_steps - saved_account(self.run.results).since(self._base).known

    def _controller_noticed_s(self, kill: Planned, before: int, killed_s: float) -> float:
        code = self.run.wait(max(0.1, GONE_S_MAX - (time.monotonic() - killed_s)))
        expect(code == 4, f"kill {kill.number}: TrainerController, exit code {code}", self.run)
        lines = [each for each in self.run.lines[before:] if "[ERROR]" in each.text and "Controller" in each.text]
        expect(lines, f"kill {kill.number}: nothing said of the TrainerController", self.run)
        noticed_s = lines[0].at_s - killed_s
        expect(noticed_s <= NOTICED_S_MAX, f"kill {kill.number}: told of after {noticed_s:.1f} s", self.run)
        return noticed_s

    # ---- ends in order

    def check_end(self, reason: str) -> Account:
        """After an orderly end: every step is accounted for exactly, and every kill was one restart."""
        left = self.run.nothing_left(1.0)
        expect(not left, f"leg {self._leg} has ended and there still is: {left}", self.run)
        summary = self.run.summary()
        expect(summary["exit_reason"] == reason, f"leg {self._leg}: {summary['exit_reason']}, not {reason}", self.run)
        self._book.read()
        counted, account = self._book.agent_steps, account_of(summary).since(self._base)
        text = imbalance(account, counted_before=counted, counted_after=counted, in_flight_max=0)
        expect(not text, f"leg {self._leg}, at its end after {self.kills} kills: {text}", self.run)
        text = f"leg {self._leg}: {account.restarts} restarts after {self.kills} kills"
        expect(account.restarts == self.kills, text, self.run)
        self._notes.orderly.append((counted, account))
        return account_of(summary)


def saved_account(results: Path) -> Account:
    """The account in a run's newest checkpoint; an empty one without any."""
    newest = checkpoints_in(results)[-1:]
    return account_saved(peek_run_state(newest)) if newest else Account()


def env_of(player: psutil.Process) -> int | None:
    """Which environment's player a process is."""
    with contextlib.suppress(psutil.Error):
        for word in player.cmdline():
            if word.startswith("--env-id="):
                return int(word.removeprefix("--env-id="))
    return None


def role_of(process: psutil.Process, launcher: int) -> str:
    """The role of a process of the run, in words of the documents."""
    if process.pid == launcher:
        return "launcher"
    words = process.cmdline()
    if "--mlagents-port" in words:
        return "player"
    title = words[0].removeprefix("unity-rl ").partition(" (run")[0] if words else ""
    named = title.rstrip(" 0123456789")
    return named if named in {"admin", "Supervisor", "TrainerController", "PolicyHolder", "EnvWorker"} else "starting"
