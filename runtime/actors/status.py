"""A Status for the screen, out of the controller's state and what its recorder holds."""

from __future__ import annotations

from runtime.decisions.controller_state import ControllerState
from runtime.messages import Status
from runtime.recording import RunRecorder
from runtime.status import BrainStatus, EnvStatus


def status_from(state: ControllerState, recorder: RunRecorder) -> Status:
    """How the run is, as of now."""
    counters = state.counters
    return Status(
        run=state.options.run,
        env_steps=counters.env_steps,
        agent_steps=counters.agent_steps,
        decisions=counters.decisions,
        lost_steps=dict(counters.lost),
        unreported_steps_max=counters.unreported_max,
        brains=brain_statuses(state, recorder),
        environments=env_statuses(state),
        worker_restarts=dict(state.worker_restarts),
        dropped_messages=dict(counters.dropped),
        lines=recorder.lines,
        first_step_s=recorder.first_step_s,
        replaced_numbers=counters.replaced_numbers,
    )


def brain_statuses(state: ControllerState, recorder: RunRecorder) -> tuple[BrainStatus, ...]:
    """One entry per behavior, in the order of names."""
    return tuple(
        BrainStatus(
            behavior=name,
            steps=each.steps,
            max_steps=each.max_steps,
            episodes=each.episodes,
            mean_reward=each.mean_reward,
            mean_episode_length=each.mean_episode_length,
            policy_version=each.version,
            acted_version=state.behaviors[name].acted_version if name in state.behaviors else -1,
            policy_sha256=recorder.sha256(name),
        )
        for name, each in sorted(state.progress.items())
    )


def env_statuses(state: ControllerState) -> tuple[EnvStatus, ...]:
    """One entry per environment, in the order of numbers."""
    return tuple(
        EnvStatus(
            env_id=env_id,
            incarnation=each.incarnation,
            worker=each.worker,
            state=each.state,
            player_pid=each.player_pid,
            restarts=each.restarts,
        )
        for env_id, each in sorted(state.envs.items())
    )
