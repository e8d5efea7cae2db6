"""Hand-written policies: unpacked, asked, and their answers checked before a player sees them."""

from __future__ import annotations

import cloudpickle
import numpy as np

from runtime.errors import ShapeError, UsageError
from runtime.experience.actions import ActionInfo, Actions, Policy
from runtime.experience.brains import BrainInfo, BrainParameters, Floats, Ints, agent_name
from runtime.experience.masks import find_blocked


def unpack_policy(body: bytes, *, behavior: str) -> Policy:
    """The `Policy` in a cloudpickle. Raises UsageError when it is something else."""
    policy = cloudpickle.loads(body)
    if not isinstance(policy, Policy):
        raise UsageError(
            f"the policy for {behavior!r} is a {type(policy).__name__}; expected an object of a class derived from "
            "runtime.experience.actions.Policy"
        )
    return policy


def ask_policy(policy: Policy, brain: BrainParameters, info: BrainInfo) -> tuple[ActionInfo, Actions]:
    """The policy's answer as it gave it, and as checked actions.

    Raises ShapeError when the answer is not one row per agent, UsageError when a number cannot be an action; both name
    the policy's class. What the policy itself raises passes through.
    """
    owner = f"{type(policy).__module__}.{type(policy).__qualname__}"
    answer = policy.get_action(info)
    if not isinstance(answer, ActionInfo):
        raise ShapeError(f"{owner}.get_action returned a {type(answer).__name__}; expected an ActionInfo")
    width = brain.action_spec.continuous_size + brain.action_spec.discrete_size
    try:
        action = np.atleast_2d(np.asarray(answer.action, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{owner} gave actions that are no array of numbers: {error}") from error
    if action.shape != (len(info.decisions), width):
        raise ShapeError(
            f"{owner} gave actions of shape {np.shape(answer.action)} for brain {brain.brain_name!r}; expected "
            f"{(len(info.decisions), width)}: a row per agent that asks for a decision, continuous values first, then "
            "one index per branch"
        )
    if not np.isfinite(action).all():
        row = int(np.argmin(np.isfinite(action).all(axis=1)))
        raise UsageError(
            f"{owner} gave {action[row].tolist()!r} for {_agent(info, row)} of brain {brain.brain_name!r}; expected "
            "finite numbers"
        )
    actions = _split(action, brain)
    _check_choices(owner, brain, info, actions.discrete)
    return answer, actions


def _split(action: Floats, brain: BrainParameters) -> Actions:
    start = brain.action_spec.continuous_size
    # Clipped, so that a huge number becomes an index that is refused rather than an overflow.
    return Actions(action[:, :start], np.rint(np.clip(action[:, start:], -1, 1e9)).astype(np.int32))


def _check_choices(owner: str, brain: BrainParameters, info: BrainInfo, discrete: Ints) -> None:
    masks, start = info.decisions.action_masks, 0
    for branch, size in enumerate(brain.action_spec.discrete_branches):
        chosen = discrete[:, branch]
        is_good = (chosen >= 0) & (chosen < size)
        if masks is not None and is_good.all() and find_blocked(masks, brain.action_spec.discrete_branches) is None:
            is_good = masks[np.arange(len(chosen)), start + chosen]
        if not is_good.all():
            row = int(np.argmin(is_good))
            raise UsageError(
                f"{owner} chose {int(chosen[row])} in branch {branch} for {_agent(info, row)} of brain "
                f"{brain.brain_name!r}; expected an index from 0 to {size - 1} that is not masked"
            )
        start += size


def _agent(info: BrainInfo, row: int) -> str:
    return f"agent {agent_name(info.worker_id, int(info.decisions.agents[row]))!r}"
