"""The inside of a simulated EnvWorker: does with players what the real engine does, over links of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol

from runtime.decisions import effects as fx
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.frozen import replace
from runtime.decisions.own_steps import OwnSteps, told_before
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId
from runtime.experience.columns import RowKind
from runtime.experience.parameters import ParameterValue
from runtime.messages import (
    EnvAssignment,
    EnvReset,
    LossKind,
    PlayerPhase,
    PolicyUpdate,
    StartWorker,
    StepGrant,
    StepsTaken,
)
from runtime.simulation.errors import InvariantError
from runtime.simulation.players import CHOICES, Act, Reply, Row, SimPlayer, chance
from runtime.simulation.rows import Builder
from runtime.simulation.scheduler import Endpoint

# Rows of the table of environments that were used: (phase, kind of message).
Cells = set[tuple[object, type]]
_DECISION = int(RowKind.DECISION)


class EngineHost(Protocol):
    """What an engine needs of the simulation around it."""

    crash_after: int

    @property
    def cells(self) -> Cells | None:
        """Where rows of the table of environments are collected, None where nobody asks."""

    @property
    def now_s(self) -> float:
        """Virtual seconds."""

    def send(self, to: fx.Role, message: object) -> None:
        """As `Host.send`."""

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """As `Host.set_timer`."""

    def cancel_timer(self, token: Hashable) -> None:
        """As `Host.cancel_timer`."""

    def report(self, level: str, text: str) -> None:
        """A line for the operator."""

    def spend_effect(self) -> None:
        """One effect less until this process is to crash; raises CrashError then."""

    def seat_player(self, assignment: EnvAssignment) -> Seat:
        """A new player with its seat."""

    def claim(self, seat: Seat) -> None:
        """The player of this seat is to be launched: no other one of its environment may live."""

    def stepped(
        self, player: SimPlayer, granted: Mapping[str, ParameterValue], told: Mapping[str, ParameterValue]
    ) -> None:
        """A player is about to step and is told these parameters; its EnvWorker was granted those last."""

    def reap(self, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """What the engine does once a process that was told to end has ended, whatever state it was in."""

    def abandon(self) -> None:
        """End every player that is still being closed; for the end of the process."""

    def to_player(self, seat: Seat, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """Something that reaches the player."""

    def from_player(self, seat: Seat, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """Something that reaches the engine from the player."""

    def after(self, delay_s: float, action: Callable[[Any, Any], None], what: object) -> None:
        """Something that the engine does later."""


class Seat:
    """What the engine holds of one incarnation. exchange: number of the exchange in flight, 0 for none."""

    __slots__ = ("acting", "asking", "assignment", "builder", "end", "exchange", "own", "phase", "player", "step")

    def __init__(self, assignment: EnvAssignment, player: SimPlayer, builder: Builder, end: Endpoint) -> None:
        self.assignment = assignment
        self.player = player
        self.builder = builder
        self.end = end
        self.asking: list[Row] = []
        self.phase: PlayerPhase = "launch"
        self.acting = 0
        self.exchange = 0
        self.own = OwnSteps()
        self.step: fx.StepPlayer | None = None


class Exchange:
    """One question to a player and its answer, as it travels."""

    __slots__ = ("acts", "effect", "kind", "number", "reply", "seat")

    def __init__(
        self, kind: Literal["connect", "reset", "step", "close"], seat: Seat, number: int, effect: object
    ) -> None:
        self.kind = kind
        self.seat = seat
        self.number = number
        self.effect = effect
        self.acts: list[Act] = []
        self.reply: Reply | None = None

    def __str__(self) -> str:
        step = f" {self.effect.step}" if isinstance(self.effect, fx.StepPlayer) else ""
        return f"{self.kind}{step}"


class SimEngine:
    """Drives the simulated players of one EnvWorker. gave_up: steps under way that were given up at a stop."""

    def __init__(self, start: StartWorker, host: EngineHost) -> None:
        self._start = start
        self._host = host
        self.core = EnvWorkerCore(start, pid=1)
        self.seats: dict[EnvId, Seat] = {}
        self.gave_up = 0
        self.is_finished = False
        self._closing: dict[EnvId, list[Seat]] = {}
        self._waiting: dict[EnvId, Seat] = {}
        self._policies: dict[tuple[str, int], int] = {}
        self._granted_id = 0
        self._granted: Mapping[str, ParameterValue] = {}
        self._exchanges = 0

    def begin(self) -> None:
        """Open every player."""
        self._perform_all(self.core.begin())

    def deliver(self, message: object) -> None:
        """A message from another part, or a fact."""
        for grant in self._grants_in(message):
            if grant.parameters_id > self._granted_id:
                self._granted_id, self._granted = grant.parameters_id, grant.parameters
        for fact in told_before(message, [(seat.assignment, seat.own) for seat in self.seats.values()]):
            self._handle(fact)
        self._perform_all(self._handle(message))

    def _handle(self, message: object) -> tuple[object, ...]:
        if self._host.cells is not None:
            self._host.cells.update(self._cells_of(message))
        try:
            return self.core.handle(message, self._host.now_s)
        except ActorProtocolError as error:
            # The real engine tells the operator and goes on; here nothing may ever come that the machine refuses.
            raise InvariantError("CORR", str(error)) from error

    def _grants_in(self, message: object) -> Iterable[StepGrant]:
        if isinstance(message, StepGrant):
            return (message,)
        worker = self._start.worker
        return (message.grants[worker],) if isinstance(message, PolicyUpdate) and worker in message.grants else ()

    def _cells_of(self, message: object) -> Iterator[tuple[object, type]]:
        """Which rows of the table of environments this message uses."""
        grants = [each for grant in self._grants_in(message) for each in grant.grants]
        for each in grants or (message,):
            slot = self.core.state.slots.get(getattr(each, "env_id", EnvId(-1)))
            if slot is not None and slot.assignment.incarnation == getattr(each, "incarnation", None):
                yield slot.phase, type(each)

    def lose(self, seat: Seat) -> None:
        """The connection to a player has broken: an exchange under way fails, else the loss is noticed as it is."""
        if self.seats.get(seat.assignment.env_id) is not seat:
            return
        if not seat.exchange:
            seat.phase = "idle"
        self._fail(seat, "died", "the player has died")

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        host = self._host
        for effect in effects:
            if host.crash_after >= 0:
                host.spend_effect()
            self._perform(effect)

    def _perform(self, effect: object) -> None:
        host = self._host
        match effect:
            case fx.StepPlayer():
                self._step(effect)
            case fx.Send():
                host.send(effect.to, effect.message)
            case fx.SendBlocks():
                self._flush([self.seats[env_id] for env_id in effect.env_ids if env_id in self.seats])
            case fx.SetTimer():
                host.set_timer(effect.token, effect.delay_s)
            case fx.CancelTimer():
                host.cancel_timer(effect.token)
            case fx.InstallPolicy(update):
                self._policies[update.behavior, update.version] = int(update.body.rpartition(b" ")[2])
            case fx.OpenPlayer(assignment):
                self._open(assignment)
            case fx.ResetPlayer():
                seat = self.seats[effect.env_id]
                seat.phase = "reset"
                self._ask(Exchange("reset", seat, 0, effect), self._start.step_timeout_s)
            case fx.SendReset(env_id):
                self._send_reset(env_id)
            case fx.ClosePlayer():
                self._close(effect)
            case fx.Report(level, text):
                host.report(level, text)
            case fx.Finish():
                if self.is_finished:
                    raise InvariantError("EXIT", f"EnvWorker {self._start.worker} finished twice")
                self.is_finished = True
                host.abandon()
            case _:
                raise InvariantError("EXIT", f"an EnvWorker cannot perform {effect}")

    # ---- players

    def _ask(self, exchange: Exchange, timeout_s: float) -> None:
        seat, host = exchange.seat, self._host
        if seat.exchange:
            raise InvariantError("CORR", f"environment {seat.assignment.env_id}: two exchanges in flight")
        self._exchanges += 1
        exchange.number = seat.exchange = self._exchanges
        host.to_player(seat, self._at_player, exchange)
        host.after(timeout_s, self._late, exchange)
        if not seat.player.is_alive:
            host.from_player(seat, self._broke, exchange)

    def _at_player(self, exchange: Exchange, _: object) -> None:
        player = exchange.seat.player
        if not player.is_alive:
            return
        if exchange.kind == "close":
            player.is_alive = False
            return
        effect = exchange.effect
        if isinstance(effect, fx.StepPlayer):
            player.parameters.update(effect.parameters)
            exchange.reply = player.step(exchange.acts)
        elif isinstance(effect, fx.ResetPlayer):
            if effect.reset_id <= player.reset_id:
                raise InvariantError("CORR", f"player {player.env_id}.{player.incarnation} is reset a second time")
            exchange.reply = player.reset(effect.reset_id, effect.parameters)
        else:
            exchange.reply = Reply([], player.hello())
        if not player.hangs:
            self._host.from_player(exchange.seat, self._replied, exchange)

    def _replied(self, exchange: Exchange, _: object) -> None:
        seat, reply = exchange.seat, exchange.reply
        if seat.exchange != exchange.number or reply is None:
            return
        seat.exchange = 0
        seat.builder.add_brains(reply.brains)
        if exchange.kind == "connect":
            one = seat.assignment
            told = seat.player.scene.takes_parameters
            self.deliver(fx.PlayerConnected(one.env_id, one.incarnation, 100 + one.env_id, None, reply.brains, told))
            return
        if isinstance(exchange.effect, fx.StepPlayer):
            seat.acting = 0
            seat.builder.record_step(exchange.acts, exchange.effect.versions, reply.rows)
        elif isinstance(exchange.effect, fx.ResetPlayer):
            seat.builder.record_reset(reply.rows, exchange.effect.reset_id)
        self._took(seat, reply)

    def _took(self, seat: Seat, reply: Reply) -> None:
        seat.asking = [row for row in reply.rows if row.kind == _DECISION]
        waiting = seat.builder.pending
        if seat.own.take(waiting, has_news=bool(reply.brains)):
            assert seat.step is not None
            self._take_step(replace(seat.step, step=seat.step.step + 1, parameters={}, begins_block=False))
            return
        pending: dict[str, int] = {}
        for wire, count in waiting.items():
            name = wire.partition("?")[0]
            pending[name] = pending.get(name, 0) + count
        one = seat.assignment
        self.deliver(fx.PlayerReplied(one.env_id, one.incarnation, pending, reply.brains))

    def _late(self, exchange: Exchange, _: object) -> None:
        seat = exchange.seat
        if seat.exchange == exchange.number:
            seat.player.is_alive = False
            self._fail(seat, "timeout", f"the player has not answered {exchange.kind}")

    def _broke(self, exchange: Exchange, _: object) -> None:
        if exchange.seat.exchange == exchange.number:
            self._fail(exchange.seat, "died", "the player has died")

    def _fail(self, seat: Seat, kind: LossKind, cause: str) -> None:
        unreported = seat.acting + seat.builder.unanswered if seat.phase == "step" else 0
        seat.acting = seat.exchange = 0
        one = seat.assignment
        self.deliver(fx.PlayerFailed(one.env_id, one.incarnation, seat.phase, kind, cause, unreported))

    def _open(self, assignment: EnvAssignment) -> None:
        seat = self._host.seat_player(assignment)
        self.seats[assignment.env_id] = seat
        if self._closing.get(assignment.env_id):
            self._waiting[assignment.env_id] = seat
        else:
            self._connect(seat)

    def _connect(self, seat: Seat) -> None:
        self._host.claim(seat)
        self._ask(Exchange("connect", seat, 0, None), self._start.start_timeout_s)

    def _step(self, effect: fx.StepPlayer) -> None:
        seat = self.seats[effect.env_id]
        if effect.begins_block:
            self._flush([seat])
        seat.own.left = effect.own
        self._take_step(effect)

    def _take_step(self, effect: fx.StepPlayer) -> None:
        seat = self.seats[effect.env_id]
        seat.phase, seat.step, versions = "step", effect, effect.versions
        self._host.stepped(seat.player, self._granted, effect.parameters)
        exchange = Exchange("step", seat, 0, effect)
        for wire, agent, *_ in seat.asking:
            name = wire.partition("?")[0]
            weights = self._policies.get((name, versions[name]))
            if weights is None:
                raise InvariantError("VER", f"version {versions[name]} of {name} acts before it is installed")
            luck = chance(weights ^ effect.incarnation, effect.step * 1009 + agent, effect.env_id)
            exchange.acts.append(Act(wire, agent, luck % CHOICES))
        seat.acting = len(exchange.acts)
        self._ask(exchange, self._start.step_timeout_s)

    def _close(self, effect: fx.ClosePlayer) -> None:
        seat = self.seats.get(effect.env_id)
        if seat is None or seat.assignment.incarnation != effect.incarnation:
            return
        if seat.exchange:
            seat.exchange = 0
            if seat.phase == "step":
                self.gave_up += 1
                self._fail(seat, "timeout", "a step under way was given up")
        if self._waiting.get(effect.env_id) is seat:
            del self._waiting[effect.env_id]
        self._closing.setdefault(effect.env_id, []).append(seat)
        exchange = Exchange("close", seat, 0, effect)
        self._host.to_player(seat, self._at_player, exchange)
        self._host.reap(self._closed, exchange)

    def _closed(self, exchange: Exchange, _: object) -> None:
        one = exchange.seat.assignment
        exchange.seat.player.is_alive = False
        self._closing[one.env_id].remove(exchange.seat)
        self.deliver(fx.PlayerClosed(one.env_id, one.incarnation))
        if not self._closing[one.env_id] and one.env_id in self._waiting:
            self._connect(self._waiting.pop(one.env_id))

    # ---- what leaves

    def _flush(self, seats: list[Seat]) -> None:
        taken = [seat.builder.take() for seat in seats]
        blocks = tuple(block for block in taken if block is not None)
        if blocks:
            self._host.send(fx.CONTROLLER, StepsTaken(run=self._start.run, worker=self._start.worker, blocks=blocks))

    def _send_reset(self, env_id: EnvId) -> None:
        first = self.seats[env_id].builder.take()
        if first is None:
            raise InvariantError("CORR", f"environment {env_id}: first rows are sent that nobody has")
        self._host.send(fx.CONTROLLER, EnvReset(run=self._start.run, worker=self._start.worker, first=first))
