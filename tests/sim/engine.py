"""The inside of a simulated EnvWorker: does with players what the real engine does, over links of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from runtime.decisions import effects as fx
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.errors import ActorProtocolError
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import BrainInfo, BrainParameters, EnvId, Floats, Ids, Ints
from runtime.messages import EnvAssignment, EnvReset, LossKind, PlayerPhase, StartWorker, StepsTaken
from tests.sim.player import CHOICES, Reply, SimPlayer, mix

NO_FLOATS = np.zeros((0, 0), np.float32)


class EngineHost(Protocol):
    """What an engine needs of the simulation around it."""

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

    def player(self, assignment: EnvAssignment) -> SimPlayer:
        """A new player."""

    def to_player(self, player: SimPlayer, label: str, action: Callable[[], None]) -> None:
        """Something that reaches the player."""

    def from_player(self, player: SimPlayer, label: str, action: Callable[[], None]) -> None:
        """Something that reaches the engine from the player."""

    def after(self, delay_s: float, label: str, action: Callable[[], None]) -> None:
        """Something that the engine does later."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What acted on one brain's rows, as the builder wants it."""

    agents: Ids
    version: int
    discrete: Ints

    @property
    def continuous_raw(self) -> Floats:
        """No continuous actions."""
        return np.zeros((len(self.agents), 0), np.float32)


@dataclass(slots=True)
class Seat:
    """What the engine holds of one incarnation. exchange: number of the exchange in flight, 0 for none."""

    assignment: EnvAssignment
    player: SimPlayer
    builder: BlockBuilder
    brains: dict[str, BrainParameters] = field(default_factory=dict)
    infos: dict[str, BrainInfo] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    phase: PlayerPhase = "launch"
    acting_agents: int = 0
    exchange: int = 0


