"""What leaves an EnvWorker for the controller: blocks of steps, first observations, and what players reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import cloudpickle

from runtime.acting.memories import AgentMemories
from runtime.decisions import effects as fx
from runtime.decisions.own_steps import OwnSteps
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.columns import StepBlock
from runtime.experience.stats import Stat, StatAggregation
from runtime.experience.steps import StepInfo
from runtime.messages import (
    EnvAssignment,
    EnvReset,
    PlayerPhase,
    StartWorker,
    StatsReported,
    StepInfosTaken,
    StepsTaken,
)
from runtime.players.links import PlayerLink, PlayerReply, PromptLink

STATS_MAX = 10_000
TIMES_S: Final = 2.0
"""Seconds between two reports of where an EnvWorker's time went, at least."""

SendTo = Callable[[fx.Role, object], None]


@dataclass(slots=True)
class Seat:
    """What the shell holds for one incarnation of one environment.

    stop_work: gives up what is under way with the player; None while nothing is. ended: blocks that wait for the next
    message. asked_s: when the exchange under way began, in seconds of `time.perf_counter`. step, versions: of the step
    that was taken last. own: steps that are taken without asking the machine.
    """

    assignment: EnvAssignment
    link: PlayerLink
    builder: BlockBuilder
    memories: AgentMemories = field(default_factory=AgentMemories)
    brains: dict[str, BrainParameters] = field(default_factory=dict)
    reply: PlayerReply | None = None
    reset_id: int = -1
    phase: PlayerPhase = "launch"
    acting_agents: int = 0
    asked_s: float = 0.0
    stop_work: Callable[[], object] | None = None
    ended: list[StepBlock] = field(default_factory=list)
    step: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)
    own: OwnSteps = field(default_factory=OwnSteps)
    prompt_link: PromptLink | None = field(init=False)

    def __post_init__(self) -> None:
        # Looked up once: asking a protocol costs more than encoding a step.
        self.prompt_link = self.link if isinstance(self.link, PromptLink) else None

    def end_block(self) -> None:
        """What comes next begins another block: one block knows one version of each behavior."""
        block = self.builder.take()
        if block is not None:
            self.ended.append(block)

    def take_blocks(self) -> list[StepBlock]:
        """All that is held, in order."""
        self.end_block()
        blocks, self.ended = self.ended, []
        return blocks


class Outbox:
    """Collects what players report, and sends it with the steps."""

    def __init__(
        self, start: StartWorker, send: SendTo, report: Callable[[Literal["note", "fault"], str], None]
    ) -> None:
        self._start = start
        self._send = send
        self._report = report
        self._stats: list[Stat] = []
        self._replaced_numbers = 0
        self._replaced_in: set[EnvId] = set()
        self._watched: set[str] = set()
        self._times: dict[str, tuple[float, int]] = {}
        self._told_s = -TIMES_S

    def spend(self, what: str, seconds: float) -> None:
        """So much time went there; it is told with the blocks, every `TIMES_S` seconds, and at the end."""
        before, count = self._times.get(what, (0.0, 0))
        self._times[what] = (before + seconds, count + 1)

    def tell_times(self) -> None:
        """Send what was spent since the last time, as a player is being closed."""
        self._told_s = -TIMES_S
        self._send_stats()

    def take_stats(self, env_id: EnvId, reply: PlayerReply) -> None:
        """What a reply reports besides its rows."""
        self._stats.extend(reply.stats)
        if reply.new_watched:
            self.tell_watched(reply.new_watched)
        if reply.replaced_numbers:
            self._note_replaced(env_id, reply)

    def tell_watched(self, names: Iterable[str]) -> None:
        """Brains that the player controls by itself are never acted for: said once, for who expected otherwise."""
        for name in set(names) - self._watched:
            self._watched.add(name)
            self._report(
                "note", f"brain {name!r} is controlled by the player (is_training is false): it is not trained"
            )

    def send_blocks(self, seats: Iterable[Seat]) -> None:
        """All steps that these seats hold, in one message."""
        blocks = tuple(block for seat in seats for block in seat.take_blocks())
        self._send_stats()
        if blocks and self._start.carries == "columns":
            message = StepsTaken(run=self._start.run, worker=self._start.worker, blocks=blocks)
            self._send(fx.CONTROLLER, message)

    def send_reset(self, seat: Seat) -> None:
        """The first observations after a reset."""
        self._send_stats()
        blocks = seat.take_blocks()
        if self._start.carries == "step_infos":
            assert seat.reply is not None
            self.send_step_info(seat, StepInfo(None, seat.reply.infos, None), -1)
        elif blocks:
            message = EnvReset(run=self._start.run, worker=self._start.worker, first=blocks[-1])
            self._send(fx.CONTROLLER, message)

    def send_step_info(self, seat: Seat, info: StepInfo, env_step: int) -> None:
        """One step as the seed has it."""
        message = StepInfosTaken(
            run=self._start.run,
            worker=self._start.worker,
            env_id=seat.assignment.env_id,
            incarnation=seat.assignment.incarnation,
            reset_id=seat.reset_id,
            env_step=env_step,
            body=cloudpickle.dumps(info),
        )
        self._send(fx.CONTROLLER, message)

    def _send_stats(self) -> None:
        stats, replaced = tuple(self._stats[-STATS_MAX:]), self._replaced_numbers
        self._stats, self._replaced_numbers = [], 0
        times: dict[str, tuple[float, int]] = {}
        if self._times and time.perf_counter() - self._told_s >= TIMES_S:
            times, self._times, self._told_s = self._times, {}, time.perf_counter()
        if (stats or replaced or times) and self._start.carries == "columns":
            start = self._start
            told = StatsReported(
                run=start.run, worker=start.worker, stats=stats, replaced_numbers=replaced, times=times
            )
            self._send(fx.CONTROLLER, told)

    def _note_replaced(self, env_id: EnvId, reply: PlayerReply) -> None:
        """Numbers that were not finite became 0, as the user chose: the first of an environment is said, all count."""
        self._replaced_numbers += reply.replaced_numbers
        self._stats.append(Stat("Environment/Replaced Numbers", float(reply.replaced_numbers), StatAggregation.SUM))
        if env_id not in self._replaced_in:
            self._replaced_in.add(env_id)
            text = "It became 0 (--not-finite zero); what follows in this environment is only counted."
            self._report("fault", f"{reply.replaced_first} {text}")
