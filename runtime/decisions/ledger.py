"""The controller's ledger: where every environment is, and what became of every step.

A step is known by (env_id, incarnation, env step): accepted once, or declared lost once with a reason, or in flight.
What a dead worker did with a grant is unknown and only bounded (`unreported_max`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runtime.decisions.frozen import replace
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.columns import StepBlock

EnvState = Literal["launching", "resetting", "ready", "stepping", "lost"]

PAST_INCARNATIONS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRecord:
    """What the controller knows of one environment.

    received: env steps of this incarnation that arrived. until: granted. past: the same as received for the newest few
    incarnations before. pending: agents that wait, by behavior. agents: most that waited at once in this incarnation.
    unanswered: its decisions whose outcome has not arrived. restarts: of its players after their losses, those of runs
    before this one included; restarts_heard: of this run. takes_parameters: its player can be told parameters without a
    reset. given: (parameters_id, resampled) of its newest reset.
    """

    env_id: EnvId
    worker: int = -1
    incarnation: Incarnation = Incarnation(-1)
    state: EnvState = "launching"
    reset_id: int = -1
    received: int = 0
    until: int = 0
    past: Mapping[Incarnation, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    agents: int = 0
    unanswered: int = 0
    restarts: int = 0
    restarts_heard: int = 0
    player_pid: int = 0
    takes_parameters: bool = False
    given: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Env steps, agent steps and decisions accepted; agent steps lost by reason; the bound on unknown ones.

    replaced_numbers: of players, that were not finite and became 0, whatever became of their steps.
    """

    env_steps: int = 0
    agent_steps: int = 0
    decisions: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    unreported_max: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    replaced_numbers: int = 0

    def accept(self, block: StepBlock) -> Counters:
        """After accepting a block."""
        return replace(
            self,
            env_steps=self.env_steps + block.steps,
            agent_steps=self.agent_steps + block.agent_steps,
            decisions=self.decisions + block.decisions,
        )

    def lose(self, reason: str, agent_steps: int) -> Counters:
        """After declaring agent steps lost."""
        if not agent_steps:
            return self
        return replace(self, lost={**self.lost, reason: self.lost.get(reason, 0) + agent_steps})

    def drop(self, kind: str) -> Counters:
        """After dropping a message that came too late or twice."""
        return replace(self, dropped={**self.dropped, kind: self.dropped.get(kind, 0) + 1})

    def leave_unreported(self, agent_steps: int) -> Counters:
        """After losing sight of at most this many agent steps."""
        return replace(self, unreported_max=self.unreported_max + agent_steps)

    def replace_numbers(self, count: int) -> Counters:
        """After hearing of numbers that were not finite and became 0."""
        return replace(self, replaced_numbers=self.replaced_numbers + count) if count else self


def behaviors_of(pending: Mapping[str, int]) -> dict[str, int]:
    """Agents that wait by behavior, out of the same by wire name: teams of one name count together."""
    waiting: dict[str, int] = {}
    for name, count in pending.items():
        behavior = name.partition("?")[0]
        waiting[behavior] = waiting.get(behavior, 0) + count
    return waiting


def seen_incarnation(record: EnvRecord, incarnation: Incarnation, worker: int) -> EnvRecord:
    """The record once a newer incarnation was heard of."""
    if incarnation <= record.incarnation:
        return record
    past = {**record.past, record.incarnation: record.received}
    return EnvRecord(
        env_id=record.env_id,
        worker=worker,
        incarnation=incarnation,
        past=dict(list(past.items())[-PAST_INCARNATIONS_MAX:]),
        restarts=record.restarts,
        restarts_heard=record.restarts_heard,
    )


def heard_restarts(record: EnvRecord, count: int) -> EnvRecord:
    """The record once the Supervisor has told how often this player was started again in this run.

    Its own count, so that neither the order of the news nor a repetition of it matters.
    """
    new = count - record.restarts_heard
    return replace(record, restarts=record.restarts + new, restarts_heard=count) if new > 0 else record


def about(env_id: int, incarnation: int, cause: str) -> str:
    """A cause that names its environment, whoever wrote it."""
    return cause if cause.startswith("environment ") else f"environment {env_id} (incarnation {incarnation}): {cause}"


Verdict = Literal["accept", "duplicate", "stale", "gap"]


def judge(record: EnvRecord, block: StepBlock) -> Verdict:
    """What to do with a block: accept it, drop it as seen before, or declare it lost.

    What an incarnation took that is remembered no more counts as seen: a bound was left on it when it was lost.
    """
    is_now = block.incarnation == record.incarnation
    seen = record.received if is_now else record.past.get(block.incarnation)
    if seen is None or block.first_step + block.steps <= seen:
        return "duplicate"
    if not is_now or block.reset_id != record.reset_id:
        return "stale"
    return "accept" if block.first_step == seen else "gap"


def seen_block(record: EnvRecord, block: StepBlock) -> EnvRecord:
    """The record once a block has arrived, whatever becomes of it: it is not taken twice."""
    end = block.first_step + block.steps
    if block.incarnation != record.incarnation:
        return replace(record, past={**record.past, block.incarnation: end})
    done = end >= record.until and record.state == "stepping"
    pending = behaviors_of(block.pending)
    return replace(
        record,
        received=end,
        pending=pending,
        agents=max(record.agents, sum(pending.values())),
        unanswered=max(0, record.unanswered + block.decisions - block.agent_steps),
        state="ready" if done else record.state,
    )


def unreported_bound(record: EnvRecord, agents_max: int) -> int:
    """Agent steps at most that an environment took beyond what it reported.

    Its unused grant with all agents acting, and outcomes of what they did before.
    """
    unused = max(0, record.until - record.received)
    return unused * agents_max + (record.unanswered if unused else 0)
