"""A behavior as the content of a checkpoint, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.errors import StorageError, UsageError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from trainers.behavior import Behavior
from trainers.buffer import TransitionBuffer
from trainers.networks import NetworkShape, named_weights
from trainers.normalizer import Normalizer
from trainers.optimizer_state import Weights
from trainers.ppo.inputs import PolicySnapshot
from trainers.statistics import EpisodeStatistics
from trainers.tensors_file import Array

Weight = npt.NDArray[np.float32]
SIGNALS = "reward_signals"

# JSON; a checkpoint is verified by its checksum before it is read, but who wrote it is not known.
State = Mapping[str, Any]


def foreign(reason: str) -> StorageError:
    """The refusal of a checkpoint that is undamaged, and yet none that this program writes."""
    return StorageError(
        f"the checkpoint was not written by this program: {reason}. Expected one of a run's own checkpoint folders; "
        "restore it from a copy, or start anew with another --run-id.",
    )


@contextmanager
def refusing_foreign(behavior: str) -> Iterator[None]:
    """Raises StorageError in place of what stumbles over the saved state of `behavior`."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise foreign(f"behavior {behavior!r}: {type(error).__name__}: {error}") from error


def behavior_arrays(behavior: Behavior) -> dict[str, Array]:
    """Every array of a behavior, copied or immutable, by name."""
    arrays: dict[str, Array] = {
        "weights": behavior.weights.flat,
        "adam.first": behavior.weights.first,
        "adam.second": behavior.weights.second,
        "normalizer.mean": behavior.normalizer.mean,
        "normalizer.m2": behavior.normalizer.m2,
    }
    for number, snapshot in enumerate(behavior.snapshots):
        arrays[f"snapshot.{number}.weights"] = snapshot.flat
        arrays[f"snapshot.{number}.mean"] = snapshot.normalizer.mean
        arrays[f"snapshot.{number}.m2"] = snapshot.normalizer.m2
    arrays.update(behavior.lesson_arrays())
    for name, column in behavior.complete_buffer().arrays():
        arrays[f"buffer.{name}"] = column
    return arrays


def behavior_state(behavior: Behavior) -> dict[str, Any]:
    """All else of a behavior, as JSON. The random state is key and version: each update has its own generator."""
    return {
        "shape": shape_fields(behavior.shape),
        "brain": _brain_fields(behavior.brain),
        "key": behavior.key,
        "version": behavior.version,
        "steps": behavior.steps,
        "period": behavior.period,
        "adam_steps": behavior.weights.steps,
        "normalizer_count": behavior.normalizer.count,
        "snapshots": [[each.version, each.normalizer.count] for each in behavior.snapshots],
        "sequence_length": behavior.sequence_length,
        "wires": list(behavior.wires),
        "episodes": behavior.episodes.state(),
        "next_summary": behavior.summaries.next_step,
        "updates_since_summary": list(behavior.summaries.updates),
        **behavior.lesson_state(),
    }


def _brain_fields(brain: BrainParameters) -> dict[str, Any]:
    return {
        "brain_name": brain.brain_name,
        "observation_specs": [asdict(each) for each in brain.observation_specs],
        "action_spec": asdict(brain.action_spec),
        "shows_ends": brain.shows_ends,
    }


def saved_brain(state: State) -> BrainParameters:
    """The brain whose behavior was saved, as its player announced it."""
    fields = state["brain"]
    actions = fields["action_spec"]
    return BrainParameters(
        BrainName(fields["brain_name"]),
        tuple(
            ObservationSpec(
                **{
                    **each,
                    "shape": tuple(each["shape"]),
                    "dimension_properties": tuple(each["dimension_properties"]),
                }
            )
            for each in fields["observation_specs"]
        ),
        ActionSpec(actions["continuous_size"], tuple(actions["discrete_branches"])),
        shows_ends=fields.get("shows_ends", True),
    )


