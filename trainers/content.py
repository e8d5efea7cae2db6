"""The border of learning: nothing of the wrong shape and nothing that is not finite passes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from runtime.errors import InternalError, PlayerContentError
from runtime.experience.brains import Bools, BrainParameters, Floats
from runtime.experience.columns import BrainColumns, StepBlock
from trainers.buffer import Observations


def checked_observations(block: StepBlock, brain: BrainParameters) -> Observations:
    """The observations of a block's r rows: vectors side by side, then the sights as they came.

    Raises PlayerContentError for a wrong shape or a value that is not finite, in any column of the brain.
    """
    columns = block.brains[brain.brain_name]
    _check_shapes(block, brain, columns)
    vectors = [np.asarray(each, np.float32) for each in columns.observations if each.ndim == 2]
    flat = vectors[0] if len(vectors) == 1 else np.concatenate([_no_floats(columns), *vectors], axis=1)
    sights = tuple(each for each in columns.observations if each.ndim > 2)
    # One look at everything in the usual case; where it fails, a second one finds the first culprit.
    if not (
        np.isfinite(flat).all()
        and all(each.dtype == np.uint8 or np.isfinite(each).all() for each in sights)
        and np.isfinite(columns.rewards).all()
        and np.isfinite(columns.group_rewards).all()
        and np.isfinite(columns.continuous).all()
    ):
        _refuse(block, brain, columns)
    return (flat, *sights)


def check_memories(block: StepBlock, brain: BrainParameters, width: int) -> None:
    """Raises InternalError unless the actions of the brain come with memories of `width` numbers; 0 needs none."""
    columns = block.brains[brain.brain_name]
    sent, memories = len(columns.action_agents), columns.memories
    if not width or not sent:
        return
    problem = "none"
    if memories is not None:
        known = len(memories.actions)
        if memories.before.shape != (known, width) or memories.starts.shape != (sent,):
            problem = f"some of shapes {memories.before.shape} and {memories.starts.shape} for {sent} actions"
        elif known and not 0 <= memories.actions.min() <= memories.actions.max() < sent:
            problem = f"some of actions {memories.actions.min()} to {memories.actions.max()}, of {sent}"
        elif not np.isfinite(memories.before).all():
            problem = "some that are not finite"
        else:
            return
    raise InternalError(
        f"a block of environment {block.env_id} carries actions of brain {brain.brain_name!r}, and of the memories of "
        f"its recurrent policy {problem}; expected finite ones of {width} numbers. Report this as a bug.",
    )


def _no_floats(columns: BrainColumns) -> Floats:
    return np.zeros((len(columns.row_agents), 0), np.float32)


def flat_masks(columns: BrainColumns, mask_size: int) -> Bools | None:
    """bool (r, mask_size), or None when nothing is masked in the block."""
    return columns.masks if mask_size else None


def _check_shapes(block: StepBlock, brain: BrainParameters, columns: BrainColumns) -> None:
    rows = len(columns.row_agents)
    if len(columns.observations) != len(brain.observation_specs):
        raise _error(
            block,
            f"brain {brain.brain_name!r} sent {len(columns.observations)} observations; expected "
            f"{len(brain.observation_specs)}, as it announced",
        )
    for index, (values, spec) in enumerate(zip(columns.observations, brain.observation_specs, strict=True)):
        if values.shape != (rows, *spec.shape):
            raise _error(
                block,
                f"brain {brain.brain_name!r} sent observation {index} with shape {values.shape[1:]}; expected "
                f"{spec.shape}, as it announced",
            )
        if values.ndim > 2 and values.dtype != spec.dtype:
            raise InternalError(
                f"a block of environment {block.env_id} carries observation {index} of brain {brain.brain_name!r} as "
                f"{values.dtype}; expected {spec.dtype}, as it was announced. Report this as a bug.",
            )
    spec_ = brain.action_spec
    sent = (columns.continuous.shape[1:], columns.discrete.shape[1:])
    if sent != ((spec_.continuous_size,), (spec_.discrete_size,)):
        raise InternalError(
            f"a block of environment {block.env_id} carries actions of shapes {sent} for brain {brain.brain_name!r}, "
            f"which takes {spec_.continuous_size} floats and {spec_.discrete_size} branches; report this as a bug",
        )


def _refuse(block: StepBlock, brain: BrainParameters, columns: BrainColumns) -> None:
    fields: list[tuple[str, npt.NDArray[np.generic]]] = [
        (f"observation {index}", values) for index, values in enumerate(columns.observations)
    ]
    fields += [("reward", columns.rewards), ("group reward", columns.group_rewards)]
    for name, values in fields:
        _refuse_field(block, brain, name, (values, columns.row_agents, columns.row_steps))
    _refuse_field(block, brain, "action", (columns.continuous, columns.action_agents, columns.action_steps))


def _refuse_field(
    block: StepBlock,
    brain: BrainParameters,
    name: str,
    column: tuple[npt.NDArray[np.generic], npt.NDArray[np.int64], npt.NDArray[np.int32]],
) -> None:
    values, agents, steps = column
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    row, *index = (int(each) for each in bad[0])
    step = int(steps[row])
    moment = "in the reply to a reset" if step < 0 else f"at env step {block.first_step + step + 1}"
    place = f" index {index[0] if len(index) == 1 else tuple(index)}" if index else ""
    raise _error(
        block,
        f"brain {brain.brain_name!r}, agent {int(agents[row])}: {name}{place} is {values[(row, *index)]} {moment}; "
        "expected a finite number. Look for a division by zero or an unset value in the player's code",
    )


def _error(block: StepBlock, text: str) -> PlayerContentError:
    return PlayerContentError(
        f"environment {block.env_id} (incarnation {block.incarnation}): {text}.",
        env_id=block.env_id,
        incarnation=block.incarnation,
    )
