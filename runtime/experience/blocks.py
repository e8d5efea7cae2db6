"""Blocks in the making: what one environment does, step by step, until it is packed for the learner.

A step costs a few list appends and a comparison of ids; arrays are joined when the block is taken. Three counters are
kept (env steps, decisions, agent steps). An *agent step* is an action whose outcome has arrived: the builder remembers
whose action is unanswered, over blocks too, until a row of that agent arrives or a reset clears it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from runtime.errors import InternalError
from runtime.experience.brains import (
    AllBrainInfo,
    Bools,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    EnvId,
    Floats,
    Ids,
    Incarnation,
    Ints,
    Observation,
    TerminalRows,
    empty_rows,
)
from runtime.experience.columns import ActionMemories, BrainColumns, RowKind, StepBlock
from runtime.experience.watched import WatchedLog

Scalar = TypeVar("Scalar", bound=np.generic)

RESET_STEP = -1
_NOTHING: AllBrainInfo = {}


class ActedRows(Protocol):
    """What the builder needs of an act.

    agents: int64 (n,). continuous_raw: float32 (n, c). discrete: int32 (n, branches). memory_before: float32 (n, w),
    and sequence_starts: bool (n,); None for a policy without memory.
    """

    @property
    def agents(self) -> Ids:
        """Whose actions they are."""

    @property
    def version(self) -> int:
        """The policy version that chose them."""

    @property
    def continuous_raw(self) -> Floats:
        """The sample before it was squashed."""

    @property
    def discrete(self) -> Ints:
        """The chosen indices."""

    @property
    def memory_before(self) -> Floats | None:
        """What each agent remembered before."""

    @property
    def sequence_starts(self) -> Bools | None:
        """Whether a training sequence starts with the action."""


@dataclass(slots=True)
class UnansweredActions:
    """Agents of one brain whose action has no outcome yet."""

    _sent: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    _silent: set[int] = field(default_factory=set)

    def send(self, agents: Ids) -> None:
        """These agents were sent an action; an agent whose earlier one is unanswered still counts once."""
        if len(self._sent):
            self._silent.update(self._sent.tolist())
        self._sent = agents

    def answer(self, info: BrainInfo) -> int:
        """How many actions the rows of this reply answer; they are forgotten."""
        sent, ended, going = self._sent, info.terminals.agents, info.decisions.agents
        if not self._silent and not len(ended) and sent.tobytes() == going.tobytes():
            self._sent = sent[:0]
            return len(sent)
        answered = self._collect().intersection(ended.tolist() + going.tolist())
        self._silent -= answered
        return len(answered)

    def clear(self) -> None:
        """Nothing is waited for any more."""
        self._sent = self._sent[:0]
        self._silent.clear()

    def agents(self) -> Ids:
        """Who is waited for."""
        return np.fromiter(self._collect(), np.int64)

    def __len__(self) -> int:
        return len(self._collect())

    def _collect(self) -> set[int]:
        if len(self._sent):
            self._silent.update(self._sent.tolist())
            self._sent = self._sent[:0]
        return self._silent


@dataclass(slots=True)
class _BrainLog:
    """One brain in the block in the making: references to what came and went, with the step of each."""

    brain: BrainParameters
    unanswered: UnansweredActions = field(default_factory=UnansweredActions)
    acts: list[tuple[int, ActedRows]] = field(default_factory=list)
    replies: list[tuple[int, BrainInfo]] = field(default_factory=list)
    pending: int = 0


class BlockBuilder:
    """Collects the steps of one incarnation of one environment and packs them into blocks.

    A block's versions go by behavior name, as in a grant; its columns and what is pending by wire name, zeros included.
    A brain without any row or action in the block has no columns in it.

    Brains must be made known with `add_brains` before their rows come; InternalError otherwise.
    """

    def __init__(self, env_id: EnvId, incarnation: Incarnation, reset_id: int = 0) -> None:
        self._env_id = env_id
        self._incarnation = incarnation
        self._reset_id = reset_id
        self._logs: dict[str, _BrainLog] = {}
        self._first_step = 0
        self._steps = 0
        self._decisions = 0
        self._agent_steps = 0
        self._holds_reset = False
        self._versions: dict[str, int] = {}
        self._watched: dict[str, WatchedLog] = {}

    @property
    def steps(self) -> int:
        """Env steps held, not yet taken."""
        return self._steps

    @property
    def first_step(self) -> int:
        """Number of the first env step of the block in the making, counted per incarnation from 0."""
        return self._first_step

    @property
    def pending(self) -> Mapping[str, int]:
        """Agents per known brain that wait for a decision now."""
        return {name: log.pending for name, log in self._logs.items()}

    @property
    def unanswered(self) -> int:
        """Actions sent whose outcome has not arrived, over all brains."""
        return sum(len(log.unanswered) for log in self._logs.values())

    def add_brains(self, brains: Iterable[BrainParameters]) -> None:
        """Makes brains known; one known already stays as it is."""
        for brain in brains:
            self._logs.setdefault(brain.brain_name, _BrainLog(brain))

    def watch(self, brains: Iterable[BrainParameters]) -> None:
        """Makes brains known that the player plays, whose rows may be given as `watched`."""
        for brain in brains:
            self._watched.setdefault(brain.brain_name, WatchedLog(brain))

    def record_reset(self, infos: AllBrainInfo, *, reset_id: int, watched: AllBrainInfo = _NOTHING) -> None:
        """The reply to a reset. What was unanswered stays so for ever: its outcome will not come.

        watched: of brains that the player plays. Raises InternalError while steps from before the reset are held: a
        block has one reset id.
        """
        if self._steps or self._holds_reset:
            raise InternalError(
                f"environment {self._env_id} (incarnation {self._incarnation}): reset {reset_id} was recorded while "
                f"{self._steps} steps of reset {self._reset_id} are held; expected take() before"
            )
        self._check_known(infos)
        self._reset_id, self._holds_reset = reset_id, True
        for name, log in self._logs.items():
            log.unanswered.clear()
            log.pending = 0
            if name in infos:
                self._record_reply(log, RESET_STEP, infos[name])
        for name, info in watched.items():
            self._watched[name].record_reset(info)

    def record_step(
        self, acted: Mapping[str, ActedRows], infos: AllBrainInfo, watched: AllBrainInfo = _NOTHING
    ) -> None:
        """One env step: the actions sent, by wire name, and the rows of the reply; watched: as at a reset.

        Keeps references: nobody may change the arrays afterwards. Raises InternalError, and records nothing, when a
        brain is unknown or its version differs from the one that acted earlier in this block.
        """
        self._check_known(acted)
        self._check_known(infos)
        self._check_versions(acted)
        step = self._steps
        for name, act in acted.items():
            if len(act.agents):
                log = self._logs[name]
                log.acts.append((step, act))
                self._versions[log.brain.behavior_name] = act.version
                log.unanswered.send(act.agents)
                self._decisions += len(act.agents)
        for name, log in self._logs.items():
            info = infos.get(name)
            if info is None:
                log.pending = 0
            else:
                self._agent_steps += log.unanswered.answer(info)
                self._record_reply(log, step, info)
        for name, info in watched.items():
            self._watched[name].record_step(info)
        self._steps = step + 1

    def take(self) -> StepBlock | None:
        """All that is held, as a block; None when there is nothing. The next block goes on where this one ends."""
        if not self._steps and not self._holds_reset:
            return None
        used = {name: log for name, log in self._logs.items() if log.acts or log.replies}
        block = StepBlock(
            env_id=self._env_id,
            incarnation=self._incarnation,
            reset_id=self._reset_id,
            first_step=self._first_step,
            steps=self._steps,
            versions=self._versions,
            decisions=self._decisions,
            agent_steps=self._agent_steps,
            pending=self.pending,
            brains={name: _pack(log) for name, log in used.items()},
            watched={name: found for name, log in self._watched.items() if (found := log.take()) is not None},
        )
        for log in used.values():
            log.acts, log.replies = [], []
        self._first_step += self._steps
        self._steps = self._decisions = self._agent_steps = 0
        self._holds_reset = False
        self._versions = {}
        return block

    def _record_reply(self, log: _BrainLog, step: int, info: BrainInfo) -> None:
        log.pending = len(info.decisions.agents)
        if log.pending or len(info.terminals.agents):
            log.replies.append((step, info))

    def _check_known(self, named: Iterable[str]) -> None:
        for name in named:
            if name not in self._logs:
                raise InternalError(
                    f"environment {self._env_id} (incarnation {self._incarnation}): rows of brain {name!r} came "
                    f"before the brain was announced; known are {sorted(self._logs)}. Call add_brains first."
                )

    def _check_versions(self, acted: Mapping[str, ActedRows]) -> None:
        for name, act in acted.items():
            held = self._versions.get(self._logs[name].brain.behavior_name, act.version)
            if act.version != held and len(act.agents):
                raise InternalError(
                    f"environment {self._env_id} (incarnation {self._incarnation}): brain {name!r} acted with version "
                    f"{act.version} in a block of version {held}; expected take() before a new version acts"
                )


def _pack(log: _BrainLog) -> BrainColumns:
    """The columns of one brain; all arrays are new and read-only."""
    spec = log.brain.action_spec
    acts = [act for _, act in log.acts]
    rows: list[tuple[int, TerminalRows | DecisionRows]] = []
    for step, info in log.replies:
        rows += [(step, part) for part in (info.terminals, info.decisions) if len(part)]
    parts = [part for _, part in rows]
    empty = empty_rows(log.brain)[0]
    return BrainColumns(
        action_steps=_repeat([step for step, _ in log.acts], [len(act.agents) for act in acts]),
        action_agents=_join([act.agents for act in acts], empty.agents),
        continuous=_join([act.continuous_raw for act in acts], np.zeros((0, spec.continuous_size), np.float32)),
        discrete=_join([act.discrete for act in acts], np.zeros((0, spec.discrete_size), np.int32)),
        row_steps=_repeat([step for step, _ in rows], [len(part) for part in parts]),
        row_agents=_join([part.agents for part in parts], empty.agents),
        row_kinds=_join_kinds(parts),
        rewards=_join([part.rewards for part in parts], empty.rewards),
        observations=tuple(
            _join_observations([part.observations[index] for part in parts], none)
            for index, none in enumerate(empty.observations)
        ),
        masks=_join_masks(parts, spec.mask_size),
        group_ids=_join([part.group_ids for part in parts], empty.group_ids),
        group_rewards=_join([part.group_rewards for part in parts], empty.group_rewards),
        memories=_pack_memories(acts, log.unanswered),
        shows_ends=log.brain.shows_ends,
    )


def _pack_memories(acts: list[ActedRows], unanswered: UnansweredActions) -> ActionMemories | None:
    """The memories of a block's actions where a training sequence starts, or may have to; None when nobody has any."""
    known = [
        (act.memory_before, act.sequence_starts)
        for act in acts
        if act.memory_before is not None and act.sequence_starts is not None
    ]
    if not known:
        return None
    agents, starts = np.concatenate([act.agents for act in acts]), np.concatenate([each for _, each in known])
    number, count = _numbered(agents)
    is_open = (number == count - 1) & np.isin(agents, unanswered.agents())
    is_kept = starts | (number < 2) | is_open
    ends = np.cumsum([len(each) for _, each in known])[:-1]
    kept = [before[chosen] for (before, _), chosen in zip(known, np.split(is_kept, ends), strict=True)]
    memories = ActionMemories(np.flatnonzero(is_kept).astype(np.int32), np.concatenate(kept), starts)
    for array in (memories.actions, memories.before, memories.starts):
        array.flags.writeable = False
    return memories


