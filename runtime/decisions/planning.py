"""How many env steps to grant: a pure function of what was accepted, so that it never depends on timing or topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from runtime.learner import BrainProgress

EMPTY_ROUND_STEPS = 10


def round_steps(
    progress: Mapping[str, BrainProgress],
    pending: Iterable[Mapping[str, int]],
    *,
    steps_max: int,
    until_agent_steps: int | None,
    agent_steps: int,
    blocks_ahead: int = 1,
) -> int:
    """Env steps that every environment takes in the next round, 1..steps_max.

    blocks_ahead: how many blocks of this size an environment may be ahead. With 1, a round is what is missing now; with
    more, each block is an environment's share of a whole buffer, which fills while the one before is learnt from.

    Enough to fill the fullest behavior's buffer, to reach its `max_steps`, or the run's next stop at
    `until_agent_steps`, whichever comes first, if the agents that wait now (`pending`, per environment, by behavior)
    stay as they are.
    """
    waiting: dict[str, int] = {}
    environments = list(pending)
    for each in environments:
        for name, count in each.items():
            waiting[name] = waiting.get(name, 0) + count
    total = sum(waiting.values())
    if total == 0:
        return min(EMPTY_ROUND_STEPS, steps_max)
    wanted = [steps_max]
    for name, count in waiting.items():
        brain = progress.get(name)
        if brain is None or count == 0 or brain.is_finished:
            continue
        fill = brain.buffer_size - (brain.buffered if blocks_ahead == 1 else 0)
        left = (brain.max_steps - brain.steps) / blocks_ahead
        if brain.counts_env_steps:
            wanted.append(ceil(max(left, 1) / len(environments)))
            left = fill
        wanted.append(ceil(max(min(fill, left), 1) / count))
    if until_agent_steps is not None and until_agent_steps > agent_steps:
        wanted.append(ceil((until_agent_steps - agent_steps) / total / blocks_ahead))
    return max(1, min(wanted))
