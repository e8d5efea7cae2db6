"""What cannot be trained yet, refused by name when a brain is announced."""

from __future__ import annotations

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters, ObservationSpec
from runtime.learner import BehaviorSettings
from trainers.encoders import ENCODERS
from trainers.reward_signals.curiosity import Curiosity
from trainers.reward_signals.factory import signals_of


def refuse_unsupported(brain: BrainParameters, settings: BehaviorSettings) -> None:
    """Raises UsageError when `brain` or its settings need something that learning cannot do."""
    name = brain.brain_name
    for index, spec in enumerate(brain.observation_specs):
        if len(spec.shape) == 3:
            _refuse_image(name, index, spec, settings.network_settings.vis_encode_type)
        elif len(spec.shape) == 2 and 0 in spec.shape:
            raise UsageError(
                f"brain {name!r}: observation {index}, {spec.name!r}, is a buffer of shape {spec.shape}; expected at "
                "least one thing of at least one number. Remove the buffer sensor, or give it room.",
            )
    if all(0 in spec.shape for spec in brain.observation_specs):
        raise UsageError(
            f"brain {name!r} observes nothing; expected at least one number. Give its agents an observation."
        )
    if not brain.action_spec.continuous_size and not brain.action_spec.discrete_size:
        raise UsageError(
            f"brain {name!r} takes no actions; expected continuous actions or branches. Set its action spec."
        )
    empty = [index for index, size in enumerate(brain.action_spec.discrete_branches) if size < 1]
    if empty:
        raise UsageError(f"brain {name!r}: branch {empty[0]} has no actions; expected a size of at least 1.")
    _refuse_signals(brain, settings)


def _refuse_signals(brain: BrainParameters, settings: BehaviorSettings) -> None:
    if not settings.reward_signals:
        raise UsageError(
            f"behavior {brain.behavior_name!r}: there is no reward signal to learn from; expected extrinsic or "
            "curiosity, or both. Change reward_signals in its settings.",
        )
    try:
        signals = signals_of(settings)
    except UsageError as error:
        raise UsageError(f"behavior {brain.behavior_name!r}: {error}") from error
    for network in (each.network for each in signals):
        for index, spec in enumerate(brain.observation_specs):
            if isinstance(network, Curiosity) and len(spec.shape) == 3:
                _refuse_image(brain.brain_name, index, spec, network.encoder, owner=f"reward_signals.{network.name}.")


def _refuse_image(name: str, index: int, spec: ObservationSpec, kind: str, *, owner: str = "") -> None:
    encoder = ENCODERS.get(kind)
    if encoder is None:
        raise UsageError(
            f"brain {name!r}: vis_encode_type {kind!r} is not known, and observation {index}, {spec.name!r}, "
            f"is an image; expected {' or '.join(ENCODERS)}. Change {owner}network_settings.vis_encode_type.",
        )
    _, height, width = spec.shape
    if min(height, width) < encoder.side_min:
        fitting = [other for other, each in ENCODERS.items() if min(height, width) >= each.side_min]
        raise UsageError(
            f"brain {name!r}: observation {index}, {spec.name!r}, is an image of {width}x{height} pixels; expected at "
            f"least {encoder.side_min} on each side for {owner}vis_encode_type {kind!r}. Give the sensor a larger "
            f"picture{', or choose an encoder that takes it: ' if fitting else ''}{', '.join(fitting)}.",
        )
