"""Runs the training command as a user does, in a folder of its own, and looks at it from outside."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
WHOSE = "UNITY_RL_TEST_RUN"
LOOK_S = 0.01
TITLE = "unity-rl "
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Line:
    """One line that a run printed, and when it came (monotonic seconds)."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class PlayersCount:
    """What the players of a run counted themselves, all incarnations together."""

    env_steps: int
    agent_steps: int
    decisions: int


class TrainingRun:
    """A running `python -m runtime.train`; leaving the context kills it with all its processes."""

    def __init__(self, folder: Path, *arguments: str, run_id: str = "k", new_group: bool = False) -> None:
        self.folder = folder
        self.results = folder / "results" / run_id
        self.name = f"{os.getpid()}-{next(_numbers)}"
        self.lines: list[Line] = []
        self._has_news = threading.Condition()
        self._is_silent = False
        environment = {**os.environ, WHOSE: self.name, "SPT_NOENV": "1", "PYTHONPATH": str(ROOT)}
        self.began_s, self.began_at = time.monotonic(), time.time()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runtime.train", "--run-id", run_id, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=new_group,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self._process.pid

    @property
    def text(self) -> str:
        """All that was printed so far."""
        return "\n".join(line.text for line in list(self.lines))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            with self._has_news:
                self.lines.append(Line(time.monotonic(), text.rstrip("\n")))
                self._has_news.notify_all()
        with self._has_news:
            self._is_silent = True
            self._has_news.notify_all()

    def wait_for(self, is_wanted: Callable[[str], bool], timeout_s: float, *, after_s: float = 0.0) -> Line | None:
        """The first line that is wanted and came after `after_s`; None when none comes in time or the run has ended."""
        found: list[Line] = []

        def look() -> bool:
            found[:] = [line for line in self.lines if line.at_s >= after_s and is_wanted(line.text)][:1]
            return bool(found) or self._is_silent

        with self._has_news:
            self._has_news.wait_for(look, timeout_s)
        return found[0] if found else None

    def wait(self, timeout_s: float) -> int:
        """The exit code. Raises AssertionError, with what was printed, when the run does not end in time."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run has not ended within {timeout_s:g} s; it printed:\n{self.text}") from None
        self._reader.join(10.0)
        return code

    def has_ended(self) -> bool:
        """Whether the launcher has ended."""
        return self._process.poll() is not None

    def signal(self, number: signal.Signals, *, whole_group: bool = False) -> None:
        """Send a signal to the launcher, or to its process group as a terminal does."""
        if whole_group:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL to the launcher."""
        self._process.kill()
        self._process.wait(10.0)

    # ---- its processes

    def processes(self) -> list[psutil.Process]:
        """All living processes of the run, the launcher aside, by a mark in their environment."""
        return [each for each in psutil.process_iter() if each.pid != self.pid and self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return process.environ().get(WHOSE) == self.name and process.status() != psutil.STATUS_ZOMBIE
        return False

    def parts(self, kind: str) -> list[psutil.Process]:
        """Processes of `controller`, `holder` or `worker` while none was started again: by the order of births."""
        born = self.all_parts()
        return {"controller": born[:1], "holder": born[1:2], "worker": born[2:]}[kind]

    def all_parts(self) -> list[psutil.Process]:
        """What the Supervisor has started and what lives, oldest first; the TrainerController is the first of them."""
        supervisor = self.titled("Supervisor")
        if supervisor is None:
            return []
        with contextlib.suppress(psutil.Error):
            return sorted(supervisor.children(), key=lambda each: (each.create_time(), each.pid))
        return []

    def titled(self, title: str) -> psutil.Process | None:
        """The process with this title, such as `Supervisor` or `EnvWorker 0`, once it has it."""
        return next((each for each in self._descendants() if _command(each).startswith(TITLE + title + " ")), None)

    def players(self) -> list[psutil.Process]:
        """Player processes."""
        return [each for each in self._descendants() if "--mlagents-port" in _command(each)]

    def family(self) -> list[psutil.Process]:
        """The launcher and all that descends from it."""
        with contextlib.suppress(psutil.Error):
            return [psutil.Process(self.pid), *self._descendants()]
        return []

    def _descendants(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def ports(self) -> list[int]:
        """Ports on which processes of the run listen."""
        found = set()
        for process in [psutil.Process(self.pid), *self.processes()]:
            with contextlib.suppress(psutil.Error):
                found |= {
                    each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN
                }
        return sorted(found)

    def nothing_left(self, timeout_s: float) -> str:
        """Empty once no process of the run is left; what there still is after `timeout_s`."""
        self.until(lambda: not self.processes(), timeout_s)
        return ", ".join(f"pid {each.pid}: {_command(each)}" for each in self.processes())

    def until(self, is_done: Callable[[], object], timeout_s: float) -> bool:
        """Look again and again until something is so; False when it is not within `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while not is_done():
            if time.monotonic() > deadline_s:
                return False
            pause.wait(LOOK_S)
        return True

    # ---- its files

    def summary(self) -> Mapping[str, Any]:  # `Any`: JSON, with the documented keys
        """summary.json, empty before there is one."""
        return summary_in(self.results)

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return checkpoints_in(self.results)

    # ---- as a context

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(10.0)
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._reader.join(10.0)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        return " ".join(process.cmdline())
    return ""


def summary_in(results: Path) -> Mapping[str, Any]:  # `Any`: JSON, with the documented keys
    """A run's summary.json, empty before there is one."""
    try:
        content: Mapping[str, Any] = json.loads((results / "summary.json").read_bytes())
    except FileNotFoundError:
        return {}
    return content


def checkpoints_in(results: Path) -> list[Path]:
    """A run's complete checkpoints, oldest first."""
    complete = [
        each.parent for each in (results / "checkpoints").glob("*/manifest.json") if each.parent.name.isdecimal()
    ]
    return sorted(complete, key=lambda each: int(each.name))


def journal_lines(file: Path) -> list[Mapping[str, Any]]:
    """The whole lines of a player's journal; one that a kill cut short is left out."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def players_count(journal: Path) -> PlayersCount:
    """The sum of what all players that wrote to this folder counted."""
    last = [lines[-1] for file in sorted(journal.glob("*.jsonl")) if (lines := journal_lines(file))]
    return PlayersCount(
        env_steps=sum(each["env_steps"] for each in last),
        agent_steps=sum(each["agent_steps"] for each in last),
        decisions=sum(each["decisions"] for each in last),
    )


def short_config(
    folder: Path, *, max_steps: int = 1500, checkpoint_interval: int = 500, buffer_size: int = 256
) -> Path:
    """A configuration for `constant` whose run is short, updates often and saves often."""
    file = folder / "short.yaml"
    file.write_text(
        "behaviors:\n  Constant:\n    trainer_type: ppo\n"
        f"    hyperparameters: {{batch_size: 64, buffer_size: {buffer_size}, num_epoch: 2, learning_rate: 1.0e-3}}\n"
        "    network_settings: {hidden_units: 16, num_layers: 1}\n"
        f"    max_steps: {max_steps}\n    checkpoint_interval: {checkpoint_interval}\n    keep_checkpoints: 3\n"
        "    time_horizon: 64\n    summary_freq: 500\n"
    )
    return file


@contextlib.contextmanager
def short_run(
    folder: Path, *arguments: str, delay_ms: str = "0-0", new_group: bool = False, **config: int
) -> Iterator[TrainingRun]:
    """A short run of two players over gRPC, each in an EnvWorker of its own, which write to `folder/journal`."""
    player = f"fake:constant?journal={folder / 'journal'}&delay_ms={delay_ms}"
    command = [str(short_config(folder, **config)), "--env", player, "--num-envs", "2", "--workers", "2"]
    with TrainingRun(folder, *command, "--base-port", str(free_port()), *arguments, new_group=new_group) as run:
        yield run