def _numbered(agents: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """int64 (d,) twice: which action of its agent each is, from 0, and how many that agent has."""
    order = np.argsort(agents, kind="stable")
    _, first, count = np.unique(agents[order], return_index=True, return_counts=True)
    number, total = np.empty(len(agents), np.int64), np.empty(len(agents), np.int64)
    number[order] = np.arange(len(agents)) - np.repeat(first, count)
    total[order] = np.repeat(count, count)
    return number, total


def _join_kinds(parts: list[TerminalRows | DecisionRows]) -> npt.NDArray[np.uint8]:
    ended = [part.interrupted for part in parts if isinstance(part, TerminalRows)]
    codes = [RowKind.DECISION if isinstance(part, DecisionRows) else RowKind.TERMINAL for part in parts]
    kinds = np.repeat(np.array(codes, np.uint8), [len(part) for part in parts])
    if ended:
        terminal, interrupted = np.uint8(RowKind.TERMINAL), np.uint8(RowKind.INTERRUPTED)
        kinds[kinds == terminal] = np.where(np.concatenate(ended), interrupted, terminal)
    kinds.flags.writeable = False
    return kinds


def _join_masks(parts: list[TerminalRows | DecisionRows], size: int) -> Bools | None:
    """The masks of all rows, True where a row has none; None when nothing is masked."""
    masks = [part.action_masks if isinstance(part, DecisionRows) else None for part in parts]
    if all(each is None or each.all() for each in masks):
        return None
    filled = [
        np.ones((len(part), size), np.bool_) if mask is None else mask for part, mask in zip(parts, masks, strict=True)
    ]
    return _join(filled, np.zeros((0, size), np.bool_))


def _join(arrays: list[npt.NDArray[Scalar]], empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    joined = np.concatenate(arrays) if arrays else empty.copy()
    joined.flags.writeable = False
    return joined


def _join_observations(arrays: list[Observation], empty: Observation) -> Observation:
    # The library's types lose which of the two dtypes comes out.
    joined = cast("Observation", np.concatenate(arrays)) if arrays else empty.copy()
    joined.flags.writeable = False
    return joined


def _repeat(steps: list[int], counts: list[int]) -> Ints:
    repeated = np.repeat(np.array(steps, np.int32), counts)
    repeated.flags.writeable = False
    return repeated
