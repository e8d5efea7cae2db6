"""Processes of a run are killed at random moments: every transition that was stored pairs, every counter is bounded."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import psutil
import pytest

from runtime.actors.composition import RunPlan
from runtime.actors.controller_start import ControllerStart
from runtime.actors.run_system import ProcessSystem
from runtime.actors.system import open_actor_system
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorOptions
from runtime.experience.brains import EnvId
from runtime.learner import BehaviorSettings, LearnerOptions
from runtime.messages import StartWorker, Status, StopRequest
from runtime.recording_options import RecordingOptions
from tests.support.paired import PairedFactory, PairedLearner, counted, journals_in

RUN, WAIT_S, BLOCK = "pairs", 60.0, 10
WORKERS = ((EnvId(0), EnvId(1)), (EnvId(2),))


def behavior_settings(behavior: str) -> BehaviorSettings:
    del behavior
    return BehaviorSettings(max_steps=1_000_000_000, checkpoint_interval=500)


def plan(root: Path, *, is_sync: bool, lies: bool = False) -> RunPlan:
    """A run whose players and learner check each other."""
    template = StartWorker(
        run=RUN,
        worker=0,
        environments=(),
        env_factory=cloudpickle.dumps(PairedFactory(str(journals_in(root)), lies=lies)),
        run_seed=1,
        start_timeout_s=WAIT_S,
        step_timeout_s=WAIT_S,
        block_steps_max=BLOCK,
    )
    limits = RestartLimits(lifetime_max=-1, rate_max=-1)
    learner = LearnerOptions(run_seed=1, settings_for=behavior_settings, keeps_versions=3)
    recording = RecordingOptions(
        run_id=RUN, seed=1, root=str(root), launched_s=time.monotonic(), launched_at=time.time()
    )
    return RunPlan(
        run=RUN,
        supervisor=SupervisorOptions(run=RUN, worker_envs=WORKERS, template=template, ports={}, limits=limits),
        controller=ControllerStart(
            options=ControllerOptions(run=RUN, environments=3, is_sync=is_sync, block_steps_max=BLOCK),
            recording=recording,
            learner=cloudpickle.dumps((PairedLearner, learner)),
        ),
    )


@contextlib.contextmanager
def running(root: Path, *, is_sync: bool, lies: bool = False) -> Iterator[ProcessSystem]:
    """The run, in processes of its own."""
    handle = open_actor_system(run_id=RUN, log_file=root / "actors.log")
    try:
        yield ProcessSystem(handle, plan(root, is_sync=is_sync, lies=lies))
    finally:
        handle.close()


def await_status(system: ProcessSystem, is_wanted: Callable[[Status], bool]) -> Status:
    """Ask until the status is as wanted."""
    deadline_s, status = time.monotonic() + WAIT_S, None
    while time.monotonic() < deadline_s:
        status = system.status(1.0)
        assert not system.lost()
        if status is not None and is_wanted(status):
            return status
    raise AssertionError(f"not within {WAIT_S:g} s: {status}")


def part(title: str) -> psutil.Process | None:
    """A part of this run; None while there is none."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if " ".join(process.cmdline()).startswith(f"unity-rl {title} (run {RUN})"):
                return process
    return None


def test_a_reward_that_does_not_follow_ends_the_run(tmp_path: Path) -> None:
    with running(tmp_path, is_sync=True, lies=True) as system:
        last = await_status(system, lambda each: bool(each.exit_reason))
    assert (last.exit_reason, last.exit_code) == ("trainer_failure", 4)
    assert last.cause.startswith("PAIR: ")


@pytest.mark.parametrize("is_sync", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["sync", "async"])
def test_what_is_stored_pairs_and_what_is_counted_is_bounded_whoever_is_killed(
    tmp_path: Path, *, is_sync: bool
) -> None:
    rng = random.Random(7)
    with running(tmp_path, is_sync=is_sync) as system:
        status = await_status(system, lambda each: each.agent_steps > 100)
        for victim in ("EnvWorker 0", "PolicyHolder", "EnvWorker 1", "EnvWorker 0"):
            steps = status.agent_steps + rng.randint(1, 400)
            await_status(system, lambda each, steps=steps: each.agent_steps >= steps)  # type: ignore[misc]
            process = part(victim)
            assert process is not None, f"there is no {victim}"
            process.kill()
            # Beyond what may have been under way: those that were lost step again.
            steps += 600
            status = await_status(system, lambda each, steps=steps: each.agent_steps >= steps)  # type: ignore[misc]
            assert status.exit_reason == "", status.cause
        system.request_stop(StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=WAIT_S))
        last = await_status(system, lambda each: bool(each.exit_reason))
    assert (last.exit_reason, last.exit_code) == ("interrupted", 130), last.cause
    assert last.worker_restarts == {0: 2, 1: 1}
    env_steps, agent_steps, decisions = counted(tmp_path / "journals")
    known = last.agent_steps + sum(last.lost_steps.values())
    assert known <= agent_steps <= known + last.unreported_steps_max
    assert last.env_steps <= env_steps
    assert last.decisions <= decisions
    assert last.unreported_steps_max > 0
