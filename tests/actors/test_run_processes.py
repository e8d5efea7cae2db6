"""The parts of a run are real processes, and each does what it is there for."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runtime.messages import Status
from runtime.session import TrainingSession
from tests.support.sessions import acted_version, polled, short_session
from tests.support.training_runs import TITLE, short_run

STARTS_S_MAX = 120.0
PART_TITLES = ["EnvWorker 0", "EnvWorker 1", "PolicyHolder", "Supervisor", "TrainerController", "admin"]


def maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text(errors="replace")


def test_the_parts_are_processes_of_their_own_and_one_of_them_has_tensorflow(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.wait_for(lambda text: ". Step: " in text, STARTS_S_MAX), run.text
        pids = {title: process.pid for title in PART_TITLES if (process := run.titled(title)) is not None}
        assert sorted(pids) == sorted(PART_TITLES)
        assert len({run.pid, *pids.values()}) == 1 + len(PART_TITLES)
        everybody = [run.pid, *(process.pid for process in run.processes())]
        assert len(everybody) >= len(PART_TITLES) + 3
        assert [pid for pid in everybody if "tensorflow" in maps(pid)] == [pids["TrainerController"]]
        assert run.pid not in {pid for pid in everybody if "libonnx" in maps(pid)}
        if hasattr(os, "SCHED_BATCH"):  # who works without pause waits for its turn; who must answer at once does not
            polite = {title for title, pid in pids.items() if os.sched_getscheduler(pid) == os.SCHED_BATCH}
            assert polite == {"EnvWorker 0", "EnvWorker 1", "TrainerController"}


def part(title: str) -> psutil.Process:
    """A part of the session that this process holds. Raises AssertionError while there is none."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if " ".join(process.cmdline()).startswith(f"{TITLE}{title} (run s)"):
                return process
    raise AssertionError(f"no process called {title}")


def test_without_the_policy_holder_the_version_acted_with_stops_rising(tmp_path: Path) -> None:
    with short_session(tmp_path) as session:
        polled(session, lambda status: acted_version(status) >= 2, STARTS_S_MAX)
        holder = part("PolicyHolder")
        holder.suspend()
        # What the PolicyHolder had sent before may still arrive.
        stopped = polled(session, _is_standing_still(), 60.0)
        still = _watched_for(session, 2.0)
        assert acted_version(still) == acted_version(stopped)
        assert still.agent_steps == stopped.agent_steps
        assert max(each.policy_version for each in still.brains) == acted_version(still) + 1
        holder.resume()
        polled(session, lambda status: acted_version(status) >= acted_version(still) + 2, 60.0)


def _is_standing_still(for_s: float = 1.5) -> Callable[[Status], bool]:
    """Whether the version acted with has been the same for a while."""
    last = (-1, time.monotonic())

    def is_still(status: Status) -> bool:
        nonlocal last
        if acted_version(status) != last[0]:
            last = (acted_version(status), time.monotonic())
        return time.monotonic() - last[1] > for_s

    return is_still


def _watched_for(session: TrainingSession, seconds: float) -> Status:
    """The status after some time."""
    end_s = time.monotonic() + seconds
    return polled(session, lambda _: time.monotonic() > end_s, seconds + 10.0)


@pytest.mark.parametrize("moment", ["while its player starts", "while it steps"])
def test_a_hung_worker_is_ended_and_started_again(tmp_path: Path, moment: str) -> None:
    with short_session(tmp_path, worker_silence_s=4.0) as session:
        if moment == "while it steps":
            polled(session, lambda status: status.agent_steps > 0, STARTS_S_MAX)
        else:
            polled(session, lambda _: _has_player("EnvWorker 1"), STARTS_S_MAX)
        worker = part("EnvWorker 1")
        worker.suspend()
        told = polled(session, lambda status: any("taken for hung" in text for _, text in status.lines), 30.0)
        assert any("EnvWorker 1 has said nothing for 4 s" in text for _, text in told.lines)
        polled(session, lambda status: status.worker_restarts.get(1, 0) == 1, 60.0)
        assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
        back = polled(session, lambda status: status.environments[1].state == "stepping", STARTS_S_MAX)
        assert back.environments[1].incarnation == 1
        polled(session, lambda status: status.agent_steps > back.agent_steps + 1000, STARTS_S_MAX)


def _has_player(title: str) -> bool:
    try:
        return bool(part(title).children())
    except (AssertionError, psutil.Error):
        return False
