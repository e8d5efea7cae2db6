"""The inside of an EnvWorker: one asyncio loop that drives its players and acts for them.

The decision machine (`EnvWorkerCore`) says what is to happen to which player; this shell makes it happen and hands the
outcome back as a fact. Observations become actions here and go nowhere else. Messages for other parts leave through
`send`, which must be safe on this loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import cloudpickle

from runtime.acting.acted import Acted
from runtime.acting.memories import AgentMemories
from runtime.acting.replica import PolicyReplica
from runtime.actors.engine_players import kind_of, open_factory
from runtime.decisions import effects as fx
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.errors import (
    InternalError,
    PlayerError,
    TrainingError,
)
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.stats import Stat, StatAggregation
from runtime.experience.steps import StepInfo
from runtime.messages import (
    EnvAssignment,
    EnvReset,
    LossKind,
    PlayerPhase,
    StartWorker,
    StatsReported,
    StepInfosTaken,
    StepsTaken,
)
from runtime.players.links import LinkLimits, PlayerLink, PlayerReply, TellingLink

logger = logging.getLogger(__name__)

STATS_MAX = 10_000

SendTo = Callable[[fx.Role, object], None]


@dataclass(slots=True)
class Seat:
    """What the shell holds for one incarnation of one environment."""

    assignment: EnvAssignment
    link: PlayerLink
    builder: BlockBuilder
    memories: AgentMemories = field(default_factory=AgentMemories)
    brains: dict[str, BrainParameters] = field(default_factory=dict)
    reply: PlayerReply | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    reset_id: int = -1
    phase: PlayerPhase = "launch"
    acting_agents: int = 0
    task: asyncio.Task[None] | None = None


class WorkerEngine:
    """Drives the players of one EnvWorker. `deliver` must be called on the loop's thread.

    broken: told of an exception that only a bug can raise; an EnvWorker does not go on after it.
    """

    def __init__(
        self,
        start: StartWorker,
        send: SendTo,
        report: Callable[[str, str], None],
        *,
        broken: Callable[[Exception], None],
    ) -> None:
        self._start = start
        self._send = send
        self._report = report
        self._broken = broken
        self._core = EnvWorkerCore(start, pid=os.getpid())
        self._replica = PolicyReplica(start.run_seed, deterministic=start.deterministic)
        self._factory = open_factory(start.env_factory)
        self._seats: dict[EnvId, Seat] = {}
        self._closing: dict[EnvId, asyncio.Task[None]] = {}
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished = asyncio.Event()
        self._stats: list[Stat] = []
        self._replaced_numbers = 0
        self._replaced_in: set[EnvId] = set()
        self._watched: set[str] = set()

    def begin(self) -> None:
        """Open every player."""
        self._perform_all(self._core.begin())

    def deliver(self, message: object) -> None:
        """A message from another part, or a fact."""
        try:
            effects = self._core.handle(message, asyncio.get_running_loop().time())
        except TrainingError as error:
            self._report("fault", f"EnvWorker {self._start.worker}: {error}")
            return
        except Exception as error:  # noqa: BLE001 - an environment would stand still unseen
            self._broken(error)
            return
        try:
            self._perform_all(effects)
        except Exception as error:  # noqa: BLE001 - as above; effects that are left out cannot be made up for
            self._broken(error)

    async def finished(self) -> None:
        """Returns once every player is closed after a StopRequest."""
        await self._finished.wait()

    async def abandon(self) -> None:
        """End every player at once, whatever was asked; for the end of the process."""
        for seat in self._seats.values():
            if seat.task is not None:
                seat.task.cancel()
        # A link that is being closed already answers at once to a second call, and still holds its port.
        closing = [task for task in self._closing.values() if not task.done()]
        await asyncio.gather(*closing, *(seat.link.close() for seat in self._seats.values()), return_exceptions=True)
        for task in self._tasks:
            task.cancel()

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: object) -> None:
        match effect:
            case fx.StepPlayer():
                self._step(effect)
            case fx.Send(to, message):
                self._send(to, message)
            case fx.SendBlocks(env_ids):
                self._send_blocks(env_ids)
            case fx.SetTimer(token, delay_s):
                self._set_timer(token, delay_s)
            case fx.CancelTimer(token):
                self._cancel_timer(token)
            case fx.InstallPolicy(update):
                self._replica.install(update)
            case fx.OpenPlayer(assignment):
                self._open(assignment)
            case fx.ResetPlayer():
                self._reset(effect)
            case fx.SendReset():
                self._send_reset(effect)
            case fx.ClosePlayer():
                self._close(effect)
            case fx.Report(level, text):
                self._report(level, text)
            case fx.Finish():
                self._finished.set()
            case _:
                msg = f"an EnvWorker cannot perform {type(effect).__name__}"
                raise InternalError(msg)

    # ---- timers

    def _set_timer(self, token: object, delay_s: float) -> None:
        self._cancel_timer(token)
        self._timers[token] = asyncio.get_running_loop().call_later(delay_s, self._fire, token)

    def _cancel_timer(self, token: object) -> None:
        handle = self._timers.pop(token, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, token: object) -> None:
        self._timers.pop(token, None)
        self.deliver(fx.TimerFired(token))

    # ---- players

    def _spawn(self, seat: Seat, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(seat, work))
        seat.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, seat: Seat, work: Callable[[], Awaitable[None]]) -> None:
        """Run one exchange; whatever goes wrong becomes PlayerFailed of this incarnation."""
        try:
            await work()
        except PlayerError as error:
            self._fail(seat, kind_of(error), str(error))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the shell of an actor: a bug here must not go unseen
            self._fail(seat, "environment", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")

    def _fail(self, seat: Seat, kind: LossKind, cause: str) -> None:
        unreported = seat.acting_agents + (seat.builder.unanswered if seat.phase == "step" else 0)
        seat.acting_agents = 0
        self.deliver(
            fx.PlayerFailed(
                seat.assignment.env_id,
                seat.assignment.incarnation,
                seat.phase,
                kind,
                cause,
                unreported if seat.phase == "step" else 0,
            )
        )

    def _open(self, assignment: EnvAssignment) -> None:
        limits = LinkLimits(
            start_timeout_s=self._start.start_timeout_s,
            step_timeout_s=self._start.step_timeout_s,
        )
        link = self._factory.open_link(assignment, limits)
        seat = Seat(assignment, link, BlockBuilder(assignment.env_id, assignment.incarnation))
        self._seats[assignment.env_id] = seat
        if isinstance(link, TellingLink):
            link.on_note = lambda text: self._report("note", text)
            link.on_lost = lambda error: self._lost_between(seat, error)
        before = self._closing.get(assignment.env_id)

        async def connect() -> None:
            if before is not None:
                await asyncio.wait([before])
            hello = await link.start()
            self._know(seat, hello.brains)
            self._tell_watched(each.brain_name for each in hello.watched)
            connected = fx.PlayerConnected(
                assignment.env_id, assignment.incarnation, hello.pid, hello.reset_parameters, hello.brains
            )
            self.deliver(connected)

        self._spawn(seat, connect)

    def _lost_between(self, seat: Seat, error: PlayerError) -> None:
        """A player is gone while nothing is asked of it; an exchange under way finds out by itself."""
        if seat.task is None or seat.task.done():
            seat.phase = "idle"
            self._fail(seat, kind_of(error), str(error))

    def _know(self, seat: Seat, brains: tuple[BrainParameters, ...]) -> None:
        for brain in brains:
            seat.brains[brain.brain_name] = brain
            self._replica.add_brain(brain)
        seat.builder.add_brains(brains)

    def _reset(self, effect: fx.ResetPlayer) -> None:
        seat = self._seats[effect.env_id]
        seat.phase, seat.reset_id = "reset", effect.reset_id

        async def reset() -> None:
            reply = await seat.link.reset(effect.parameters, train_mode=effect.train_mode)
            self._know(seat, reply.brains)
            seat.memories.clear()
            seat.builder.record_reset(reply.infos, reset_id=effect.reset_id)
            self._took(seat, reply)

        self._spawn(seat, reset)

    def _step(self, effect: fx.StepPlayer) -> None:
        seat = self._seats[effect.env_id]
        if any(seat.versions.get(name, version) != version for name, version in effect.versions.items()):
            self._flush((seat,))
        seat.versions = effect.versions
        seat.phase = "step"

        async def step() -> None:
            acted = self._act(seat, effect)
            seat.acting_agents = sum(len(each.agents) for each in acted.values())
            actions = {name: each.actions for name, each in acted.items() if len(each.agents)}
            before = seat.reply
            reply = await seat.link.step(actions)
            seat.acting_agents = 0
            self._know(seat, reply.brains)
            seat.builder.record_step(acted, reply.infos)
            if self._start.carries == "step_infos" and before is not None:
                infos = {name: each.action_info for name, each in acted.items()}
                self._send_step_info(seat, StepInfo(before.infos, reply.infos, infos), effect.step)
            self._took(seat, reply)

        self._spawn(seat, step)

    def _act(self, seat: Seat, effect: fx.StepPlayer) -> dict[str, Acted]:
        assert seat.reply is not None
        return {
            name: self._replica.act(
                seat.brains[name],
                effect.versions[name.partition("?")[0]],
                info,
                incarnation=seat.assignment.incarnation,
                step=effect.step,
                memories=seat.memories,
            )
            for name, info in seat.reply.infos.items()
        }

    def _took(self, seat: Seat, reply: PlayerReply) -> None:
        seat.reply = reply
        self._stats.extend(reply.stats)
        self._tell_watched(reply.new_watched)
        if reply.replaced_numbers:
            self._note_replaced(seat.assignment.env_id, reply)
        pending: dict[str, int] = {}
        for name, count in seat.builder.pending.items():
            behavior = name.partition("?")[0]
            pending[behavior] = pending.get(behavior, 0) + count
        env_id, incarnation = seat.assignment.env_id, seat.assignment.incarnation
        self.deliver(fx.PlayerReplied(env_id, incarnation, pending, reply.brains))

    def _tell_watched(self, names: Iterable[str]) -> None:
        """Brains that the player controls by itself are never acted for: said once, for who expected otherwise."""
        for name in set(names) - self._watched:
            self._watched.add(name)
            self._report(
                "note", f"brain {name!r} is controlled by the player (is_training is false): it is not trained"
            )

    def _note_replaced(self, env_id: EnvId, reply: PlayerReply) -> None:
        """Numbers that were not finite became 0, as the user chose: the first of an environment is said, all count."""
        self._replaced_numbers += reply.replaced_numbers
        self._stats.append(Stat("Environment/Replaced Numbers", float(reply.replaced_numbers), StatAggregation.SUM))
        if env_id not in self._replaced_in:
            self._replaced_in.add(env_id)
            text = "It became 0 (--not-finite zero); what follows in this environment is only counted."
            self._report("fault", f"{reply.replaced_first} {text}")

    def _close(self, effect: fx.ClosePlayer) -> None:
        seat = self._seats.get(effect.env_id)
        if seat is None or seat.assignment.incarnation != effect.incarnation:
            return
        task = seat.task
        is_own_task = task is not None and task is asyncio.current_task()
        if task is not None and not task.done() and not is_own_task:
            task.cancel()
            if seat.phase == "step" and seat.acting_agents:
                self._fail(seat, "timeout", "a step under way was given up")

        async def close() -> None:
            await seat.link.close()
            self.deliver(fx.PlayerClosed(effect.env_id, effect.incarnation))

        closing = asyncio.get_running_loop().create_task(close())
        self._closing[effect.env_id] = closing
        self._tasks.add(closing)
        closing.add_done_callback(self._tasks.discard)

    # ---- what leaves

    def _send_blocks(self, env_ids: tuple[EnvId, ...]) -> None:
        self._flush(tuple(self._seats[env_id] for env_id in env_ids if env_id in self._seats))

    def _flush(self, seats: tuple[Seat, ...]) -> None:
        taken = [seat.builder.take() for seat in seats]
        blocks = tuple(block for block in taken if block is not None)
        self._send_stats()
        if blocks and self._start.carries == "columns":
            message = StepsTaken(run=self._start.run, worker=self._start.worker, blocks=blocks)
            self._send(fx.CONTROLLER, message)

    def _send_stats(self) -> None:
        stats, replaced = tuple(self._stats[-STATS_MAX:]), self._replaced_numbers
        self._stats, self._replaced_numbers = [], 0
        if (stats or replaced) and self._start.carries == "columns":
            start = self._start
            told = StatsReported(run=start.run, worker=start.worker, stats=stats, replaced_numbers=replaced)
            self._send(fx.CONTROLLER, told)

    def _send_reset(self, effect: fx.SendReset) -> None:
        self._send_stats()
        seat = self._seats[effect.env_id]
        first = seat.builder.take()
        if self._start.carries == "step_infos":
            assert seat.reply is not None
            self._send_step_info(seat, StepInfo(None, seat.reply.infos, None), -1)
        elif first is not None:
            message = EnvReset(run=self._start.run, worker=self._start.worker, first=first)
            self._send(fx.CONTROLLER, message)

    def _send_step_info(self, seat: Seat, info: StepInfo, env_step: int) -> None:
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
