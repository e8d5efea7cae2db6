"""The inside of an EnvWorker: one asyncio loop that drives its players and acts for them.

The decision machine (`EnvWorkerCore`) says what is to happen to which player; this shell makes it happen and hands the
outcome back as a fact. Observations become actions here and go nowhere else. Messages for other parts leave through
`send`, which must be safe on this loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from runtime.acting.acted import Acted
from runtime.acting.replica import PolicyReplica
from runtime.actors.engine_outbox import Outbox, Seat, SendTo
from runtime.actors.engine_players import kind_of, open_factory
from runtime.decisions import effects as fx
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.own_steps import told_before
from runtime.errors import (
    InternalError,
    PlayerError,
    TrainingError,
)
from runtime.experience.actions import Actions
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.steps import StepInfo
from runtime.heap import give_back_memory
from runtime.messages import (
    EnvAssignment,
    LossKind,
    PolicyUpdate,
    StartWorker,
)
from runtime.players.links import LinkLimits, PlayerReply, PromptLink, TellingLink, ToldLink

logger = logging.getLogger(__name__)

GIVE_BACK_EVERY = 200
"""Versions of policies that come and go leave holes between what stays: half of an EnvWorker's growth, 0.7 KB each."""


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
        self._replica = PolicyReplica(
            start.run_seed, deterministic=start.deterministic, gives_values=start.carries == "step_infos"
        )
        self._factory = open_factory(start.env_factory)
        self._seats: dict[EnvId, Seat] = {}
        self._closing: dict[EnvId, asyncio.Task[None]] = {}
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished = asyncio.Event()
        self._outbox = Outbox(start, send, report)
        self._undelivered: deque[object] = deque()
        self._is_delivering = False

    def begin(self) -> None:
        """Open every player."""
        for effect in self._core.begin():
            self._perform(effect)

    def deliver(self, message: object) -> None:
        """A message from another part, or a fact. What comes meanwhile is delivered after it, in order."""
        self._undelivered.append(message)
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._undelivered:
                self._handle(self._undelivered.popleft())
        except Exception as error:  # noqa: BLE001 - effects that are left out cannot be made up for
            self._broken(error)
        finally:
            self._is_delivering = False

    def _handle(self, message: object) -> None:
        now_s = asyncio.get_running_loop().time()
        try:
            for fact in told_before(message, [(seat.assignment, seat.own) for seat in self._seats.values()]):
                self._core.handle(fact, now_s)
            effects = self._core.handle(message, now_s)
        except TrainingError as error:
            self._report("fault", f"EnvWorker {self._start.worker}: {error}")
            return
        for effect in effects:
            self._perform(effect)

    async def finished(self) -> None:
        """Returns once every player is closed after a StopRequest."""
        await self._finished.wait()

    async def abandon(self) -> None:
        """End every player at once, whatever was asked; for the end of the process."""
        for seat in self._seats.values():
            if seat.stop_work is not None:
                seat.stop_work()
        # A link that is being closed already answers at once to a second call, and still holds its port.
        closing = [task for task in self._closing.values() if not task.done()]
        await asyncio.gather(*closing, *(seat.link.close() for seat in self._seats.values()), return_exceptions=True)
        for task in self._tasks:
            task.cancel()

    def _perform(self, effect: object) -> None:
        match effect:
            case fx.StepPlayer():
                self._step(effect)
            case fx.Send(to, message):
                self._send(to, message)
            case fx.SendBlocks(env_ids):
                self._outbox.send_blocks(self._seats[each] for each in env_ids if each in self._seats)
            case fx.SetTimer(token, delay_s):
                self._set_timer(token, delay_s)
            case fx.CancelTimer(token):
                self._cancel_timer(token)
            case fx.InstallPolicy(update):
                self._install(update)
            case fx.OpenPlayer(assignment):
                self._open(assignment)
            case fx.ResetPlayer():
                self._reset(effect)
            case fx.SendReset(env_id):
                self._outbox.send_reset(self._seats[env_id])
            case fx.ClosePlayer():
                self._close(effect)
            case fx.Report(level, text):
                self._report(level, text)
            case fx.Finish():
                self._finished.set()
            case _:
                msg = f"an EnvWorker cannot perform {type(effect).__name__}"
                raise InternalError(msg)

    def _install(self, update: PolicyUpdate) -> None:
        if self._replica.install(update) and self._replica.statistics().installed_updates % GIVE_BACK_EVERY == 0:
            give_back_memory()

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
        seat.stop_work = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, seat: Seat, work: Callable[[], Awaitable[None]]) -> None:
        """Run one exchange; whatever goes wrong becomes PlayerFailed of this incarnation."""
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the shell of an actor: a bug here must not go unseen
            self._went_wrong(seat, error)

    def _went_wrong(self, seat: Seat, error: Exception) -> None:
        seat.stop_work = None
        if isinstance(error, PlayerError):
            self._fail(seat, kind_of(error), str(error))
        else:
            trace = "".join(traceback.format_exception(error))
            self._fail(seat, "environment", f"{type(error).__name__}: {error}\n{trace}")

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
            began_s = time.perf_counter()
            hello = await link.start()
            self._outbox.spend("start player", time.perf_counter() - began_s)
            self._know(seat, hello.brains)
            seat.builder.watch(hello.watched)
            self._outbox.tell_watched(each.brain_name for each in hello.watched)
            seat.stop_work = None
            connected = fx.PlayerConnected(
                assignment.env_id,
                assignment.incarnation,
                hello.pid,
                hello.reset_parameters,
                hello.brains,
                hello.takes_parameters,
            )
            self.deliver(connected)

        self._spawn(seat, connect)

    def _lost_between(self, seat: Seat, error: PlayerError) -> None:
        """A player is gone while nothing is asked of it; an exchange under way finds out by itself."""
        if seat.stop_work is None:
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
            began_s = time.perf_counter()
            reply = await seat.link.reset(effect.parameters, train_mode=effect.train_mode)
            self._outbox.spend("reset player", time.perf_counter() - began_s)
            self._know(seat, reply.brains)
            seat.memories.clear()
            seat.builder.record_reset(reply.infos, reset_id=effect.reset_id, watched=reply.watched)
            self._took(seat, reply)

        self._spawn(seat, reset)

    def _step(self, effect: fx.StepPlayer) -> None:
        seat = self._seats[effect.env_id]
        if effect.begins_block:
            seat.end_block()
        if effect.parameters and isinstance(seat.link, ToldLink):
            seat.link.tell(effect.parameters)
        seat.phase, seat.own.left = "step", effect.own
        self._take_step(seat, effect.step, effect.versions)

    def _take_step(self, seat: Seat, step: int, versions: Mapping[str, int]) -> None:
        seat.step, seat.versions = step, versions
        began_s = time.perf_counter()
        try:
            # At once: by the next turn of the loop newer policies may have taken the place of this one.
            acted = self._act(seat)
        except Exception as error:  # noqa: BLE001 - as in _guarded
            self._went_wrong(seat, error)
            return
        seat.asked_s = time.perf_counter()
        self._outbox.spend("act", seat.asked_s - began_s)
        if seat.prompt_link is not None:
            self._step_promptly(seat, seat.prompt_link, acted)
            return

        async def exchange() -> None:
            self._stepped(seat, acted, await seat.link.step(_sent(seat, acted)))

        self._spawn(seat, exchange)

    def _step_promptly(self, seat: Seat, link: PromptLink, acted: Mapping[str, Acted]) -> None:
        """One step without a task: the reply is taken in the turn of the loop in which it comes."""

        def told(outcome: PlayerReply | Exception) -> None:
            if seat.stop_work is not give_up:
                return  # it was given up meanwhile
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                self._stepped(seat, acted, outcome)
            except Exception as error:  # noqa: BLE001 - as in _guarded
                self._went_wrong(seat, error)

        def give_up() -> None:
            seat.stop_work = None
            link.abandon()

        seat.stop_work = give_up
        try:
            link.step_then(_sent(seat, acted), told)
        except Exception as error:  # noqa: BLE001 - as in _guarded
            self._went_wrong(seat, error)

    def _stepped(self, seat: Seat, acted: Mapping[str, Acted], reply: PlayerReply) -> None:
        self._outbox.spend("exchange", time.perf_counter() - seat.asked_s)
        seat.acting_agents = 0
        before = seat.reply
        if reply.brains:
            self._know(seat, reply.brains)
        seat.builder.record_step(acted, reply.infos, reply.watched)
        if self._start.carries == "step_infos" and before is not None:
            infos = {name: each.action_info for name, each in acted.items()}
            self._outbox.send_step_info(seat, StepInfo(before.infos, reply.infos, infos), seat.step)
        self._took(seat, reply)

    def _act(self, seat: Seat) -> dict[str, Acted]:
        assert seat.reply is not None
        return {
            name: self._replica.act(
                seat.brains[name],
                seat.versions[name.partition("?")[0]],
                info,
                incarnation=seat.assignment.incarnation,
                step=seat.step,
                memories=seat.memories,
            )
            for name, info in seat.reply.infos.items()
        }

    def _took(self, seat: Seat, reply: PlayerReply) -> None:
        seat.reply, seat.stop_work = reply, None
        env_id, incarnation = seat.assignment.env_id, seat.assignment.incarnation
        self._outbox.take_stats(env_id, reply)
        waiting = seat.builder.pending
        if seat.own.take(waiting, has_news=bool(reply.brains)):
            self._take_step(seat, seat.step + 1, seat.versions)
            return
        pending: dict[str, int] = {}
        for name, count in waiting.items():
            behavior = name.partition("?")[0]
            pending[behavior] = pending.get(behavior, 0) + count
        self.deliver(fx.PlayerReplied(env_id, incarnation, pending, reply.brains))

    def _close(self, effect: fx.ClosePlayer) -> None:
        seat = self._seats.get(effect.env_id)
        if seat is None or seat.assignment.incarnation != effect.incarnation:
            return
        self._outbox.tell_times()
        if seat.stop_work is not None:
            seat.stop_work()
            if seat.phase == "step" and seat.acting_agents:
                self._fail(seat, "timeout", "a step under way was given up")

        async def close() -> None:
            await seat.link.close()
            self.deliver(fx.PlayerClosed(effect.env_id, effect.incarnation))

        closing = asyncio.get_running_loop().create_task(close())
        self._closing[effect.env_id] = closing
        self._tasks.add(closing)
        closing.add_done_callback(self._tasks.discard)


def _sent(seat: Seat, acted: Mapping[str, Acted]) -> dict[str, Actions]:
    """The actions for the player; the seat remembers for how many agents, should their outcome never come."""
    seat.acting_agents = sum(len(each.agents) for each in acted.values())
    return {name: each.actions for name, each in acted.items() if len(each.agents)}