class SimEngine:
    """Drives the simulated players of one EnvWorker. gave_up: steps under way that were given up at a stop."""

    def __init__(self, start: StartWorker, host: EngineHost) -> None:
        self._start = start
        self._host = host
        self.core = EnvWorkerCore(start, pid=1)
        self.seats: dict[EnvId, Seat] = {}
        self.gave_up = 0
        self.is_finished = False
        self._closing: dict[EnvId, list[Callable[[], None]]] = {}
        self._policies: dict[tuple[str, int], bytes] = {}
        self._exchanges = 0

    def begin(self) -> None:
        """Open every player."""
        self._perform_all(self.core.begin())

    def deliver(self, message: object) -> None:
        """A message from another part, or a fact."""
        try:
            effects = self.core.handle(message, self._host.now_s)
        except ActorProtocolError as error:
            self._host.report("fault", str(error))
            return
        self._perform_all(effects)

    def lose(self, player: SimPlayer) -> None:
        """The connection to a player has broken: an exchange under way fails, else the loss is noticed as it is."""
        seat = self.seats.get(EnvId(player.env_id))
        if seat is None or seat.player is not player:
            return
        if not seat.exchange:
            seat.phase = "idle"
        self._fail(seat, "died", "the player has died")

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: object) -> None:
        match effect:
            case fx.StepPlayer():
                self._step(effect)
            case fx.Send(to, message):
                self._host.send(to, message)
            case fx.SendBlocks(env_ids):
                self._flush([self.seats[env_id] for env_id in env_ids if env_id in self.seats])
            case fx.SetTimer(token, delay_s):
                self._host.set_timer(token, delay_s)
            case fx.CancelTimer(token):
                self._host.cancel_timer(token)
            case fx.InstallPolicy(update):
                self._policies[update.behavior, update.version] = update.body
            case fx.OpenPlayer(assignment):
                self._open(assignment)
            case fx.ResetPlayer():
                self._reset(effect)
            case fx.SendReset(env_id):
                self._send_reset(env_id)
            case fx.ClosePlayer():
                self._close(effect)
            case fx.Report(level, text):
                self._host.report(level, text)
            case fx.Finish():
                assert not self.is_finished, "an EnvWorker finished twice"
                self.is_finished = True
            case _:
                raise AssertionError(effect)

    # ---- players

    def _ask(self, seat: Seat, label: str, answer: Callable[[], Callable[[], None]], timeout_s: float) -> None:
        """One exchange: `answer` runs at the player and gives what the engine does with the reply."""
        assert not seat.exchange, f"environment {seat.assignment.env_id}: two exchanges in flight"
        self._exchanges += 1
        number = seat.exchange = self._exchanges

        def at_player() -> None:
            if not seat.player.is_alive:
                return
            take = answer()
            if not seat.player.hangs:
                self._host.from_player(seat.player, f"answer to {label}", lambda: replied(take))

        def replied(take: Callable[[], None]) -> None:
            if seat.exchange == number:
                seat.exchange = 0
                take()

        def is_late() -> None:
            if seat.exchange == number:
                seat.player.is_alive = False
                self._fail(seat, "timeout", f"the player has not answered {label}")

        self._host.to_player(seat.player, label, at_player)
        self._host.after(timeout_s, f"deadline of {label}", is_late)
        if not seat.player.is_alive:
            self._host.from_player(seat.player, "broken", lambda: self._broke(seat, number))

    def _broke(self, seat: Seat, number: int) -> None:
        if seat.exchange == number:
            self._fail(seat, "died", "the player has died")

    def _fail(self, seat: Seat, kind: LossKind, cause: str) -> None:
        unreported = seat.acting_agents + seat.builder.unanswered if seat.phase == "step" else 0
        seat.acting_agents = seat.exchange = 0
        assignment = seat.assignment
        self.deliver(fx.PlayerFailed(assignment.env_id, assignment.incarnation, seat.phase, kind, cause, unreported))

    def _open(self, assignment: EnvAssignment) -> None:
        env_id, incarnation = assignment.env_id, assignment.incarnation
        player = self._host.player(assignment)
        seat = self.seats[env_id] = Seat(assignment, player, BlockBuilder(env_id, incarnation))

        def connect() -> Callable[[], None]:
            brains = player.hello()
            return lambda: connected(brains)

        def connected(brains: tuple[BrainParameters, ...]) -> None:
            self._know(seat, brains)
            self.deliver(fx.PlayerConnected(env_id, incarnation, 100 + env_id, {}, brains))

        def begin() -> None:
            if self.seats.get(env_id) is seat:
                self._ask(seat, "connect", connect, self._start.start_timeout_s)

        if env_id in self._closing:
            self._closing[env_id].append(begin)
        else:
            begin()

    def _know(self, seat: Seat, brains: tuple[BrainParameters, ...]) -> None:
        seat.brains.update({each.brain_name: each for each in brains})
        seat.builder.add_brains(brains)

    def _reset(self, effect: fx.ResetPlayer) -> None:
        seat = self.seats[effect.env_id]
        seat.phase = "reset"

        def reset() -> Callable[[], None]:
            reply = seat.player.reset()
            return lambda: answered(reply)

        def answered(reply: Reply) -> None:
            self._know(seat, reply[1])
            seat.builder.record_reset(reply[0], reset_id=effect.reset_id)
            self._took(seat, reply)

        self._ask(seat, "reset", reset, self._start.step_timeout_s)

    def _step(self, effect: fx.StepPlayer) -> None:
        seat = self.seats[effect.env_id]
        if any(seat.versions.get(name, version) != version for name, version in effect.versions.items()):
            self._flush([seat])
        seat.versions, seat.phase = effect.versions, "step"
        acted = {name: self._act(effect, name, info) for name, info in seat.infos.items()}
        seat.acting_agents = sum(len(each.agents) for each in acted.values())
        actions = {
            name: (each.agents, each.discrete[:, 0].tolist()) for name, each in acted.items() if len(each.agents)
        }

        def step() -> Callable[[], None]:
            reply = seat.player.step(actions)
            return lambda: answered(reply)

        def answered(reply: Reply) -> None:
            seat.acting_agents = 0
            self._know(seat, reply[1])
            seat.builder.record_step(acted, reply[0])
            self._took(seat, reply)

        self._ask(seat, f"step {effect.step}", step, self._start.step_timeout_s)

    def _act(self, effect: fx.StepPlayer, name: str, info: BrainInfo) -> Acted:
        behavior = name.partition("?")[0]
        version = effect.versions[behavior]
        policy = self._policies[behavior, version]
        agents = info.decisions.agents
        choices = [
            mix(*policy, effect.env_id, effect.incarnation, agent, effect.step) % CHOICES for agent in agents.tolist()
        ]
        return Acted(agents, version, np.array(choices, np.int32).reshape(-1, 1))

    def _took(self, seat: Seat, reply: Reply) -> None:
        seat.infos = reply[0]
        pending: dict[str, int] = {}
        for name, count in seat.builder.pending.items():
            behavior = name.partition("?")[0]
            pending[behavior] = pending.get(behavior, 0) + count
        assignment = seat.assignment
        self.deliver(fx.PlayerReplied(assignment.env_id, assignment.incarnation, pending, reply[1]))

    def _close(self, effect: fx.ClosePlayer) -> None:
        seat = self.seats.get(effect.env_id)
        if seat is None or seat.assignment.incarnation != effect.incarnation:
            return
        if seat.exchange:
            seat.exchange = 0
            if seat.phase == "step":
                self.gave_up += 1
                self._fail(seat, "timeout", "a step under way was given up")
        self._closing.setdefault(effect.env_id, [])

        def close() -> None:
            seat.player.is_alive = False

        def closed() -> None:
            waiting = self._closing.pop(effect.env_id, [])
            self.deliver(fx.PlayerClosed(effect.env_id, effect.incarnation))
            for begin in waiting:
                begin()

        self._host.to_player(seat.player, "close", close)
        self._host.from_player(seat.player, "closed", closed)

    # ---- what leaves

    def _flush(self, seats: list[Seat]) -> None:
        taken = [seat.builder.take() for seat in seats]
        blocks = tuple(block for block in taken if block is not None)
        if blocks:
            self._host.send(fx.CONTROLLER, StepsTaken(run=self._start.run, worker=self._start.worker, blocks=blocks))

    def _send_reset(self, env_id: EnvId) -> None:
        first = self.seats[env_id].builder.take()
        assert first is not None
        self._host.send(fx.CONTROLLER, EnvReset(run=self._start.run, worker=self._start.worker, first=first))
