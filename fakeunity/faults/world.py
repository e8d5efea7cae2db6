"""A world whose rows are told wrongly: agents that vanish, come in crowds, see what is not a number.

The scene's own world lies beneath and stays sound. Actions for agents that were shown go to it by id, hidden ones act
by default, invented ones get nothing; so what the player counts is what was really told and answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fakeunity.faults.clock import FaultClock
from fakeunity.faults.plan import Fault
from fakeunity.rows import Actions, BehaviorSpec, Floats, Ints, Rows, World, zero_actions

if TYPE_CHECKING:
    from fakeunity.parameters import Parameters

INVENTED_FIRST_ID = 1_000_000
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "huge": 3e38}
_VERBS = ("vanish", "agents", "duplicate", "mask", *NUMBERS)


class FaultyWorld:
    """`world`, told as the clock's faults demand."""

    def __init__(self, world: World, clock: FaultClock) -> None:
        self._world = world
        self._clock = clock
        self._true: dict[str, Rows] = {}
        self._shown: dict[str, Rows] = {}
        self._targets: dict[Fault, tuple[str, int]] = {}
        """Behavior and agent that a fault has met first: it stays with them."""
        self._is_held = False
        """True while the world waits, its last rows untold."""

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """The world's own."""
        return self._world.specs

    @property
    def parameters(self) -> Parameters:
        """The world's own."""
        return self._world.parameters

    def reset(self) -> Mapping[str, Rows]:
        """The world's reset, told wrongly."""
        self._clock.enter("reset")
        self._clock.interrupt()
        self._is_held = False
        return self._tell(self._world.reset())

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """The world's step, told wrongly; while no agents are told, the world waits and tells its last rows later."""
        self._clock.enter("step")
        self._clock.interrupt()
        if self._is_held:
            return self._tell(self._true)
        return self._tell(self._world.step({name: self._sorted(name, actions) for name in self._true}))

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """The world's own for agents that are there, zeros for invented ones."""
        true = self._true.get(spec.name)
        if true is None:
            return self._world.default_actions(spec, rows)
        ids = rows.waiting()
        given = self._world.default_actions(spec, true)
        return _handed_over(given, true.waiting(), zero_actions(spec, len(ids)), ids)

    def _sorted(self, name: str, actions: Mapping[str, Actions]) -> Actions:
        """The actions of the agents that truly wait, whether they were shown or not."""
        chosen = self._world.default_actions(self._spec(name), self._true[name])
        if name not in actions:
            return chosen
        return _handed_over(actions[name], self._shown[name].waiting(), chosen, self._true[name].waiting())

    def _tell(self, rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
        self._true = dict(rows)
        self._is_held = any(self._clock.due("empty"))
        faults = list(self._clock.due(*_VERBS))
        self._shown = {name: self._wrong(name, rows[name], faults) for name in rows}
        return self._shown

    def _wrong(self, name: str, rows: Rows, faults: list[Fault]) -> Rows:
        if self._is_held:
            return rows.picked(_NOBODY)
        for fault in faults:
            behavior, agent = self._targets.get(fault, ("", -1))
            if not behavior and _is_here(fault, rows):
                wanted = fault.whole("agent") if "agent" in fault.kind.names else -1
                behavior, agent = name, wanted if wanted >= 0 else int(rows.ids.min())
                self._targets[fault] = (behavior, agent)
            if behavior == name:
                rows = _spoiled(self._spec(name), rows, fault, agent)
        return rows

    def _spec(self, name: str) -> BehaviorSpec:
        return next(spec for spec in self.specs if spec.name == name)


def _is_here(fault: Fault, rows: Rows) -> bool:
    wanted = fault.whole("agent") if "agent" in fault.kind.names else -1
    return wanted in rows.ids if wanted >= 0 else len(rows.ids) > 0


def _spoiled(spec: BehaviorSpec, rows: Rows, fault: Fault, agent: int) -> Rows:
    match fault.verb:
        case "vanish":
            return rows.picked(rows.ids != agent)
        case "duplicate":
            return rows.picked(np.append(np.arange(len(rows.ids)), _place(agent, rows)))
        case "agents":
            return _crowded(rows, fault.whole("count"))
        case "mask":
            return _masked(spec, rows, fault.whole("branch"), _place(agent, rows))
    return _unnumbered(rows, fault, _place(agent, rows))


_NOBODY: Ints = np.zeros(0, np.int64)


def _handed_over(given: Actions, givers: Ints, base: Actions, takers: Ints) -> Actions:
    """`base`, the rows of `takers`, with what `given`, the rows of `givers`, holds for the same agents."""
    order = {agent: at for at, agent in enumerate(givers.tolist())}
    pairs = [(at, order[agent]) for at, agent in enumerate(takers.tolist()) if agent in order]
    to, origin = np.array(pairs, np.int64).reshape(-1, 2).T
    continuous, discrete = base.continuous.copy(), base.discrete.copy()
    continuous[to], discrete[to] = given.continuous[origin], given.discrete[origin]
    return Actions(continuous, discrete)


def _place(agent: int, rows: Rows) -> Ints:
    """Where the agent waits, else where it is at all; nowhere if it is not here."""
    places = np.flatnonzero(rows.ids == agent)
    waiting = places[~rows.done[places]]
    return (waiting if len(waiting) else places)[:1]


def _crowded(rows: Rows, count: int) -> Rows:
    """The rows, and as many agents more that see what the first one sees; none where there is nobody to copy."""
    if not len(rows.ids):
        return rows
    start = len(rows.ids)
    more = rows.picked(np.append(np.arange(start), np.zeros(count, np.int64)))
    # Another fault may have invented some for the same message.
    more.ids[start:] = max(INVENTED_FIRST_ID, int(rows.ids.max()) + 1) + np.arange(count)
    more.done[start:] = False
    more.interrupted[start:] = False
    return more


def _masked(spec: BehaviorSpec, rows: Rows, branch: int, place: Ints) -> Rows:
    if branch >= len(spec.branches):
        return rows
    mask = np.zeros((len(rows.ids), sum(spec.branches)), np.bool_) if rows.mask is None else rows.mask.copy()
    start = sum(spec.branches[:branch])
    mask[place, start : start + spec.branches[branch]] = True
    return replace(rows, mask=mask)


def _unnumbered(rows: Rows, fault: Fault, place: Ints) -> Rows:
    number = NUMBERS[fault.verb]
    if fault.value("field") == "reward":
        rewards = rows.rewards.copy()
        rewards[place] = number
        return replace(rows, rewards=rewards)
    sensor, index = fault.whole("sensor"), fault.whole("index")
    if sensor >= len(rows.observations):
        return rows
    observations: list[Floats] = [each.copy() for each in rows.observations]
    observations[sensor][place, min(index, observations[sensor].shape[1] - 1)] = number
    return replace(rows, observations=tuple(observations))
