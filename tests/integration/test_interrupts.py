"""Ctrl-C: while a command still loads it ends without a word; twice in a run, and what is kept is told as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.progress import Console
from runtime.train import Training
from tests.support.runs import config, train
from tests.support.settings import parse

ROOT = Path(__file__).parents[2]
COMMANDS = ("train", "convert", "inspect", "record_demo", "simulate")
# Stand where the library's modules are looked for; every command of ours loads one of them, Python itself does not.
TRAPPED = ("argparse", "dataclasses")
TRAP = """\
import os, signal, sys
os.kill(os.getpid(), signal.SIGINT)
sys.path.remove({folder!r})
del sys.modules[__name__]
__import__(__name__)
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The command, which gets SIGINT while it imports what is trapped."""
    trap = folder / "trap"
    trap.mkdir()
    for name in TRAPPED:
        (trap / f"{name}.py").write_text(TRAP.format(folder=str(trap)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(trap), str(ROOT)))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "words",
    [
        *(("-m", f"runtime.{name}", "--help") for name in COMMANDS),
        ("-Xdev", "-mruntime.inspect", "-m", "x"),
        ("-m", "fakeunity", "--list"),
        ("-c", "from runtime.console import train; train()"),
        ("-c", "from fakeunity.__main__ import command; command()"),
    ],
    ids=" ".join,
)
def test_a_command_that_is_interrupted_while_it_loads_ends_by_the_signal_without_a_word(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = run(tmp_path, sys.executable, *words)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_installed_player_that_is_interrupted_while_it_loads_ends_by_the_signal_without_a_word(
    tmp_path: Path,
) -> None:
    from fakeunity.cli import main  # noqa: PLC0415 - beside the commands, which load it themselves

    assert main(["install", "basic", str(tmp_path / "player")]) == 0
    done = run(tmp_path, str(tmp_path / "player"))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("words", [("-c", "import program"), ("-m", "program", "runtime.train")])
def test_a_program_that_imports_us_has_its_keyboard_interrupt(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "program.py").write_text(
        "try:\n    import fakeunity.cli, runtime.console, runtime.train\nexcept KeyboardInterrupt:\n    print('mine')\n"
    )
    done = run(tmp_path, sys.executable, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")


def test_a_command_that_was_told_to_ignore_interrupts_ignores_them(tmp_path: Path) -> None:
    words = 'trap "" INT; exec "$0" -m runtime.inspect --help'
    done = run(tmp_path, "sh", "-c", words, sys.executable)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m runtime.inspect")


class ImpatientUser(Console):
    """Presses Ctrl-C as soon as the run is announced, so many times, and reads what is said."""

    def __init__(self, times: int) -> None:
        super().__init__(is_terminal=False)
        self.times = times
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)
        if text.startswith("[INFO] Run r: "):
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


def stopped(results: Path, *words: str, times: int) -> list[str]:
    """What a run says whose user stops it so often."""
    user = ImpatientUser(times)
    player = ("--env", "fake:basic?link=memory", "--actor-system", "inline")
    settings = parse(str(config(results)), *player, "--results-dir", str(results), "--run-id", "r", *words)
    assert Training(settings, user).run() == 130
    return user.lines


def left(results: Path, *words: str) -> list[str]:
    """What a run warns of whose user does not wait for the save."""
    return [text for text in stopped(results, *words, times=2) if text.startswith("[WARNING]")]


def test_who_stops_a_run_before_it_has_begun_is_told_that_nothing_was_saved(tmp_path: Path) -> None:
    nothing = "[INFO] Nothing was saved: the run had not begun."
    assert (nothing in stopped(tmp_path, times=1)) is not any(tmp_path.glob("r/checkpoints/*"))


def test_who_leaves_without_waiting_is_told_whether_there_is_a_checkpoint(tmp_path: Path) -> None:
    assert left(tmp_path) == ["[WARNING] Left without waiting for the save; nothing was saved."]
    player = ("--env", "fake:basic?link=memory", "--force", "--stop-at", "200")
    assert train(tmp_path, "r", str(config(tmp_path)), *player).code == 0
    assert left(tmp_path, "--resume") == ["[WARNING] Left without waiting for the save; the last checkpoint stands."]
