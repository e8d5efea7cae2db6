"""What cannot be trained yet, refused by name when a brain is announced."""

from __future__ import annotations

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import BehaviorSettings

GOAL_SIGNAL = 1


def refuse_unsupported(brain: BrainParameters, settings: BehaviorSettings) -> None:
    """Raises UsageError when `brain` or its settings need something that learning cannot do."""
    name = brain.brain_name
    for index, spec in enumerate(brain.observation_specs):
        if len(spec.shape) == 3:
            raise UsageError(
                f"brain {name!r}: visual observations are not supported yet (observation {index}, {spec.name!r}, has "
                f"shape {spec.shape}); expected vector observations. Remove the camera or render texture sensor.",
            )
        if len(spec.shape) != 1:
            raise UsageError(
                f"brain {name!r}: variable length observations are not supported yet (observation {index}, "
                f"{spec.name!r}, has shape {spec.shape}); expected vector observations. Remove the buffer sensor.",
            )
        if spec.observation_type == GOAL_SIGNAL and settings.network_settings.goal_conditioning_type != "none":
            raise UsageError(
                f"brain {name!r}: goal signals with goal_conditioning_type "
                f"{settings.network_settings.goal_conditioning_type!r} are not supported yet (observation {index}, "
                f"{spec.name!r}). Set network_settings.goal_conditioning_type to none: the goal is then one "
                "more vector.",
            )
    if sum(spec.shape[0] for spec in brain.observation_specs) == 0:
        raise UsageError(
            f"brain {name!r} observes nothing; expected at least one float. Give its agents an observation."
        )
    if not brain.action_spec.continuous_size and not brain.action_spec.discrete_size:
        raise UsageError(
            f"brain {name!r} takes no actions; expected continuous actions or branches. Set its action spec."
        )
    empty = [index for index, size in enumerate(brain.action_spec.discrete_branches) if size < 1]
    if empty:
        raise UsageError(f"brain {name!r}: branch {empty[0]} has no actions; expected a size of at least 1.")
    unknown = sorted(set(settings.reward_signals) - {"extrinsic"})
    if unknown or not settings.reward_signals:
        raise UsageError(
            f"behavior {brain.behavior_name!r}: reward signals {unknown or 'none'} are not supported yet; expected "
            "extrinsic alone. Change reward_signals in its settings.",
        )
