"""A leashed player dies with the process that started it, and is started like any other."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.players.leash import leashed_command

ENDED_S_MAX = 8.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is asked on Linux only")

OWNER = """
import os, subprocess, sys
from runtime.players.leash import leashed_command
tell = os.pipe()[1]
player = subprocess.Popen(leashed_command(["sleep", "60"], os.getpid(), tell), stdout=sys.stdout, pass_fds=[tell])
print(player.pid, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended: its exit code, what it printed, and what was told of its start."""

    returncode: int
    stdout: str
    told: str


def run(command: list[str], parent_pid: int | None = None) -> Done:
    told, tell = os.pipe()
    leashed = leashed_command(command, os.getpid() if parent_pid is None else parent_pid, tell)
    try:
        done = subprocess.run(
            leashed, stdout=subprocess.PIPE, text=True, timeout=ENDED_S_MAX, check=False, pass_fds=[tell]
        )
    finally:
        os.close(tell)
    with open(told, encoding="utf-8") as heard:  # noqa: PTH123 - a descriptor
        return Done(done.returncode, done.stdout, heard.read())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_player_dies_with_its_owner(number: signal.Signals) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        player = int(owner.stdout.readline())
        owner.send_signal(number)
        # The player holds the other end of this pipe.
        reader = threading.Thread(target=owner.stdout.read, daemon=True)
        reader.start()
        reader.join(ENDED_S_MAX)
        assert not reader.is_alive(), f"the player, pid {player}, lives"


def test_a_player_gets_its_arguments_and_environment_and_gives_its_exit_code() -> None:
    program = "import sys; print(sys.argv[1:]); sys.exit(7)"
    done = run([sys.executable, "-c", program, "-batchmode", "a b", "--x=$HOME"])
    assert done.returncode == 7
    assert done.stdout == "['-batchmode', 'a b', '--x=$HOME']\n"
    assert done.told == ""


def test_a_player_does_not_get_the_descriptor_that_tells_of_its_start() -> None:
    listing = run([sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/fd')))"])
    assert listing.stdout == "4\n"  # the three of every process, and the listing itself


def test_a_player_that_cannot_be_started_is_named_with_the_reason(tmp_path: Path) -> None:
    missing = str(tmp_path / "no such player")
    done = run([missing])
    assert (done.returncode, done.told) == (127, "No such file or directory")
    plain = tmp_path / "not executable"
    plain.write_text("x")
    done = run([str(plain)])
    assert (done.returncode, done.told) == (127, "Permission denied")


def test_a_player_whose_owner_has_ended_is_not_started(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert run(["mkdir", str(made)], parent_pid=os.getppid()).returncode == 70
    assert not made.exists()


def test_the_process_keeps_its_pid_when_it_becomes_the_player() -> None:
    told, tell = os.pipe()
    command = leashed_command([sys.executable, "-c", "import os; print(os.getpid())"], os.getpid(), tell)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[tell]) as player:
        os.close(tell)
        os.close(told)
        assert player.communicate(timeout=ENDED_S_MAX)[0].strip() == str(player.pid)
