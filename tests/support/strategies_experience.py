"""Strategies for the data vocabulary: brains, moments of their agents, and whole histories of one environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from runtime.experience.brains import (
    ActionSpec,
    AllBrainInfo,
    Bools,
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

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class SentActions:
    """Actions as a block builder takes them."""

    agents: Ids
    version: int
    continuous_raw: Floats
    discrete: Ints
    memory_before: Floats | None = None
    sequence_starts: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ResetEvent:
    """The reply to a reset."""

    infos: AllBrainInfo


@dataclass(frozen=True, slots=True, eq=False)
class StepEvent:
    """Actions for all that waited, and the reply."""

    acted: Mapping[str, SentActions]
    infos: AllBrainInfo


@dataclass(frozen=True, slots=True, eq=False)
class StepHistory:
    """What happened in one environment: the brains, and events that start with a reset."""

    brains: tuple[BrainParameters, ...]
    events: tuple[ResetEvent | StepEvent, ...]


def agent_ids() -> SearchStrategy[int]:
    """Any id that a player may give: small ones, which meet often, and all of int64."""
    return st.one_of(st.integers(0, 6), st.integers(INT64_MIN, INT64_MAX))


def agent_arrays(*, sizes_max: int = 8) -> SearchStrategy[Ids]:
    """int64 (n,) without repetition, n from 0."""
    return st.lists(agent_ids(), unique=True, max_size=sizes_max).map(lambda each: np.array(each, np.int64))


def observation_specs() -> SearchStrategy[ObservationSpec]:
    """Vectors, and now and then a small buffer."""
    shapes = st.one_of(st.tuples(st.integers(1, 9)), st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return shapes.map(ObservationSpec)


def action_specs(*, branch_size_min: int = 1) -> SearchStrategy[ActionSpec]:
    """Continuous, discrete and hybrid; never nothing at all."""
    branches = st.lists(st.integers(branch_size_min, 5), max_size=3).map(tuple)
    specs = st.builds(ActionSpec, continuous_size=st.integers(0, 3), discrete_branches=branches)
    return specs.filter(lambda spec: spec.continuous_size + spec.mask_size > 0)


def brain_parameters(name: str = "Bot") -> SearchStrategy[BrainParameters]:
    """A brain of this name."""
    return st.builds(
        BrainParameters,
        brain_name=st.just(BrainName(name)),
        observation_specs=st.lists(observation_specs(), min_size=1, max_size=3).map(tuple),
        action_spec=action_specs(),
    )


@st.composite
def brain_infos(
    draw: st.DrawFn,
    spec: BrainParameters,
    *,
    agents_max: int = 8,
    masked: bool | None = None,
) -> BrainInfo:
    """One moment: some agents ask, some ended; every branch allows something. masked: None for both."""
    deciding, ended = draw(agent_arrays(sizes_max=agents_max)), draw(agent_arrays(sizes_max=3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    has_masks = draw(st.booleans()) if masked is None else masked
    return build_info(spec, deciding, ended, rng=rng, has_masks=has_masks, env_id=draw(st.integers(0, 3)))


@st.composite
def step_histories(draw: st.DrawFn, *specs: BrainParameters, events_max: int = 12) -> StepHistory:
    """A legal life of an environment.

    All agents that wait act; an acting agent then goes on, ends (with or without starting again in the same reply), or
    is silent for a while; others appear; the environment is reset now and then.
    """
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    size = draw(st.integers(1, events_max))
    rates = draw(st.tuples(st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5)))
    resets = draw(st.sets(st.integers(1, events_max), max_size=2))
    actors: dict[str, _Crowd] = {spec.brain_name: _Crowd(spec, rng, rates) for spec in specs}
    events: list[ResetEvent | StepEvent] = []
    for index in range(size):
        if index == 0 or index in resets:
            events.append(ResetEvent({name: crowd.reset() for name, crowd in actors.items()}))
        else:
            acted = {name: crowd.act() for name, crowd in actors.items()}
            events.append(StepEvent(acted, {name: crowd.reply() for name, crowd in actors.items()}))
    return StepHistory(specs, tuple(events))


def build_info(
    spec: BrainParameters,
    deciding: Ids,
    ended: Ids,
    *,
    rng: np.random.Generator,
    has_masks: bool = False,
    env_id: int = 0,
) -> BrainInfo:
    """Rows with random content for these agents."""
    n, t = len(deciding), len(ended)
    masks = (
        random_masks(spec.action_spec.discrete_branches, n, rng) if has_masks and spec.action_spec.mask_size else None
    )
    decisions = DecisionRows(
        deciding,
        _observations(spec, n, rng),
        rng.standard_normal(n).astype(np.float32),
        masks,
        rng.integers(0, 3, n).astype(np.int32),
        rng.standard_normal(n).astype(np.float32),
    )
    terminals = TerminalRows(
        ended,
        _observations(spec, t, rng),
        rng.standard_normal(t).astype(np.float32),
        rng.random(t) < 0.5,
        rng.integers(0, 3, t).astype(np.int32),
        rng.standard_normal(t).astype(np.float32),
    )
    return BrainInfo(decisions, terminals, EnvId(env_id))


def random_masks(branches: Sequence[int], rows: int, rng: np.random.Generator) -> Bools:
    """bool (rows, sum of branches), at least one index of each branch allowed."""
    parts = []
    for size in branches:
        part = rng.random((rows, size)) < 0.4
        part[np.arange(rows), rng.integers(0, size, rows)] = True
        parts.append(part)
    return np.concatenate(parts, axis=1)


class _Crowd:
    """The agents of one brain in a made-up player."""

    def __init__(self, spec: BrainParameters, rng: np.random.Generator, rates: tuple[float, float, float]) -> None:
        self._spec, self._rng = spec, rng
        self._silence, self._ending, self._arrival = rates
        self._waiting: list[int] = []
        self._acting: list[int] = []
        self._next_agent = 0

    def reset(self) -> BrainInfo:
        self._acting = []
        self._waiting = list(range(self._next_agent, self._next_agent + int(self._rng.integers(0, 4))))
        self._next_agent += len(self._waiting)
        return self._info([])

    def act(self) -> SentActions:
        agents, spec = np.array(self._waiting, np.int64), self._spec.action_spec
        self._acting += self._waiting
        self._waiting = []
        raw = self._rng.standard_normal((len(agents), spec.continuous_size)).astype(np.float32)
        chosen = [self._rng.integers(0, size, len(agents)).astype(np.int32) for size in spec.discrete_branches]
        discrete = np.stack(chosen, axis=1) if chosen else np.zeros((len(agents), 0), np.int32)
        return SentActions(agents, 7, raw, discrete)

    def reply(self) -> BrainInfo:
        ended, acting = [], []
        for agent in self._acting:
            if self._rng.random() < self._silence * 0.5:
                acting.append(agent)
            elif self._rng.random() < self._ending:
                ended.append(agent)
                self._waiting += [agent] * int(self._rng.integers(0, 2))
            else:
                self._waiting.append(agent)
        self._acting = acting
        if self._rng.random() < self._arrival:
            self._waiting.append(self._next_agent)
            self._next_agent += 1
        return self._info(ended)

    def _info(self, ended: list[int]) -> BrainInfo:
        has_masks = bool(self._rng.integers(0, 2))
        deciding, gone = np.array(self._waiting, np.int64), np.array(ended, np.int64)
        return build_info(self._spec, deciding, gone, rng=self._rng, has_masks=has_masks)


def _observations(spec: BrainParameters, rows: int, rng: np.random.Generator) -> tuple[Floats, ...]:
    return tuple(rng.standard_normal((rows, *each.shape)).astype(np.float32) for each in spec.observation_specs)
