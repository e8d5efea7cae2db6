"""The world in play, and what the trainer was told of it: rows last sent, decisions without outcome."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakeunity.actions import read_actions
from fakeunity.bounds import how_many
from fakeunity.dialect import Dialect, Received
from fakeunity.errors import TrainerMistakeError
from fakeunity.journal import Counters, OpenDecisions
from fakeunity.parameters import Parameters
from fakeunity.rows import Actions, BehaviorSpec, Rows, World, joined


class Behaviors:
    """`world`, played through `dialect`. academy_steps: steps from a reset to the academy's end; 0 for never."""

    def __init__(self, world: World, dialect: Dialect, *, academy_steps: int = 0) -> None:
        self._world = world
        self._dialect = dialect
        dialect.play(world)
        self._academy_steps = academy_steps
        self._steps_since_reset = 0
        self._specs: dict[str, BehaviorSpec] = {spec.name: spec for spec in world.specs}
        self._sent: dict[str, Rows] = {}
        self._open: dict[str, OpenDecisions] = {spec.name: OpenDecisions() for spec in world.specs}
        # Who has acted, told or not, and has not been in a message since; kept for the academy's end.
        self._moving: dict[str, set[int]] = {spec.name: set() for spec in world.specs}

    @property
    def parameters(self) -> Parameters:
        """The environment parameters of the world."""
        return self._world.parameters

    def reset(self) -> bytes:
        """The first rows of everybody's next episode. Decisions without an outcome never get one."""
        for name, behavior in self._open.items():
            behavior.ids.clear()
            self._moving[name].clear()
        self._steps_since_reset = 0
        rows = self._world.reset()
        self._sent.update(rows)
        return self._dialect.tell(rows, is_reset=True, is_over=False)

    def step(self, received: Mapping[str, Received], counters: Counters) -> bytes:
        """The next rows, once the actions received are applied; counts what was done."""
        unknown = received.keys() - self._sent.keys()
        if unknown:
            raise TrainerMistakeError(f"actions for behavior {min(unknown)!r}; announced are {list(self._sent)}")
        actions = {name: self._actions(name, received, counters) for name in self._sent}
        rows = self._world.step(actions)
        counters.env_steps += 1
        self._steps_since_reset += 1
        is_over = self._steps_since_reset == self._academy_steps
        if is_over:
            rows = self._cut_off(rows)
            self._steps_since_reset = 0
        for name, sent in rows.items():
            ids = sent.ids.tolist()
            counters.agent_steps += self._open[name].settle(ids)
            counters.episodes += how_many(sent.done)
            self._moving[name].difference_update(ids)
        self._sent.update(rows)
        return self._dialect.tell(rows, is_reset=False, is_over=is_over)

    def _actions(self, name: str, received: Mapping[str, Received], counters: Counters) -> Actions:
        spec, rows = self._specs[name], self._sent[name]
        waiting = rows.waiting().tolist()
        if self._academy_steps:
            self._moving[name].update(waiting)
        actions: Actions | None = None
        # As in Unity, no list and an empty one mean that nobody decided for these agents.
        if len(received.get(name, ())):
            actions = read_actions(spec, rows, self._dialect.action_lists(spec, rows, received[name]))
            counters.decisions += len(waiting)
            self._open[name].ids.update(waiting)
        if actions is None or not spec.is_training:
            actions = self._world.default_actions(spec, rows)
        self._dialect.applied(spec, rows, actions)
        return actions

    def _cut_off(self, rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
        """The ends of all episodes in which somebody acted, by a time limit unless by themselves, and new starts."""
        ends = {}
        starts = self._world.reset()
        for name, sent in rows.items():
            moving = np.array(sorted(self._moving[name]), np.int64)
            over = sent.ids[sent.done]
            cut = sent.picked(~sent.done & np.isin(sent.ids, moving) & ~np.isin(sent.ids, over))
            start = starts[name]
            silent = start.picked(np.isin(start.ids, moving) & ~np.isin(start.ids, sent.ids))
            ends[name] = joined(joined(sent.picked(sent.done), _interrupted(cut)), _interrupted(silent))
        return {name: joined(ends[name], start) for name, start in starts.items()}


def _interrupted(rows: Rows) -> Rows:
    return rows.ended(interrupted=np.ones(len(rows.ids), np.bool_))
