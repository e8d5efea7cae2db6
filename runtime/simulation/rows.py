"""Blocks of simulated experience, in two forms: rows as tuples, and the runtime's own columns.

Tuples are what makes thousands of runs a minute possible; runs with `has_columns` pass the same rows through
`BlockBuilder` and read them back, so that packing is simulated too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import (
    Bools,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    EnvId,
    Floats,
    Ids,
    Incarnation,
    Ints,
    TerminalRows,
)
from runtime.experience.columns import BrainColumns, RowKind, StepBlock
from runtime.simulation.players import OBSERVATION_SIZE, Act, Observation, Row

# What a block says, in order: actions and rows.
Event = Act | Row

ROWS = "rows"
_DECISION = int(RowKind.DECISION)


class Builder(Protocol):
    """Collects the steps of one incarnation of one environment and packs them into blocks."""

    def add_brains(self, brains: tuple[BrainParameters, ...]) -> None:
        """Makes brains known."""

    def record_reset(self, rows: list[Row], reset_id: int) -> None:
        """The reply to a reset."""

    def record_step(self, acts: list[Act], versions: Mapping[str, int], rows: list[Row]) -> None:
        """One env step."""

    def take(self) -> StepBlock | None:
        """All that is held, as a block."""

    @property
    def pending(self) -> Mapping[str, int]:
        """Agents that wait for a decision, by wire name, zeros included."""

    @property
    def unanswered(self) -> int:
        """Actions whose outcome has not arrived."""


class RowBuilder:
    """The quick one: a block's content is the list of its events."""

    def __init__(self, env_id: EnvId, incarnation: Incarnation) -> None:
        self._env_id, self._incarnation, self._reset_id = env_id, incarnation, 0
        self._first = self._steps = self._decisions = self._agent_steps = 0
        self._holds_reset = False
        self._versions: dict[str, int] = {}
        self._waiting: set[tuple[str, int]] = set()
        self._events: list[Event] = []
        self._brains: list[str] = []
        self.pending: dict[str, int] = {}

    @property
    def unanswered(self) -> int:
        """Actions whose outcome has not arrived."""
        return len(self._waiting)

    def add_brains(self, brains: tuple[BrainParameters, ...]) -> None:
        """Makes brains known."""
        for each in brains:
            self.pending.setdefault(each.brain_name, 0)

    def record_reset(self, rows: list[Row], reset_id: int) -> None:
        """The reply to a reset."""
        assert not self._steps, "a reset was recorded while steps are held"
        self._reset_id, self._holds_reset = reset_id, True
        self._waiting.clear()
        self._record(rows)

    def record_step(self, acts: list[Act], versions: Mapping[str, int], rows: list[Row]) -> None:
        """One env step."""
        for act in acts:
            name = act.wire.partition("?")[0]
            version = versions[name]
            assert self._versions.setdefault(name, version) == version, "two versions of a policy in one block"
            self._waiting.add((act.wire, act.agent))
        self._events.extend(acts)
        self._decisions += len(acts)
        self._record(rows)
        self._steps += 1

    def _record(self, rows: list[Row]) -> None:
        pending, waiting = dict.fromkeys(self.pending, 0), self._waiting
        for row in rows:
            if row.kind == _DECISION:
                pending[row.wire] += 1
            key = (row.wire, row.agent)
            if key in waiting:
                waiting.remove(key)
                self._agent_steps += 1
        self._events.extend(rows)
        self.pending = pending

    def take(self) -> StepBlock | None:
        """All that is held, as a block."""
        if not self._steps and not self._holds_reset:
            return None
        block = StepBlock(
            env_id=self._env_id,
            incarnation=self._incarnation,
            reset_id=self._reset_id,
            first_step=self._first,
            steps=self._steps,
            versions=self._versions,
            decisions=self._decisions,
            agent_steps=self._agent_steps,
            pending=self.pending,
            # The machines never look inside; whoever does asks `events_of`.
            brains=cast("Mapping[str, BrainColumns]", {ROWS: self._events}),
        )
        self._first += self._steps
        self._steps = self._decisions = self._agent_steps = 0
        self._holds_reset = False
        self._versions, self._events = {}, []
        return block


