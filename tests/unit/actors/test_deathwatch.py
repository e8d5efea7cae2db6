"""A process follows a dead one at once, after its last wishes, and is not fooled by a reused pid."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.actors.deathwatch import EXIT_CODE, life_of
from runtime.actors.spawning import RUN_VARIABLE
from runtime.actors.sweep import run_processes, sweep_run, wait_until_gone

ENDED_S_MAX = 8.0

WATCHER = """
import os, sys, threading
from runtime.actors import deathwatch
{before}
deathwatch.watch(int(sys.argv[1]), "the launcher"{more})
print("watching", flush=True)
threading.Event().wait(60)
"""


def watcher(pid: int, before: str = "", more: str = "") -> subprocess.Popen[str]:
    program = WATCHER.format(before=before, more=more)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def sleeper(**environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=ENDED_S_MAX)
    return process.returncode, errors


def test_a_process_follows_the_one_it_watches() -> None:
    with sleeper() as watched, watcher(watched.pid) as follower:
        assert line(follower) == "watching"
        watched.kill()
        code, errors = ended(follower)
    assert code == EXIT_CODE
    assert f"the launcher (pid {watched.pid}) is gone" in errors


def test_the_last_wishes_are_carried_out_even_if_one_fails(tmp_path: Path) -> None:
    wish = tmp_path / "wish"
    before = f"deathwatch.on_death(lambda: 1 / 0)\ndeathwatch.on_death(lambda: os.mkdir({str(wish)!r}))"
    with sleeper() as watched, watcher(watched.pid, before) as follower:
        assert line(follower) == "watching"
        watched.kill()
        assert ended(follower)[0] == EXIT_CODE
    assert wish.exists()


def test_a_wish_that_was_taken_back_is_not_carried_out(tmp_path: Path) -> None:
    wish = tmp_path / "wish"
    before = (
        f"wish = lambda: os.mkdir({str(wish)!r})\ndeathwatch.on_death(wish)\n"
        "deathwatch.forget_on_death(wish)\ndeathwatch.forget_on_death(wish)"
    )
    with sleeper() as watched, watcher(watched.pid, before) as follower:
        assert line(follower) == "watching"
        watched.kill()
        assert ended(follower)[0] == EXIT_CODE
    assert not wish.exists()


def test_a_wish_that_hangs_delays_the_end_by_two_seconds_only() -> None:
    with sleeper() as watched, watcher(watched.pid, "deathwatch.on_death(threading.Event().wait)") as follower:
        assert line(follower) == "watching"
        watched.kill()
        begin = time.monotonic()
        assert ended(follower)[0] == EXIT_CODE
        assert time.monotonic() - begin < 4.0


def test_watching_one_that_has_ended_ends_at_once() -> None:
    with sleeper() as watched:
        watched.kill()
        watched.wait()
    with watcher(watched.pid) as follower:
        assert ended(follower)[0] == EXIT_CODE


def test_a_zombie_counts_as_ended() -> None:
    with sleeper() as watched:
        watched.kill()
        os.waitid(os.P_PID, watched.pid, os.WEXITED | os.WNOWAIT)
        assert life_of(watched.pid).started is None
        with watcher(watched.pid) as follower:
            assert ended(follower)[0] == EXIT_CODE


def test_a_reused_pid_is_not_mistaken_for_the_one_meant() -> None:
    with sleeper() as other, watcher(other.pid, more=f", started={(life_of(other.pid).started or 0) - 1}") as follower:
        assert ended(follower)[0] == EXIT_CODE
        other.kill()


POLLING = """
import sys, threading
from runtime.actors.deathwatch import _DeadMan, life_of
_DeadMan(use_pidfds=False).watch(life_of(int(sys.argv[1])), "the launcher")
print("watching", flush=True)
threading.Event().wait(60)
"""


def test_without_pidfds_the_end_is_seen_as_well() -> None:
    with (
        sleeper() as watched,
        subprocess.Popen(
            [sys.executable, "-c", POLLING, str(watched.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as follower,
    ):
        assert line(follower) == "watching"
        watched.kill()
        watched.wait()
        assert ended(follower)[0] == EXIT_CODE


def test_a_forked_child_watches_too() -> None:
    before = "import warnings; warnings.simplefilter('ignore')"
    program = WATCHER.format(before=before, more="").replace(
        'print("watching", flush=True)', 'pid = os.fork()\nprint("child" if pid == 0 else "parent", flush=True)'
    )
    with (
        sleeper() as watched,
        subprocess.Popen(
            [sys.executable, "-c", program, str(watched.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as follower,
    ):
        assert {line(follower), line(follower)} == {"child", "parent"}
        watched.kill()
        code, errors = ended(follower)  # the pipe is closed only when both have ended
    assert code == EXIT_CODE
    assert errors.count("is gone") == 2


def test_a_sweep_kills_the_processes_of_the_run_and_no_others() -> None:
    with sleeper(**{RUN_VARIABLE: "swept-1"}) as ours, sleeper(**{RUN_VARIABLE: "swept-11"}) as other:
        assert [life.pid for life in run_processes("swept-1")] == [ours.pid]
        assert sweep_run("swept-1") == [ours.pid]
        assert ours.wait(ENDED_S_MAX) == -9
        assert other.poll() is None
        assert sweep_run("swept-1") == []
        other.kill()


def test_waiting_for_one_that_stays_has_a_deadline() -> None:
    with sleeper() as stays:
        life = life_of(stays.pid)
        begin = time.monotonic()
        assert wait_until_gone([life], 0.2) == [life]
        assert 0.15 < time.monotonic() - begin < 2.0
        stays.kill()
        assert wait_until_gone([life], ENDED_S_MAX) == []


@pytest.mark.parametrize("pid", [2**22 + 1])
def test_no_process_has_no_life(pid: int) -> None:
    assert life_of(pid).started is None
