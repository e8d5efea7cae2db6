"""Kills real processes of one long training at random, for many minutes, and checks after each what is promised.

`python -m tests.soak.marathon [--minutes 15] [--seed N] [--kills A-B] [--heart-every 20] [--json OUT] [--keep]`

Players, EnvWorkers and the PolicyHolder are killed one after another while the training runs over gRPC. Every 20th kill
is the launcher's or the TrainerController's; `--resume` goes on from what is left, in synchronous and asynchronous
collection in turn. The plan follows from the seed, and is written beside the results; `--kills A-B` makes only a part
of it. It ends by itself, about a minute after the time given at the latest, with exit code 0 or 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.soak.judgement import Account, verdict
from tests.soak.kills import NO_BUDGET, expect
from tests.soak.lives import Crew, Inherited, Life, Notes, inherited_in, journal_name
from tests.soak.report import Report, document, memories, table
from tests.soak.schedule import HEART_EVERY, Leg, Planned, kills_planned, kills_wanted, legs, pause_s, plan
from tests.support.ports import free_port
from tests.support.training_runs import TrainingRun

RUN_ID: Final = "marathon"
LAST_S: Final = 30.0
END_S_MAX: Final = 20.0
LAST_STEPS: Final = 2000
LAST_RUN_S_MAX: Final = 45.0
STEPS_MAX: Final = 100_000_000
BREACHES_MAX: Final = 3
BREACH_TEXT_MAX: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for. first, last: numbers of the kills to make. wanted: of these, None for 200 in 15 minutes."""

    seed: int
    minutes: float
    first: int
    last: int
    wanted: int | None = None
    heart_every: int = HEART_EVERY
    crew: Crew = Crew()

    def again(self, numbers: Sequence[int]) -> str:
        """The command that makes these kills once more, at the same pace."""
        text = f"python -m tests.soak.marathon --seed {self.seed} --minutes {self.minutes:g}"
        more = "" if self.heart_every == HEART_EVERY else f" --heart-every {self.heart_every}"
        return f"{text}{more} --kills {min(numbers)}-{max(numbers)}" if numbers else f"{text}{more}"