def events_of(block: StepBlock) -> Iterator[Event]:
    """What a block says, in order: for each step actions, then outcomes."""
    quick = cast("Mapping[str, list[Event]]", block.brains).get(ROWS)
    if quick is not None:
        yield from quick
        return
    for wire, columns in sorted(block.brains.items()):
        yield from _events_of_columns(wire, columns)


def _events_of_columns(wire: str, columns: BrainColumns) -> Iterator[Event]:
    order = [
        *((step, 0, index) for index, step in enumerate(columns.action_steps.tolist())),
        *((step, 1, index) for index, step in enumerate(columns.row_steps.tolist())),
    ]
    actors, agents = columns.action_agents.tolist(), columns.row_agents.tolist()
    choices = columns.discrete[:, 0].tolist()
    observations, rewards, kinds = (
        columns.observations[0].tolist(),
        columns.rewards.tolist(),
        columns.row_kinds.tolist(),
    )
    for _, is_row, index in sorted(order):
        if is_row:
            observation = cast("Observation", tuple(int(each) for each in observations[index]))
            yield Row(wire, agents[index], observation, int(rewards[index]), kinds[index])
        else:
            yield Act(wire, actors[index], choices[index])


@dataclass(frozen=True, slots=True)
class _Acted:
    """What acted on one brain's rows, as the builder wants it."""

    agents: Ids
    version: int
    discrete: Ints
    memory_before: Floats | None = None
    sequence_starts: Bools | None = None

    @property
    def continuous_raw(self) -> Floats:
        return np.zeros((len(self.agents), 0), np.float32)


class ColumnBuilder:
    """The faithful one: the runtime's `BlockBuilder` behind the same methods."""

    def __init__(self, env_id: EnvId, incarnation: Incarnation) -> None:
        self._builder = BlockBuilder(env_id, incarnation)
        self._env_id = env_id
        self._brains: list[str] = []

    @property
    def pending(self) -> Mapping[str, int]:
        """Agents that wait for a decision, by wire name."""
        return self._builder.pending

    @property
    def unanswered(self) -> int:
        """Actions whose outcome has not arrived."""
        return self._builder.unanswered

    def add_brains(self, brains: tuple[BrainParameters, ...]) -> None:
        """Makes brains known."""
        self._builder.add_brains(brains)
        self._brains.extend(each.brain_name for each in brains if each.brain_name not in self._brains)

    def record_reset(self, rows: list[Row], reset_id: int) -> None:
        """The reply to a reset."""
        self._builder.record_reset(self._infos(rows), reset_id=reset_id)

    def record_step(self, acts: list[Act], versions: Mapping[str, int], rows: list[Row]) -> None:
        """One env step."""
        acted: dict[str, _Acted] = {}
        for wire in self._brains:
            sent = [each for each in acts if each.wire == wire]
            agents = np.array([each.agent for each in sent], np.int64)
            choices = np.array([each.choice for each in sent], np.int32).reshape(-1, 1)
            acted[wire] = _Acted(agents, versions.get(wire.partition("?")[0], 0), choices)
        self._builder.record_step(acted, self._infos(rows))

    def take(self) -> StepBlock | None:
        """All that is held, as a block."""
        return self._builder.take()

    def _infos(self, rows: list[Row]) -> dict[str, BrainInfo]:
        return {wire: self._info([each for each in rows if each.wire == wire]) for wire in sorted(self._brains)}

    def _info(self, rows: list[Row]) -> BrainInfo:
        going = _arrays([each for each in rows if each.kind == _DECISION])
        ends = [each for each in rows if each.kind != _DECISION]
        ids, seen, rewards, groups, group_rewards = _arrays(ends)
        interrupted = np.array([each.kind == RowKind.INTERRUPTED for each in ends], np.bool_)
        return BrainInfo(
            DecisionRows(going[0], (going[1],), going[2], None, going[3], going[4]),
            TerminalRows(ids, (seen,), rewards, interrupted, groups, group_rewards),
            self._env_id,
        )


def _arrays(rows: list[Row]) -> tuple[Ids, Floats, Floats, Ints, Floats]:
    count = len(rows)
    return (
        np.array([each.agent for each in rows], np.int64),
        np.array([each.observation for each in rows], np.float32).reshape(count, OBSERVATION_SIZE),
        np.array([each.reward for each in rows], np.float32),
        np.zeros(count, np.int32),
        np.zeros(count, np.float32),
    )