def restore_behavior(behavior: Behavior, state: State, arrays: Mapping[str, Array]) -> None:
    """Puts a new behavior into the saved state. Raises UsageError when its network is of another shape."""
    refuse_other_shape(behavior, state)
    _take_weights(behavior, arrays["weights"])
    behavior.normalizer = _normalizer(state["normalizer_count"], arrays, "normalizer")
    _refuse_other_sequences(behavior, state)
    behavior.key = state["key"]
    behavior.weights = Weights(
        behavior.weights.flat,
        _like(behavior.weights.first, arrays["adam.first"]),
        _like(behavior.weights.second, arrays["adam.second"]),
        _whole(state, "adam_steps"),
    )
    behavior.version, behavior.steps, behavior.period = (_whole(state, name) for name in ("version", "steps", "period"))
    behavior.snapshots = [
        PolicySnapshot(
            version,
            _like(behavior.policy_weights, arrays[f"snapshot.{number}.weights"]),
            _normalizer(count, arrays, f"snapshot.{number}"),
        )
        for number, (version, count) in enumerate(state["snapshots"])
    ]
    behavior.wires = list(state["wires"])
    behavior.buffer = TransitionBuffer.restored(behavior.shape, _under("buffer.", arrays), rows=behavior.rows_at_first)
    behavior.episodes = EpisodeStatistics.restored(state["episodes"])
    behavior.summaries.next_step = state["next_summary"]
    behavior.summaries.updates = [dict(each) for each in state["updates_since_summary"]]
    behavior.restore_lesson(state, arrays)


def restore_policy(behavior: Behavior, state: State, arrays: Mapping[str, Array]) -> None:
    """Weights and normaliser alone. Raises UsageError when the policy is of another shape.

    Where the reward signals differ, the policy is taken, with the values of signals that both have, and what belongs to
    signals begins anew.
    """
    refuse_other_shape(behavior, state, but=(SIGNALS,))
    saved, asked = saved_signals(state["shape"]), shape_fields(behavior.shape)[SIGNALS]
    flat = arrays["weights"] if saved == asked else _policy_among(behavior, saved, arrays["weights"])
    _take_weights(behavior, flat)
    behavior.normalizer = _normalizer(state["normalizer_count"], arrays, "normalizer")
    behavior.snapshots = [PolicySnapshot(behavior.version, behavior.policy_weights, behavior.normalizer)]


def _take_weights(behavior: Behavior, flat: Array) -> None:
    behavior.weights = replace(behavior.weights, flat=_like(behavior.weights.flat, flat))


def _policy_among(behavior: Behavior, saved: list[str], flat: Array) -> Weight:
    """Our weights, with the policy of a run that had other signals."""
    ours, shape = behavior.weights.flat.copy(), behavior.shape
    theirs = replace(shape, streams=len(saved), signals=())
    found = named_weights(theirs, flat[: theirs.size].astype(np.float32))
    places = {each.partition(" ")[0]: place for place, each in enumerate(saved)}
    for name, own in named_weights(shape, ours[: shape.size]).items():
        if not name.startswith("value."):
            own[...] = found[name]
            continue
        for place, signal in enumerate(shape.signals):
            if signal.name in places:
                own[..., place] = found[name][..., places[signal.name]]
    return ours


def saved_signals(saved: State) -> list[str]:
    """The signals of a checkpoint, described; those of earlier versions had the player's rewards alone."""
    signals = saved[SIGNALS]
    return ["extrinsic"] if signals == 1 else list(signals)


SAME_NETWORK = (
    "Expected the same network; restore the settings and the player of that run, or start anew with another --run-id."
)


def refuse_other_shape(behavior: Behavior, state: State, *, but: Collection[str] = ()) -> None:
    """Raises UsageError that names each difference between the saved network and the one asked for.

    but: fields in which they may differ.
    """
    saved, asked = {**state["shape"], SIGNALS: saved_signals(state["shape"])}, shape_fields(behavior.shape)
    asked = {name: value for name, value in asked.items() if name not in but}
    differences = [
        f"{name}: {saved.get(name)} saved, {asked[name]} now" for name in asked if saved.get(name) != asked[name]
    ]
    if differences:
        raise UsageError(
            f"behavior {behavior.name!r} does not fit the checkpoint: {'; '.join(differences)}. {SAME_NETWORK}"
        )


