"""What brains did that the player plays by itself, as samples to learn from: pairs of an observation and an action.

Only players of API-8 to API-10 show them. The action that a row holds was taken on the agent's row before, also where
it ended an episode: the row is then the first of the next one. Two words in the text of a row, "record,reset" as in
"True,False", say whether what is done on it is to be kept, and whether all that was kept is to be forgotten; without a
text it is kept.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from runtime.experience.brains import BrainInfo, BrainParameters, Floats, Observation
from runtime.experience.columns import WatchedColumns

TRUE = "true"


class _Shown(NamedTuple):
    """The latest row of an agent. begins: what is done on it does not go on from the sample before."""

    observations: tuple[Observation, ...]
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]] | None
    is_kept: bool
    begins: bool


class _Sample(NamedTuple):
    agent: int
    shown: _Shown
    action: Floats


def wishes_of(text: str) -> tuple[bool, bool]:
    """Whether the text of a row asks to record, and to forget."""
    if not text.strip():
        return True, False
    words = [word.strip().lower() for word in text.split(",")]
    return words[0] == TRUE, TRUE in words[1:2]


class WatchedLog:
    """Pairs the rows of one brain that the player plays, step by step, and packs the samples of a block."""

    def __init__(self, brain: BrainParameters) -> None:
        self._brain = brain
        self._shown: dict[int, _Shown] = {}
        self._samples: list[_Sample] = []
        self._forgets = False

    def record_reset(self, info: BrainInfo) -> None:
        """The reply to a reset: its rows tell of no action."""
        self._shown = {}
        self._look(info)

    def record_step(self, info: BrainInfo) -> None:
        """The reply to a step: each row of an agent that was seen before makes a sample."""
        actions = info.previous_vector_actions
        agents = info.decisions.agents.tolist()
        for row, agent in enumerate(agents if len(actions) == len(agents) else ()):
            shown = self._shown.get(agent)
            if shown is not None and shown.is_kept:
                self._samples.append(_Sample(agent, shown, actions[row]))
        for agent in set(info.terminals.agents.tolist()) - set(agents):
            self._shown.pop(agent, None)
        self._look(info)

    def take(self) -> WatchedColumns | None:
        """The samples since the last call, each agent's together and in order; None when there is nothing to tell."""
        samples, forgets = sorted(self._samples, key=lambda each: each.agent), self._forgets
        self._samples, self._forgets = [], False
        if not samples and not forgets:
            return None
        spec, masks = self._brain.action_spec, [each.shown.mask for each in samples]
        everything = np.ones(spec.mask_size, np.bool_)
        agents = np.array([each.agent for each in samples], np.int64)
        begins = np.array([each.shown.begins for each in samples], np.bool_)
        # What was before the block is told in another one.
        begins |= np.append(True, agents[1:] != agents[:-1])[: len(agents)]
        return WatchedColumns(
            brain=self._brain,
            agents=agents,
            observations=tuple(
                self._joined(index, [each.shown.observations[index] for each in samples])
                for index in range(len(self._brain.observation_specs))
            ),
            masks=None
            if all(each is None for each in masks)
            else np.stack([everything if each is None else each for each in masks]),
            actions=np.array([each.action for each in samples], np.float32).reshape(
                len(samples), spec.continuous_size + spec.discrete_size
            ),
            begins=begins,
            forgets=forgets,
        )

    def _look(self, info: BrainInfo) -> None:
        rows, texts = info.decisions, info.text_observations
        ended = set(info.terminals.agents.tolist())
        for row, agent in enumerate(rows.agents.tolist()):
            is_kept, forgets = wishes_of(texts[row] if row < len(texts) else "")
            if forgets:
                self._samples, self._forgets = [], True
            before = self._shown.get(agent)
            self._shown[agent] = _Shown(
                observations=tuple(each[row] for each in rows.observations),
                mask=None if rows.action_masks is None else rows.action_masks[row],
                is_kept=is_kept,
                begins=before is None or not before.is_kept or agent in ended or forgets,
            )

    def _joined(self, index: int, rows: list[Observation]) -> Observation:
        spec = self._brain.observation_specs[index]
        nothing = np.zeros((0, *spec.shape), np.uint8 if spec.dtype == "uint8" else np.float32)
        return cast("Observation", np.stack(rows) if rows else nothing)
