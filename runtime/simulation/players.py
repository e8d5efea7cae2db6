"""A simulated player: a tiny world that is a function of its seed, and a journal of its own.

Observations encode (env_id, incarnation, agent, episode, t) and rewards follow from observation and action, so whoever
stores a transition can be checked without a look inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.experience.columns import RowKind
from runtime.experience.parameters import ParameterValue

CHOICES = 3
OBSERVATION_SIZE = 5
_MASK = 0xFFFFFFFF
_DECISION, _TERMINAL, _INTERRUPTED = int(RowKind.DECISION), int(RowKind.TERMINAL), int(RowKind.INTERRUPTED)

Observation = tuple[int, int, int, int, int]


def chance(seed: int, step: int, number: int) -> int:
    """24 bits that follow from the arguments and look like chance; arithmetic, so equal on every machine."""
    mixed = (seed ^ (step * 0x9E3779B1) ^ (number * 0x85EBCA77)) & _MASK
    mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & _MASK
    return (mixed ^ (mixed >> 12)) * 0x297A2D39 >> 8 & 0xFFFFFF


def reward_of(observation: Observation, action: int) -> int:
    """A reward that tells which action answered which observation; below 2^24, so exact as float32."""
    env, incarnation, agent, episode, t = observation
    return (env * 7919 + incarnation * 104729 + agent * 1299709 + episode * 15485863 + t * 611953 + action * 31) % 99991


def brain(name: str) -> BrainParameters:
    """A brain of the simulated players: an observation of 5 floats, one branch of 3."""
    return BrainParameters(BrainName(name), (ObservationSpec((OBSERVATION_SIZE,)),), ActionSpec(0, (CHOICES,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the players of a run show.

    agents: at most; late_agents: how many of them come some steps after a reset. brains: wire names by agent (cyclic).
    late_brain: name that agents with odd numbers take from env step `late_at` on, empty for none. announces: brains are
    known from the handshake on. takes_parameters: players can be told parameters without a reset.
    """

    agents: int = 2
    late_agents: int = 0
    brains: tuple[str, ...] = ("Walker",)
    late_brain: str = ""
    late_at: int = 10
    announces: bool = True
    takes_parameters: bool = False


class Row(NamedTuple):
    """One row of a reply. kind: of `RowKind`."""

    wire: str
    agent: int
    observation: Observation
    reward: int
    kind: int


class Act(NamedTuple):
    """An action sent to one agent."""

    wire: str
    agent: int
    choice: int


class Reply(NamedTuple):
    """What a player answers. brains: not announced before."""

    rows: list[Row]
    brains: tuple[BrainParameters, ...]


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


@dataclass(slots=True, eq=False)
class SimPlayer:
    """One player of one incarnation. `reset` and `step` are exchanges.

    journal: agent steps counted up to the end of each env step, 0 first; decided: the same for decisions. waiting:
    agents that wait for a decision after each env step, or after the reset that followed it; the first reset is first.
    reset_id: of the newest reset. parameters: as it was given them.
    """

    env_id: int
    incarnation: int
    seed: int
    scene: Scene
    is_alive: bool = True
    hangs: bool = False
    resets: int = 0
    reset_id: int = -1
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    journal: list[int] = field(default_factory=lambda: [0])
    decided: list[int] = field(default_factory=lambda: [0])
    waiting: list[int] = field(default_factory=lambda: [0])
    _announced: set[str] = field(default_factory=set)
    _agents: list[_Agent] = field(default_factory=list)
    _answered: int = 0

    @property
    def env_steps(self) -> int:
        """Env steps taken."""
        return len(self.journal) - 1

    def hello(self) -> tuple[BrainParameters, ...]:
        """The brains of the handshake."""
        return self._announce(set(self.scene.brains)) if self.scene.announces else ()

    def reset(self, reset_id: int, parameters: Mapping[str, ParameterValue]) -> Reply:
        """The first rows of a new beginning, and brains not announced before."""
        self.resets += 1
        self.reset_id, self.parameters = reset_id, dict(parameters)
        numbers = range(self.scene.agents)
        self._agents = [_Agent(each, self._wire(each), agent=100 * self.resets + each) for each in numbers]
        for one in self._agents[self.scene.agents - self.scene.late_agents :]:
            one.away = 1 + one.number
        rows = [self._go_on(each) for each in self._agents if not each.away]
        self.waiting[-1] = len(rows)
        return self._reply(rows)

    def step(self, acts: list[Act]) -> Reply:
        """The rows after these actions, and brains not announced before."""
        agents = {(each.wire, each.agent): each for each in self._agents}
        self._answered = 0
        for wire, agent, choice in acts:
            one = agents[wire, agent]
            assert not one.acted, f"agent {agent} was sent an action while it waits for none"
            one.reward, one.acted = reward_of(self._observation(one), choice), True
        self.decided.append(self.decided[-1] + len(acts))
        self.journal.append(self.journal[-1])
        rows: list[Row] = []
        for one in self._agents:
            self._live(one, rows)
        self.journal[-1] += self._answered
        self.waiting.append(sum(row.kind == _DECISION for row in rows))
        return self._reply(rows)

    def _live(self, one: _Agent, rows: list[Row]) -> None:
        """What one agent shows in this step: nothing, an outcome, or an end and perhaps a new beginning."""
        luck = chance(self.seed, self.env_steps, one.number)
        if one.away:
            one.away -= 1
            if not one.away:
                rows.append(self._go_on(one))
            return
        if luck % 10 == 0:
            return
        one.t += 1
        if luck % 10 > 1:
            rows.append(self._go_on(one))
            return
        kind = _INTERRUPTED if luck // 10 % 2 else _TERMINAL
        rows.append(Row(one.wire, one.agent, self._observation(one), one.reward, kind))
        self._answer(one)
        one.episode, one.t, one.reward, one.wire = one.episode + 1, 0, 0, self._wire(one.number)
        one.agent += 1000 * (luck // 100 % 2)
        one.away = luck // 1000 % 3
        if not one.away:
            rows.append(self._go_on(one))

    def _go_on(self, one: _Agent) -> Row:
        self._answer(one)
        return Row(one.wire, one.agent, self._observation(one), one.reward, _DECISION)

    def _answer(self, one: _Agent) -> None:
        self._answered += one.acted
        one.acted = False

    def _wire(self, number: int) -> str:
        scene = self.scene
        if scene.late_brain and number % 2 and self.env_steps >= scene.late_at:
            return scene.late_brain
        return scene.brains[number % len(scene.brains)]

    def _observation(self, one: _Agent) -> Observation:
        return (self.env_id, self.incarnation, one.agent, one.episode, one.t)

    def _announce(self, names: set[str]) -> tuple[BrainParameters, ...]:
        new = names - self._announced
        if not new:
            return ()
        self._announced |= new
        return tuple(brain(name) for name in sorted(new))

    def _reply(self, rows: list[Row]) -> Reply:
        return Reply(rows, self._announce({each.wire for each in rows}))
