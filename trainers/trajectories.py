"""Trajectories: rows and actions of one brain in one environment, paired into transitions.

A row is an observation received. An action is for its agent's latest row. The agent's next row closes the transition
with its reward, the group's added to its own; a row that comes without an action since the last one replaces the
observation, and its reward is owed to the next transition. A TERMINAL or INTERRUPTED row ends the episode, a DECISION
row goes on. What is open after a block is carried, so the cut between two blocks changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from runtime.experience.brains import Bools
from runtime.experience.columns import BrainColumns, RowKind
from trainers.buffer import Array, End, Observations, TransitionBuffer, named_parts
from trainers.sequences import Sent, memory_columns, sent

LOST_AGENTS_MAX = 10_000
"""Agents remembered as cut in the middle of an episode, per environment and brain."""


class OpenTrajectory:
    """What is known of one agent's unfinished episode.

    observation, mask (M,) or None: its latest row. action: what was sent since, or None. source, action_source: the
    same as numbers of rows in the block being taken, -1 outside of it. last_row: its latest transition in the buffer,
    -1 when an update has taken that. owed: reward not yet in a transition. is_counted: False when the beginning of the
    episode was not seen. clock: env step of the latest row.
    """

    __slots__ = (
        "action",
        "action_source",
        "clock",
        "group_reward",
        "is_counted",
        "last_row",
        "length",
        "mask",
        "observation",
        "owed",
        "reward",
        "source",
    )

    def __init__(self, source: int, clock: int, *, is_counted: bool) -> None:
        self.observation: Observations | None = None
        self.mask: Bools | None = None
        self.action: Sent | None = None
        self.source = source
        self.action_source = -1
        self.last_row = -1
        self.owed = 0.0
        self.reward = 0.0
        self.group_reward = 0.0
        self.length = 0
        self.is_counted = is_counted
        self.clock = clock

    @property
    def has_action(self) -> bool:
        """True when an action was sent whose outcome has not arrived."""
        return self.action_source >= 0 or self.action is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEpisode:
    """One finished training episode: when (env step), who, its own rewards, agent steps, rewards of its group."""

    clock: int
    agent: int
    reward: float
    length: int
    group_reward: float


@dataclass(slots=True)
class _Found:
    """Transitions found in one block, as numbers of rows; carried ones follow the block's own rows.

    transitions: agent, source, source of the action and reward of each.
    """

    transitions: list[tuple[int, int, int, float]] = field(default_factory=list)
    ends: list[tuple[int, End, int]] = field(default_factory=list)
    carried_observations: list[Observations] = field(default_factory=list)
    carried_masks: list[Bools | None] = field(default_factory=list)
    carried_actions: list[Sent] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRows:
    """One brain's part of a block. observations: of its r rows. clock: env steps of the environment before it.

    keeps_ends: what was observed behind a real end is needed.
    """

    columns: BrainColumns
    observations: Observations
    masks: Bools | None
    version: int
    clock: int
    keeps_ends: bool = False

    def tail(self, end: End, row: int) -> Observations | None:
        """What follows a transition with that end, whose row ends the episode; None where it is not needed or known."""
        if end is End.TERMINAL and not (self.keeps_ends and self.columns.shows_ends):
            return None
        return _one(self.observations, row)

    def end_of(self, kind: int) -> End:
        """How a row of that kind ends its agent's latest transition."""
        if kind == RowKind.TERMINAL:
            return End.TERMINAL
        return End.CUT if self.columns.shows_ends else End.LAST_SEEN


