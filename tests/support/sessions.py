"""Training sessions that a test holds itself, as an embedding program would."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from runtime.learner import LearnerFactory
from runtime.messages import Status
from runtime.session import TrainingSession
from runtime.train import make_learner, peek_run_state
from tests.support.ports import free_port
from tests.support.settings import parse
from tests.support.training_runs import short_config

POLL_S = 0.1


@contextlib.contextmanager
def short_session(folder: Path, *arguments: str, worker_silence_s: float = 15.0) -> Iterator[TrainingSession]:
    """A started session that would train two players over gRPC for long; closed at the end."""
    words = [str(short_config(folder, max_steps=1_000_000)), "--env", "fake:constant", "--num-envs", "2"]
    words += ["--workers", "2", "--base-port", str(free_port()), "--results-dir", str(folder), "--run-id", "s"]
    session = TrainingSession(
        parse(*words, *arguments),
        cast("LearnerFactory", make_learner),
        peek=peek_run_state,
        worker_silence_s=worker_silence_s,
    )
    session.start()
    try:
        yield session
    finally:
        session.close()


def polled(session: TrainingSession, is_wanted: Callable[[Status], bool], timeout_s: float) -> Status:
    """The first status that is wanted. Raises AssertionError with the last one when none comes, or the run ends."""
    deadline_s, status = time.monotonic() + timeout_s, None
    while time.monotonic() < deadline_s:
        status = session.poll(POLL_S) or status
        if status is not None and is_wanted(status):
            return status
        assert status is None or not status.exit_reason, _shown(status)
    raise AssertionError(f"not within {timeout_s:g} s; the last status: {_shown(status)}")


def _shown(status: Status | None) -> Status | None:
    """The status with few lines."""
    return None if status is None else replace(status, lines=status.lines[-5:])


def acted_version(status: Status) -> int:
    """The policy version that the newest accepted steps were taken with, -1 before there are any."""
    return max((each.acted_version for each in status.brains), default=-1)
