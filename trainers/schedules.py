"""Values that decay over a run: learning rate, clipping range and entropy bonus."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.learner import PPOHyperparameters, Schedule

LEARNING_RATE_FLOOR = 1e-10
EPSILON_FLOOR = 0.1
BETA_FLOOR = 1e-5


def scheduled(initial: float, schedule: Schedule, *, floor: float, progress: float) -> float:
    """The value after the share `progress` of the run (0 at the start, 1 at `max_steps` and after).

    Linear schedules end at `floor`, or stay at `initial` where that is lower: a schedule never raises a value.
    """
    if schedule == "constant" or initial <= floor:
        return initial
    return floor + (initial - floor) * (1.0 - min(max(progress, 0.0), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledValues:
    """The three scheduled hyperparameters at one moment."""

    learning_rate: float
    epsilon: float
    beta: float


def scheduled_values(settings: PPOHyperparameters, *, steps: int, max_steps: int) -> ScheduledValues:
    """Learning rate, epsilon and beta after `steps` of `max_steps` agent steps."""
    progress = steps / max(max_steps, 1)
    return ScheduledValues(
        learning_rate=scheduled(
            settings.learning_rate,
            settings.learning_rate_schedule,
            floor=LEARNING_RATE_FLOOR,
            progress=progress,
        ),
        epsilon=scheduled(settings.epsilon, settings.epsilon_schedule, floor=EPSILON_FLOOR, progress=progress),
        beta=scheduled(settings.beta, settings.beta_schedule, floor=BETA_FLOOR, progress=progress),
    )
