"""What users give as actions, memories and texts -> `Actions`, with errors that say what was expected."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from runtime.errors import UsageError
from runtime.experience.actions import ActionInfo, Actions
from runtime.experience.brains import BrainParameters
from runtime.players.action_tuples import ActionTuple


def no_actions(brain: BrainParameters, count: int) -> Actions:
    """Zeros for this many agents."""
    spec = brain.action_spec
    return Actions(np.zeros((count, spec.continuous_size), np.float32), np.zeros((count, spec.discrete_size), np.int32))


# `Any`: what users give, an array or arrays by brain.
def by_brain(names: Sequence[str], given: Any) -> dict[str, Any]:
    """What was given for each brain. Raises UsageError for unknown names, or one array for several brains."""
    if given is not None and not isinstance(given, Mapping):
        if len(names) != 1:
            raise UsageError(f"one array for {len(names)} brains; give a mapping from brain name to array.")
        given = {names[0]: given}
    chosen = dict(given or {})
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        raise UsageError(f"actions for unknown brains {unknown}; this player has {sorted(names)}.")
    return chosen


# `Any`: as above.
def rows_from(brain: BrainParameters, count: int, given: Any) -> Actions:
    """The actions in an array of this many rows, or in as many numbers. Raises UsageError for anything else."""
    spec = brain.action_spec
    width = spec.continuous_size + spec.discrete_size
    with contextlib.suppress(ValueError, TypeError):
        array = np.asarray(given, np.float32)
        if array.size == count * width:
            return Actions.from_action_info(ActionInfo(array.reshape(count, width)), spec)
    raise UsageError(
        f"an action of shape {np.shape(given)} for brain {brain.brain_name!r}, where {count} agents wait; "
        f"expected {(count, width)}."
    )


def rows_fitting(brain: BrainParameters, action: ActionTuple, count: int) -> Actions:
    """The actions in a tuple. Raises UsageError unless it has this many rows of the brain's widths."""
    spec = brain.action_spec
    expected = (count, spec.continuous_size), (count, spec.discrete_size)
    if (action.continuous.shape, action.discrete.shape) != expected:
        raise UsageError(
            f"actions of shapes {action.continuous.shape} and {action.discrete.shape} for behavior "
            f"{brain.brain_name!r}; expected continuous {expected[0]} and discrete {expected[1]}."
        )
    return Actions(action.continuous, action.discrete)


def with_row(rows: Actions, at: int, one: Actions) -> Actions:
    """The same actions but for one row."""
    changed = Actions(rows.continuous.copy(), rows.discrete.copy())
    changed.continuous[at] = one.continuous[0]
    changed.discrete[at] = one.discrete[0]
    return changed


# `Any`: as above.
def keeping(rows: Actions, name: str, given: Mapping[str, Mapping[str, Any]]) -> Actions:
    """The actions with memories, texts and values, as `given` has them by brain.

    Raises UsageError for what is no array of numbers.
    """
    memories, texts, values = (given[field].get(name) for field in ("memories", "texts", "values"))
    try:
        return replace(
            rows,
            memories=None if memories is None else np.asarray(memories, np.float32),
            texts=() if texts is None else tuple(map(str, texts)),
            values=None if values is None else np.asarray(values, np.float32).reshape(-1),
        )
    except (ValueError, TypeError) as error:
        raise UsageError(f"memories, texts or values for brain {name!r} that are none: {error}.") from error
