"""Where and how a run is recorded; light, because the launcher and the Supervisor hold it too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """Where and how a run is recorded.

    launched_s: monotonic seconds when the run began; launched_at: the same in seconds since 1970. keeps: checkpoints
    kept, and step models per behavior. is_training: False writes no model. lesson_brains: of each parameter that has
    lessons, the behavior that they are for.
    """

    run_id: str
    seed: int
    root: str
    launched_s: float
    launched_at: float
    keeps: int = 5
    workers: int = 1
    is_training: bool = True
    lesson_brains: Mapping[str, str] = field(default_factory=dict)