def _refuse_other_sequences(behavior: Behavior, state: State) -> None:
    """The experience that a checkpoint holds is cut into sequences already."""
    saved, asked = state.get("sequence_length", 0), behavior.sequence_length
    if saved != asked:
        raise UsageError(
            f"behavior {behavior.name!r} does not fit the checkpoint: sequence_length {saved} saved, {asked} now. "
            "Expected the same; restore memory.sequence_length, or start anew with another --run-id and "
            "--initialize-from.",
        )


def shape_fields(shape: NetworkShape) -> dict[str, Any]:
    """What fixes the weights' layout, as JSON."""
    return {
        "observation_shapes": [list(each) for each in shape.observations],
        "goals": list(shape.goals),
        "vis_encode_type": shape.encoder if shape.images else None,
        "continuous_size": shape.continuous_size,
        "discrete_branches": list(shape.branches),
        SIGNALS: [each.described(shape) for each in shape.signals],
        "hidden_units": shape.hidden_units,
        "num_layers": shape.num_layers,
        "shared_critic": shape.shared_critic,
        "normalize": shape.normalize,
        "memory_size": shape.memory_size or None,
    }


def refuse_other_brain(known: BrainParameters, brain: BrainParameters, *, is_saved: bool) -> None:
    """Raises UsageError when two brains of one behavior differ in what they observe or do.

    is_saved: the one that is known is that of a checkpoint, and no player's.
    """
    seen = [[(each.shape, each.dtype) for each in one.observation_specs] for one in (known, brain)]
    shapes, types = ([[each[field] for each in one] for one in seen] for field in (0, 1))
    told = ("{} saved, {} now" if is_saved else "{} and {}").format
    differences = []
    if shapes[0] != shapes[1]:
        differences.append(f"observation shapes {told(*shapes)}")
    elif types[0] != types[1]:
        differences.append(f"types of observations {told(*types)} (PNG files are uint8)")
    if known.action_spec != brain.action_spec:
        differences.append(f"actions {told(known.action_spec, brain.action_spec)}")
    if not differences:
        return
    if is_saved:
        raise UsageError(
            f"behavior {brain.behavior_name!r} does not fit the checkpoint: {'; '.join(differences)}. {SAME_NETWORK}"
        )
    one, other = known.brain_name, brain.brain_name
    who = f"brains {one!r} and {other!r} belong to one behavior but differ"
    if one == other:
        who = f"brain {one!r} differs from player to player"
    raise UsageError(
        f"{who}: {'; '.join(differences)}. Expected equal ones; "
        + ("start players of one build." if one == other else "give them different behavior names in the player."),
    )


def parts_of(number: int, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of one behavior in a checkpoint; behaviors are numbered in the order of their names."""
    return _under(f"{number}/", arrays)


def _whole(state: State, name: str) -> int:
    number = state[name]
    if not isinstance(number, int) or number < 0:
        raise TypeError(f"{name} is {number!r}, expected a number from 0")
    return number


def _like(ours: Weight, saved: Array) -> Weight:
    """The saved numbers. Raises ValueError where they are not as many as ours, or not finite."""
    numbers = saved.astype(np.float32)
    if numbers.shape != ours.shape:
        raise ValueError(f"weights of shape {numbers.shape}, expected {ours.shape}")
    if wrong := int((~np.isfinite(numbers)).sum()):
        raise ValueError(f"{wrong} of {numbers.size} weights are not finite, expected finite numbers")
    return numbers


def _under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _normalizer(count: int, arrays: Mapping[str, Array], name: str) -> Normalizer:
    return Normalizer(count, arrays[f"{name}.mean"].astype(np.float64), arrays[f"{name}.m2"].astype(np.float64))
