"""Histories acted by a policy that remembers how many acts its agent's episode has had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from runtime.acting.memories import AgentMemories
from tests.support.strategies_experience import ResetEvent, StepEvent, StepHistory


def remembering(history: StepHistory, *, size: int, sequence_length: int) -> StepHistory:
    """The history with memories of `size` equal numbers; where actions have a continuous part, that says it too."""
    memories: dict[str, AgentMemories] = {brain.brain_name: AgentMemories() for brain in history.brains}
    events: list[ResetEvent | StepEvent] = []
    infos = dict(history.events[0].infos)
    for event in history.events:
        if isinstance(event, ResetEvent):
            for each in memories.values():
                each.clear()
            events.append(event)
        else:
            acted = {}
            for name, act in event.acted.items():
                found = memories[name].recall(
                    name, infos[name], version=act.version, size=size, sequence_length=sequence_length
                )
                memories[name].remember(name, act.agents, found.before + np.float32(1))
                raw = np.repeat(found.before[:, :1], act.continuous_raw.shape[1], axis=1)
                acted[name] = replace(act, continuous_raw=raw, memory_before=found.before, sequence_starts=found.starts)
            events.append(replace(event, acted=acted))
        infos = dict(event.infos)
    return replace(history, events=tuple(events))