class Stream:
    """The agents of one brain in one incarnation of one environment."""

    def __init__(self, identity: tuple[int, int, int]) -> None:
        """identity: number of the wire name, environment, incarnation; they go into the buffer's rows."""
        self._identity = identity
        self._open: dict[int, OpenTrajectory] = {}
        self._lost: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, rows: StreamRows, buffer: TransitionBuffer | None) -> tuple[int, list[FinishedEpisode]]:
        """Number of transitions that the rows close, and the episodes that they finish.

        The transitions go into `buffer`; without one they are only counted.
        """
        found = _Found()
        episodes = self._pair(rows, found, buffer)
        if buffer is not None and found.transitions:
            self._store(rows, found, buffer)
        self._carry(rows)
        return len(found.transitions), episodes

    def _pair(self, rows: StreamRows, found: _Found, buffer: TransitionBuffer | None) -> list[FinishedEpisode]:
        columns, table, episodes = rows.columns, self._open, []
        action_steps, action_agents = columns.action_steps.tolist(), columns.action_agents.tolist()
        sent, total = 0, len(action_steps)
        stream = zip(
            columns.row_steps.tolist(),
            columns.row_agents.tolist(),
            columns.row_kinds.tolist(),
            columns.rewards.tolist(),
            columns.group_rewards.tolist(),
            strict=True,
        )
        clock, decision = rows.clock + 1, int(RowKind.DECISION)
        for row, (step, agent, kind, reward, group_reward) in enumerate(stream):
            while sent < total and action_steps[sent] <= step:
                self._act(action_agents[sent], sent)
                sent += 1
            trajectory = table.get(agent)
            if trajectory is not None:
                trajectory.reward += reward
                if group_reward:
                    trajectory.group_reward += group_reward
                # What a group earns is as good to each of its members as what they earn themselves, as in ML-Agents.
                self._close(trajectory, agent, reward + group_reward, found)
                trajectory.clock = clock + step
                if kind == decision:
                    trajectory.source = row
                    continue
                self._finish(trajectory, (kind, row), rows, (found, buffer))
                if trajectory.is_counted and trajectory.length:
                    episodes.append(_finished(trajectory, agent))
                del table[agent]
            elif kind == decision:
                table[agent] = OpenTrajectory(row, clock + step, is_counted=agent not in self._lost)
            else:
                self._lost.pop(agent, None)
        for late in range(sent, total):
            self._act(action_agents[late], late)
        return episodes

    def _act(self, agent: int, action: int) -> None:
        # An action without an observation belongs to a trajectory that was cut in between: nothing to learn from.
        trajectory = self._open.get(agent)
        if trajectory is not None:
            trajectory.action_source = action

    def _close(self, trajectory: OpenTrajectory, agent: int, earned: float, found: _Found) -> None:
        source, action_source, transitions = trajectory.source, trajectory.action_source, found.transitions
        if action_source < 0:
            if trajectory.action is None:
                trajectory.owed += earned
                return
            action_source = -1 - len(found.carried_actions)
            found.carried_actions.append(trajectory.action)
        if source < 0:
            assert trajectory.observation is not None
            source = -1 - len(found.carried_observations)
            found.carried_observations.append(trajectory.observation)
            found.carried_masks.append(trajectory.mask)
        trajectory.last_row = -2 - len(transitions)
        trajectory.length += 1
        trajectory.action, trajectory.action_source = None, -1
        transitions.append((agent, source, action_source, trajectory.owed + earned))
        trajectory.owed = 0.0

    def _finish(
        self,
        trajectory: OpenTrajectory,
        ending: tuple[int, int],
        rows: StreamRows,
        stores: tuple[_Found, TransitionBuffer | None],
    ) -> None:
        """Ends the trajectory's latest transition, be it of this block or an earlier one; -1: none to end."""
        (kind, row), (found, buffer) = ending, stores
        end = rows.end_of(kind)
        if trajectory.last_row <= -2:
            number = -2 - trajectory.last_row
            # In float32, as when the transition is in the buffer already: a block's end must not change a bit.
            agent, source, action_source, reward = found.transitions[number]
            whole = float(np.float32(reward) + np.float32(trajectory.owed))
            found.transitions[number] = agent, source, action_source, whole
            found.ends.append((number, end, row))
        elif trajectory.last_row >= 0 and buffer is not None:
            buffer.add_reward(trajectory.last_row, trajectory.owed)
            buffer.end(trajectory.last_row, end, rows.tail(end, row))

    def _store(self, rows: StreamRows, found: _Found, buffer: TransitionBuffer) -> None:
        columns, first = rows.columns, len(buffer)
        agents, row_numbers, action_numbers, rewards = zip(*found.transitions, strict=True)
        sources, actions = np.array(row_numbers, np.int64), np.array(action_numbers, np.int64)
        observations = tuple(
            _gathered(own, sources, [each[part] for each in found.carried_observations])
            for part, own in enumerate(rows.observations)
        )
        masks: Array = np.ones((), np.bool_)
        if rows.masks is not None or any(each is not None for each in found.carried_masks):
            width = len(next(each for each in (*found.carried_masks, *_some(rows.masks)) if each is not None))
            everything = np.ones(width, np.bool_)
            own = rows.masks if rows.masks is not None else np.ones((len(columns.row_agents), width), np.bool_)
            masks = _gathered(own, sources, [everything if each is None else each for each in found.carried_masks])
        carried = found.carried_actions
        wire, env, incarnation = self._identity
        buffer.append(
            {
                "wire": np.asarray(wire, np.int32),
                "env": np.asarray(env, np.int32),
                "incarnation": np.asarray(incarnation, np.int32),
                "agent": np.array(agents, np.int64),
                "version": _gathered(
                    np.full(len(columns.action_agents), rows.version, np.int32),
                    actions,
                    [np.int32(each.version) for each in carried],
                ),
                **(memory_columns(columns.memories, actions, carried, buffer) if buffer.shape.memory_size else {}),
                **named_parts(observations),
                "masks": masks,
                "continuous": _gathered(columns.continuous, actions, [each.continuous for each in carried]),
                "discrete": _gathered(columns.discrete, actions, [each.discrete for each in carried]),
                "rewards": np.array(rewards, np.float32),
                "ends": np.asarray(End.NONE, np.uint8),
            },
            len(agents),
        )
        for number, end, row in found.ends:
            buffer.end(first + number, end, rows.tail(end, row))
        for trajectory in self._open.values():
            if trajectory.last_row <= -2:
                trajectory.last_row = first - 2 - trajectory.last_row

    def _carry(self, rows: StreamRows) -> None:
        columns = rows.columns
        for trajectory in self._open.values():
            if trajectory.last_row <= -2:
                trajectory.last_row = -1
            if trajectory.source >= 0:
                trajectory.observation = _one(rows.observations, trajectory.source)
                trajectory.mask = None if rows.masks is None else rows.masks[trajectory.source].copy()
                trajectory.source = -1
            if trajectory.action_source >= 0:
                number, trajectory.action_source = trajectory.action_source, -1
                chosen = columns.continuous[number].copy(), columns.discrete[number].copy()
                trajectory.action = Sent(*chosen, rows.version, *sent(columns.memories, number))

    def cut_for_update(self, buffer: TransitionBuffer) -> None:
        """Bootstraps what is in `buffer` from the last observations; episodes and actions under way go on."""
        for trajectory in self._open.values():
            if trajectory.last_row >= 0:
                if buffer.is_open(trajectory.last_row):
                    buffer.end(trajectory.last_row, End.CUT, trajectory.observation)
                trajectory.last_row = -1

    def mark_cuts(self, buffer: TransitionBuffer) -> None:
        """Bootstraps open trajectories in a copy of the buffer, as `cut` would; the stream itself goes on."""
        for trajectory in self._open.values():
            if trajectory.last_row >= 0 and buffer.is_open(trajectory.last_row):
                buffer.end(trajectory.last_row, End.CUT, trajectory.observation)

    def cut(self, buffer: TransitionBuffer, agents: Iterable[int] | None = None) -> int:
        """Ends the trajectories of `agents`, or of all; says how many. Their episodes will not be counted."""
        chosen = list(self._open) if agents is None else list(agents)
        for agent in chosen:
            trajectory = self._open.pop(agent)
            if trajectory.last_row >= 0 and buffer.is_open(trajectory.last_row):
                buffer.end(trajectory.last_row, End.CUT, trajectory.observation)
            self._lost[agent] = None
        while len(self._lost) > LOST_AGENTS_MAX:
            self._lost.popitem(last=False)
        return len(chosen)

    def forget_lost(self) -> None:
        """After a reset every episode is new."""
        self._lost.clear()

    def idle_since(self, clock: int) -> list[int]:
        """Agents whose latest row came before env step `clock`."""
        return [agent for agent, trajectory in self._open.items() if trajectory.clock < clock]


def _finished(trajectory: OpenTrajectory, agent: int) -> FinishedEpisode:
    return FinishedEpisode(
        clock=trajectory.clock,
        agent=agent,
        reward=trajectory.reward,
        length=trajectory.length,
        group_reward=trajectory.group_reward,
    )


def _one(observations: Observations, row: int) -> Observations:
    """A copy of one row, so that its block can go."""
    return tuple([part[row].copy() for part in observations])


def _some(masks: Bools | None) -> list[Bools]:
    return [] if masks is None or not len(masks) else [masks[0]]


def _gathered(own: Array, numbers: Array, carried: Sequence[Array | np.generic]) -> Array:
    """Rows of `own` by number; numbers -1, -2, ... are the rows of `carried`, in this order."""
    # Negative numbers count from the end: the carried rows are laid there in reverse.
    table = np.concatenate([own, np.stack(carried[::-1])]) if carried else own
    rows: Array = table[numbers]
    return rows