class Marathon:
    """One training from its first start to its end, killed again and again on the way."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.notes = Notes()
        self.breaches: list[str] = []
        self.has_completed = False
        self._options, self._folder = options, folder
        self.account = Account()
        whole = plan(options.seed, max(options.last, kills_planned(options.minutes)), options.heart_every)
        self._left = list(whole[options.first - 1 : options.last])
        self._share = len(self._left) / len(whole)
        self._ends_s = time.monotonic() + max(0.0, options.minutes * 60.0 * self._share - LAST_S)

    @property
    def kills_wanted(self) -> int:
        """How many kills have to be made."""
        if self._options.wanted is not None:
            return self._options.wanted
        return min(
            len(self._left) + len(self.notes.struck), int(kills_wanted(self._options.minutes) * self._share) or 1
        )

    def run(self) -> None:
        """All legs; what is broken is kept in `breaches`, and the next leg goes on."""
        (self._folder / "plan.txt").write_text("".join(f"{each}\n" for each in self._left))
        for leg in legs(self._left):
            if self._is_late() and leg.ends != "completed":
                continue
            try:
                self._one_leg(leg)
            except AssertionError as error:  # what is broken, and waits that were too long
                self._note_breach(leg, str(error))
            except Exception:  # noqa: BLE001 - a fault of this program must not cost the verdict on all the rest
                self._note_breach(leg, f"the marathon itself failed in {leg.title}\n{traceback.format_exc()}")
            if len(self.breaches) >= BREACHES_MAX:
                break

    def _note_breach(self, leg: Leg, text: str) -> None:
        again = f"reproduce: {self._options.again([each.number for each in leg.kills])}"
        self.breaches.append(text)
        file = self._folder / f"breach-{len(self.breaches)}.txt"
        file.write_text(f"{text}\n{again}\n")
        _say(f"BROKEN: {text[:BREACH_TEXT_MAX]}\nall of it: {file}\n{again}")

    def _is_late(self) -> bool:
        return time.monotonic() > self._ends_s

    def _one_leg(self, leg: Leg) -> None:
        began_s, before = time.monotonic(), len(self.notes.struck)
        inherited = inherited_in(self._folder / "results" / RUN_ID)
        is_last = leg.ends == "completed"
        with self._start(leg, inherited.base.accepted + LAST_STEPS if is_last else STEPS_MAX, inherited) as run:
            life = Life(run, leg.number, inherited, self._options.crew, self.notes)
            if is_last:
                self._complete(life)
            else:
                self._kill_all(life, leg)
        shutil.rmtree(self._folder / journal_name(leg.number), ignore_errors=True)
        made = len(self.notes.struck) - before
        took_s, in_all = time.monotonic() - began_s, len(self.notes.struck)
        _say(f"{leg.title}: {made} kills in {took_s:.0f} s, {leg.ends}; {in_all} kills so far, all as promised")

    def _start(self, leg: Leg, max_steps: int, inherited: Inherited) -> TrainingRun:
        crew = self._options.crew
        journal = self._folder / journal_name(leg.number)
        player = f"fake:constant?agents={crew.agents}&journal={journal}&delay_ms=8-12"
        command = [str(config(self._folder, max_steps)), "--env", player, "--seed", str(self._options.seed)]
        command += ["--num-envs", str(crew.environments), "--workers", str(crew.workers)]
        command += ["--base-port", str(free_port()), "--collection", "sync" if leg.is_sync else "async", *NO_BUDGET]
        # A first leg that was ended before its first save leaves nothing to go on from.
        command += ["--resume"] if inherited.has_save else ["--force"]
        return TrainingRun(self._folder, *command, run_id=RUN_ID)

    def _kill_all(self, life: Life, leg: Leg) -> None:
        for kill in leg.kills:
            pause = pause_s(kill, left_s=self._ends_s - time.monotonic(), left=self._left)
            life.look_for(pause)
            if self._is_late():
                break
            self._left.remove(kill)
            self._strike(life, kill)
            if kill.ends_run:
                return
        life.run.signal(signal.SIGINT)
        code = life.run.wait(END_S_MAX)
        expect(code == 130, f"{leg.title}: interrupted, and exit code {code}", life.run)
        life.check_end("interrupted")

    def _strike(self, life: Life, kill: Planned) -> None:
        if kill.ends_run:
            life.strike_heart(kill)
        else:
            life.strike_part(kill)

    def _complete(self, life: Life) -> None:
        life.look_for(LAST_RUN_S_MAX, life.run.has_ended)
        code = life.run.wait(1.0)
        expect(code == 0, f"the last leg ended with exit code {code}", life.run)
        account = life.check_end("max_steps")
        self.has_completed = True
        _say(f"the run has completed: {account.accepted} agent steps accepted")
        self.account = account


def config(folder: Path, max_steps: int) -> Path:
    """A configuration that updates every second or so and saves every few."""
    file = folder / "marathon.yaml"
    file.write_text(
        "behaviors:\n  Constant:\n    trainer_type: ppo\n"
        "    hyperparameters: {batch_size: 64, buffer_size: 512, num_epoch: 2, learning_rate: 1.0e-3}\n"
        "    network_settings: {hidden_units: 16, num_layers: 1}\n"
        f"    max_steps: {max_steps}\n    checkpoint_interval: 2000\n    keep_checkpoints: 3\n"
        "    time_horizon: 64\n    summary_freq: 1000\n"
    )
    return file


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, check, tell; 0 when every promise held and there were kills enough."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.marathon")
    parser.add_argument("--minutes", type=float, default=15.0, help="how long (15)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--kills", metavar="A-B", help="only these of the plan, in their share of the time")
    parser.add_argument("--heart-every", type=int, default=HEART_EVERY, help="which kill is one of the heart (20)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the figures go, too")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the run although all was well")
    asked = parser.parse_args(arguments)
    first, _, last = (asked.kills or f"1-{kills_planned(asked.minutes)}").partition("-")
    options = Options(
        seed=asked.seed, minutes=asked.minutes, first=int(first), last=int(last or first), heart_every=asked.heart_every
    )
    report = marathon(options, keeps=asked.keep)
    if asked.json is not None:
        asked.json.write_text(json.dumps(document(report), indent=1) + "\n", encoding="utf-8")
    return 1 if report.faults else 0


def marathon(options: Options, *, keeps: bool = False) -> Report:
    """The whole of it, with what is printed."""
    folder = Path(tempfile.mkdtemp(prefix="marathon-"))
    load, began_s, began_at = os.getloadavg()[0], time.monotonic(), datetime.now(UTC)
    _say(f"seed {options.seed}, kills {options.first} to {options.last}, load {load:.1f}, in {folder}")
    runner = Marathon(options, folder)
    runner.run()
    took_s = time.monotonic() - began_s
    memory = memories(runner.notes.memory, took_s)
    faults = verdict(
        runner.notes.struck,
        wanted=runner.kills_wanted,
        has_completed=runner.has_completed,
        breaches=runner.breaches,
        memory=memory,
    )
    report = Report(
        command=options.again(()),
        began_at=began_at.isoformat(timespec="seconds"),
        took_s=took_s,
        loads=(load, os.getloadavg()[0]),
        struck=tuple(runner.notes.struck),
        account=runner.account,
        orderly=tuple(runner.notes.orderly),
        comparisons=runner.notes.comparisons,
        rolled_back=runner.notes.rolled_back,
        memory=memory,
        faults=faults,
    )
    _say(table(report))
    if not faults and not keeps:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _say(f"the run is left in {folder}")
    return report


if __name__ == "__main__":
    sys.exit(main())
