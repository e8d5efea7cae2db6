"""A simulated process: a host for one part's shell, with addresses, timers, threads and players of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from runtime.decisions import effects as fx
from runtime.experience.parameters import ParameterValue
from runtime.messages import EnvAssignment
from runtime.simulation.engine import Cells, Exchange, Seat
from runtime.simulation.errors import CrashError
from runtime.simulation.players import SimPlayer
from runtime.simulation.rows import Builder, ColumnBuilder, RowBuilder
from runtime.simulation.scheduler import FOREVER_S, Endpoint

if TYPE_CHECKING:
    from runtime.simulation.shells import Shell
    from runtime.simulation.world import World


# How long it takes to end a player's process.
REAP_S = (0.0005, 0.003, 0.02)


class Place(Endpoint):
    """The process of one part. crash_after: effects until it dies, -1 for never."""

    __slots__ = (
        "_free_at",
        "_numbers",
        "_timers",
        "_waiting",
        "addresses",
        "crash_after",
        "generation",
        "is_alive",
        "role",
        "seats",
        "shell",
        "world",
    )

    def __init__(self, world: World, role: fx.Role, generation: int) -> None:
        super().__init__(f"{role} #{generation}" if generation else f"{role}")
        self.world = world
        self.role = role
        self.generation = generation
        self.is_alive = True
        self.crash_after = -1
        self.addresses: dict[fx.Role, Place] = {}
        self.seats: list[Seat] = []
        self._waiting: dict[fx.Role, list[object]] = {}
        self._timers: dict[Hashable, int] = {}
        self._numbers = 0
        self._free_at: dict[str, float] = {}
        self.shell: Shell = world.shell_of(self)

    @property
    def now_s(self) -> float:
        """Virtual seconds."""
        return self.world.scheduler.now_s

    @property
    def cells(self) -> Cells | None:
        """Where rows of the table of environments are collected, None where nobody asks."""
        return self.world.cells

    @property
    def is_frozen(self) -> bool:
        """True for a process that will never do anything again."""
        return self.silent_until_s >= FOREVER_S

    # ---- messages

    def send(self, to: fx.Role, message: object) -> None:
        """To the address that this part knows, or kept until it knows one."""
        world = self.world
        world.oracle.sent(self.name, self.role, message, world.scheduler.now_s)
        address = self.addresses.get(to)
        if address is None:
            self._waiting.setdefault(to, []).append(message)
        else:
            self.transmit(address, message)

    def reply(self, to: object, message: object) -> None:
        """To whoever sent a message before."""
        assert isinstance(to, Place)
        self.world.oracle.sent(self.name, self.role, message, self.now_s)
        self.transmit(to, message)

    def transmit(self, target: Place, message: object) -> None:
        """One message on the link to another process; lost when that is gone."""
        if target.is_alive:
            scheduler = self.world.scheduler
            scheduler.send(scheduler.link(self, target), (target.take, message, self, True))

    def take(self, message: object, source: Place) -> None:
        """A message has arrived."""
        if self.is_alive:
            self.world.oracle.received(self.name, self.role, message)
            self.shell.receive(message, source)

    def introduced(self, role: fx.Role, address: Place) -> None:
        """Another part has started."""
        self.addresses[role] = address
        for message in self._waiting.pop(role, []):
            self.transmit(address, message)

    # ---- time

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """Only the newest timer of a token counts."""
        self._numbers += 1
        self._timers[token] = self._numbers
        self.world.scheduler.at(delay_s, self._timer_due, token, self._numbers)

    def cancel_timer(self, token: Hashable) -> None:
        """Forget a timer."""
        self._timers.pop(token, None)

    def _timer_due(self, token: Hashable, number: int) -> None:
        if not self.is_alive or self._timers.get(token) != number:
            return
        scheduler = self.world.scheduler
        if self.silent_until_s > scheduler.now_s:
            scheduler.at_time(self.silent_until_s, self._timer_due, token, number)
            return
        del self._timers[token]
        scheduler.note(self.name, ("timer", token))
        self.shell.timer(token)

    def after(self, delay_s: float, action: Callable[[Any, Any], None], what: object) -> None:
        """Something that this process does later, if it is able to."""
        self.world.scheduler.at(delay_s, self._later, action, what)

    def _later(self, action: Callable[[Any, Any], None], what: object) -> None:
        if not self.is_alive:
            return
        scheduler = self.world.scheduler
        if self.silent_until_s > scheduler.now_s:
            scheduler.at_time(self.silent_until_s, self._later, action, what)
            return
        action(what, None)

    def in_background(self, thread: str, took_s: float, action: Callable[[Any, Any], None], what: object) -> None:
        """A job of a thread: it ends when those before it have ended, and some time more."""
        done_s = self._free_at[thread] = max(self._free_at.get(thread, 0.0), self.now_s) + took_s
        self.after(done_s - self.now_s, self._done, (thread, action, what))

    def _done(self, job: tuple[str, Callable[[Any, Any], None], object], _: object) -> None:
        thread, action, what = job
        self.world.scheduler.note(self.name, ("job", thread))
        action(what, None)

    def forget(self) -> None:
        """Let go of the part in it, and of all others."""
        del self.shell
        self.addresses.clear()
        self.seats.clear()

    # ---- faults

    def spend_effect(self) -> None:
        """One effect less until this process is to crash; raises CrashError then."""
        self.crash_after -= 1
        if self.crash_after < 0:
            raise CrashError(self.name)

    # ---- other parts

    def report(self, level: str, text: str) -> None:
        """Into the run's lines."""
        self.world.lines.append(f"{level}: {text}")

    def spawn(self, role: fx.Role, generation: int) -> None:
        """Start a part."""
        self.world.spawn(role, generation)

    def kill(self, role: fx.Role, generation: int) -> None:
        """Kill a part."""
        self.world.end_part(role, generation)

    # ---- players

    def seat_player(self, assignment: EnvAssignment) -> Seat:
        """A new player with its seat."""
        world = self.world
        env_id, incarnation = assignment.env_id, assignment.incarnation
        player = SimPlayer(env_id, incarnation, assignment.seed, world.scenario.scene)
        builder: Builder
        builder = ColumnBuilder(env_id, incarnation) if world.scenario.has_columns else RowBuilder(env_id, incarnation)
        seat = Seat(assignment, player, builder, Endpoint(f"player {env_id}.{incarnation}"))
        world.seated(self, seat)
        self.seats.append(seat)
        return seat

    def claim(self, seat: Seat) -> None:
        """The player of this seat is to be launched: no other one of its environment may live."""
        self.world.claimed(seat)

    def stepped(
        self, player: SimPlayer, granted: Mapping[str, ParameterValue], told: Mapping[str, ParameterValue]
    ) -> None:
        """The oracle looks at what a player is told."""
        self.world.oracle.lessons.stepped(player, granted, told)

    def reap(self, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """What the engine does once a process that was told to end has ended, whatever state it was in."""
        self.in_background(what.seat.end.name, self.world.draws.choose(REAP_S), action, what)

    def abandon(self) -> None:
        """End every player that is still being closed; for the end of the process."""
        for seat in self.seats:
            seat.player.is_alive = False

    def to_player(self, seat: Seat, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """On the link to the player."""
        scheduler = self.world.scheduler
        scheduler.send(scheduler.link(self, seat.end), (action, what, None, False))

    def from_player(self, seat: Seat, action: Callable[[Any, Any], None], what: Exchange) -> None:
        """On the link from the player."""
        scheduler = self.world.scheduler
        scheduler.send(scheduler.link(seat.end, self), (self._if_alive, what, action, False))

    def _if_alive(self, what: object, action: Callable[[Any, Any], None]) -> None:
        if self.is_alive:
            action(what, None)
