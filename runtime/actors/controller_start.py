"""What a TrainerController is made from; light, because the launcher and the Supervisor hold it too."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.decisions.controller_state import ControllerOptions
from runtime.recording_options import RecordingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStart:
    """What a TrainerController is made from.

    learner: cloudpickled (LearnerFactory, LearnerOptions). resume: checkpoint folders to go on from, newest first;
    initialize: the same for weights alone. agent_idle_steps_max: env steps after which a silent agent is cut off.
    """

    options: ControllerOptions
    recording: RecordingOptions
    learner: bytes
    resume: tuple[str, ...] = ()
    initialize: tuple[str, ...] = ()
    agent_idle_steps_max: int = 10_000
