"""A simulated player: a tiny world that is a function of its seed, and a count of its own."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    EnvId,
    Floats,
    Ids,
    Ints,
    ObservationSpec,
    TerminalRows,
)

CHOICES = 3
OBSERVATION_SIZE = 5

Reply = tuple[dict[str, BrainInfo], tuple[BrainParameters, ...]]


def mix(*numbers: int) -> int:
    """A number of 32 bits that follows from the arguments and looks like chance."""
    return zlib.crc32(repr(numbers).encode())


def reward_of(observation: tuple[int, ...], action: int) -> int:
    """A reward that tells which action answered which observation."""
    return mix(*observation, action) % 1000


def brain(name: str) -> BrainParameters:
    """A brain of the simulated players: an observation of 5 floats, one branch of 3."""
    return BrainParameters(BrainName(name), (ObservationSpec((OBSERVATION_SIZE,)),), ActionSpec(0, (CHOICES,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the players of a run show.

    agents: at most, and at the beginning. brains: wire names by agent (cyclic). late_brain: name that agents with odd
    numbers take from env step `late_at` on, empty for none. announces: brains are known from the handshake on.
    """

    agents: int = 2
    brains: tuple[str, ...] = ("Walker",)
    late_brain: str = ""
    late_at: int = 10
    announces: bool = True


@dataclass(slots=True)
class Counts:
    """What a player, or all players, counted."""

    env_steps: int = 0
    agent_steps: int = 0
    decisions: int = 0

    def add(self, other: Counts) -> None:
        """Include another's counts."""
        self.env_steps += other.env_steps
        self.agent_steps += other.agent_steps
        self.decisions += other.decisions


@dataclass(slots=True)
class _Agent:
    """One agent. away: env steps until it shows itself again. acted: its action has no outcome yet."""

    number: int
    wire: str
    agent: int
    episode: int = 0
    t: int = 0
    away: int = 0
    acted: bool = False
    reward: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a reply; interrupted is None for one that asks for a decision."""

    wire: str
    observation: tuple[int, ...]
    reward: int
    interrupted: bool | None = None


@dataclass(slots=True)
class SimPlayer:
    """One player of one incarnation. `reset` and `step` are exchanges; `counts` is its journal."""

    env_id: int
    incarnation: int
    seed: int
    scene: Scene
    counts: Counts = field(default_factory=Counts)
    is_alive: bool = True
    hangs: bool = False
    _announced: set[str] = field(default_factory=set)
    _agents: list[_Agent] = field(default_factory=list)
    _resets: int = 0

    def hello(self) -> tuple[BrainParameters, ...]:
        """The brains of the handshake."""
        return self._announce(set(self.scene.brains)) if self.scene.announces else ()

    def reset(self) -> Reply:
        """The first rows, by wire name, and brains not announced before."""
        self._resets += 1
        numbers = range(self.scene.agents)
        self._agents = [_Agent(each, self._wire(each), agent=100 * self._resets + each) for each in numbers]
        return self._reply([self._go_on(each) for each in self._agents])

    def step(self, actions: dict[str, tuple[Ids, list[int]]]) -> Reply:
        """The rows after these actions (agents and choices by wire name), and brains not announced before."""
        self.counts.env_steps += 1
        agents = {(each.wire, each.agent): each for each in self._agents}
        for wire, (ids, choices) in actions.items():
            for agent, choice in zip(ids.tolist(), choices, strict=True):
                one = agents[wire, agent]
                assert not one.acted, f"agent {agent} was sent an action while it waits for none"
                self.counts.decisions += 1
                one.reward, one.acted = reward_of(self._observation(one), choice), True
        return self._reply([row for one in self._agents for row in self._live(one)])

    def _live(self, one: _Agent) -> list[_Row]:
        """What one agent shows in this step: nothing, an outcome, or an end and perhaps a new beginning."""
        chance = mix(self.seed, self.counts.env_steps, one.number)
        if one.away:
            one.away -= 1
            return [] if one.away else [self._go_on(one)]
        if chance % 10 == 0:
            return []
        one.t += 1
        if chance % 10 > 1:
            return [self._go_on(one)]
        end = _Row(one.wire, self._observation(one), one.reward, interrupted=bool(chance // 10 % 2))
        self._answer(one)
        one.episode, one.t, one.reward, one.wire = one.episode + 1, 0, 0, self._wire(one.number)
        one.agent += 1000 * (chance // 100 % 2)
        one.away = chance // 1000 % 3
        return [end] if one.away else [end, self._go_on(one)]

    def _go_on(self, one: _Agent) -> _Row:
        self._answer(one)
        return _Row(one.wire, self._observation(one), one.reward)

    def _answer(self, one: _Agent) -> None:
        self.counts.agent_steps += one.acted
        one.acted = False

    def _wire(self, number: int) -> str:
        scene = self.scene
        if scene.late_brain and number % 2 and self.counts.env_steps >= scene.late_at:
            return scene.late_brain
        return scene.brains[number % len(scene.brains)]

    def _observation(self, one: _Agent) -> tuple[int, ...]:
        return (self.env_id, self.incarnation, one.agent, one.episode, one.t)

    def _announce(self, names: set[str]) -> tuple[BrainParameters, ...]:
        new = sorted(names - self._announced)
        self._announced.update(new)
        return tuple(brain(name) for name in new)

    def _reply(self, rows: list[_Row]) -> Reply:
        new = self._announce({each.wire for each in rows})
        infos = {name: self._info([each for each in rows if each.wire == name]) for name in sorted(self._announced)}
        return infos, new

    def _info(self, rows: list[_Row]) -> BrainInfo:
        going = _arrays([each for each in rows if each.interrupted is None])
        ends = [each for each in rows if each.interrupted is not None]
        ids, seen, rewards, groups, group_rewards = _arrays(ends)
        interrupted = np.array([each.interrupted for each in ends], np.bool_)
        return BrainInfo(
            DecisionRows(going[0], (going[1],), going[2], None, going[3], going[4]),
            TerminalRows(ids, (seen,), rewards, interrupted, groups, group_rewards),
            EnvId(self.env_id),
        )


def _arrays(rows: list[_Row]) -> tuple[Ids, Floats, Floats, Ints, Floats]:
    count = len(rows)
    return (
        np.array([each.observation[2] for each in rows], np.int64),
        np.array([each.observation for each in rows], np.float32).reshape(count, OBSERVATION_SIZE),
        np.array([each.reward for each in rows], np.float32),
        np.zeros(count, np.int32),
        np.zeros(count, np.float32),
    )
