"""What goes wrong: one draw becomes one fault of a kind that the scenario allows, at a target of its choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.messages import (
    BrainsFound,
    HolderFailed,
    HolderRestarted,
    PolicyRequest,
    PolicyUpdate,
    RestartPlayersRequest,
    StartWorker,
    Status,
    WorkerAlive,
)
from runtime.simulation.engine import Seat
from runtime.simulation.places import Place
from runtime.simulation.scenarios import FaultKind
from runtime.simulation.scheduler import FOREVER_S, Item, Link

if TYPE_CHECKING:
    from runtime.simulation.world import World

# What the protocol itself makes good for when it does not come; everything else relies on the transport.
DROPPABLE = (PolicyUpdate, PolicyRequest, WorkerAlive, Status, HolderRestarted, HolderFailed)
# Without these two nothing can begin, so nothing about loss can be learned from losing them.
NEEDED = (StartWorker, BrainsFound)
# A second one would be another order; the transport delivers once.
UNIQUE = (StartWorker, RestartPlayersRequest)
EFFECTS_MAX = 6
# Of events while a run ends, where faults come thick; and how many there are then at least.
END_SHARE, END_FAULTS = 0.2, 2
HIDING: tuple[FaultKind, ...] = ("pause", "freeze", "partition", "clog", "drop", "jump")


class FaultMaker:
    """Faults of one run. share: of events before which one happens. left: how many may still happen.

    dropped: messages that were lost between two processes that live, beyond what the protocol makes good for.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rates = world.scenario.rates
        self.share = sum(rate for _, rate in self._rates)
        self.left = world.scenario.faults_max
        self.counts: dict[FaultKind, int] = {}
        self.dropped = 0
        self._crashing: Place | None = None
        self._makers: dict[FaultKind, Callable[[float], bool]] = {
            "player": self._player,
            "hang": self._hang,
            "worker": self._worker,
            "holder": lambda luck: self._kill("holder", luck),
            "controller": self._controller,
            "pause": lambda luck: self._pause(luck, forever=False),
            "freeze": lambda luck: self._pause(luck, forever=True),
            "crash at effect": self._crash_at_effect,
            "clog": self._clog,
            "partition": self._partition,
            "duplicate": self._duplicate,
            "drop": self._drop,
            "jump": self._jump,
            "supervisor": self._supervisor,
            "launcher": self._launcher,
        }

    def happen(self, value: float) -> None:
        """The fault that `value`, a draw below `share`, stands for; nothing when there is no target for it."""
        # Even where it finds no target, the turn in which something else would have happened has gone by.
        self._world.draws.deviate()
        for kind, rate in self._rates:
            if value < rate:
                if self._makers[kind](value / rate):
                    # Twice is harmless, however often.
                    self.left -= kind != "duplicate"
                    self.counts[kind] = self.counts.get(kind, 0) + 1
                    self._world.scheduler.note("fault", kind)
                return
            value -= rate

    def come_thick(self) -> None:
        """From now on faults of the kinds that there are come so often that one or two are likely to hit what is left.

        The end of a run is short: at the ordinary rate hardly anything happens in it.
        """
        if not self.share or not self._world.scenario.hits_the_end:
            return
        scale = max(1.0, END_SHARE / self.share)
        self._rates = tuple((kind, rate * scale) for kind, rate in self._rates)
        self.share *= scale
        self.left = max(self.left, END_FAULTS)

    @property
    def hides_parts(self) -> bool:
        """True once a part that works may have been unheard, or unheard of, for long."""
        return any(kind in self.counts for kind in HIDING)

    def crashed(self) -> None:
        """A process has used up its last effect."""
        place = self._crashing
        assert place is not None
        self._crashing = None
        if place is self._world.top:
            self._world.lose_supervisor()
            return
        self._world.kill(place.role, place.generation, "it crashed between two effects")

    # ---- processes

    def _alive(self, kind: str) -> list[Place]:
        return [
            place
            for _, place in self._world.children.values()
            if place is not None and place.is_alive and not place.is_frozen and place.role.kind == kind
        ]

    def _kill(self, kind: str, luck: float) -> bool:
        places = self._alive(kind)
        if not places:
            return False
        place = places[int(luck * len(places))]
        self._world.kill(place.role, place.generation, "it crashed")
        return True

    def _worker(self, luck: float) -> bool:
        """A worker dies; half the time its last words to the controller are stuck by then, and come much later."""
        if luck < 0.5:
            return self._kill("worker", 2 * luck)
        links = [
            (place, link)
            for place in self._alive("worker")
            for link in place.outgoing.values()
            if isinstance(link.target, Place) and link.target.role.kind == "controller"
        ]
        if not links:
            return self._kill("worker", 2 * luck - 1)
        index, rest = divmod((2 * luck - 1) * len(links), 1.0)
        place, link = links[int(index)]
        self._world.scheduler.clog(link, 0.01 + 0.15 * rest)
        self._world.scheduler.at(0.004, self._die_late, place)
        return True

    def _die_late(self, place: Place, _: object) -> None:
        self._world.kill(place.role, place.generation, "it crashed")

    def _crash_at_effect(self, luck: float) -> bool:
        places = [*self._alive("worker"), *self._alive("holder")]
        if not places or self._is_armed:
            return False
        index, rest = divmod(luck * len(places), 1.0)
        self.arm(places[int(index)], int(rest * EFFECTS_MAX))
        return True

    @property
    def _is_armed(self) -> bool:
        """Whether a process that lives is to crash: one at a time."""
        return self._crashing is not None and self._crashing.is_alive

    def arm(self, place: Place, effects: int) -> None:
        """This process is to crash after so many effects more."""
        self._crashing = place
        place.crash_after = effects

    def _controller(self, luck: float) -> bool:
        """The controller dies, half the time between two effects."""
        places = self._alive("controller")
        if not places or luck < 0.5 or self._is_armed:
            return self._kill("controller", luck)
        self.arm(places[0], int((2 * luck - 1) * EFFECTS_MAX))
        return True

    def _pause(self, luck: float, *, forever: bool) -> bool:
        kinds = ("worker",) if forever else ("worker", "controller", "holder")
        places = [place for kind in kinds for place in self._alive(kind)]
        if not places:
            return False
        index, rest = divmod(luck * len(places), 1.0)
        place, scheduler = places[int(index)], self._world.scheduler
        # Now and then so long that a clock alone would say that what was asked for just before is overdue.
        seconds = FOREVER_S if forever else 0.05 + 0.6 * rest + (2.0 if rest > 0.8 else 0.0)
        self._world.died |= forever
        place.silent_until_s = FOREVER_S if forever else scheduler.now_s + seconds
        for link in place.incoming:
            scheduler.clog(link, seconds)
        return True

    def _launcher(self, luck: float) -> bool:
        if self._world.controller is None:
            return False
        self._world.is_launcher_gone = True
        self._world.disk.crash(self._world.draws)
        return True

    def _supervisor(self, luck: float) -> bool:
        """The Supervisor dies, half the time between two effects; every other process ends when it sees that."""
        if not self._world.top.is_alive or self._crashing is not None:
            return False
        if luck < 0.5:
            self._world.lose_supervisor()
        else:
            self.arm(self._world.top, int((2 * luck - 1) * EFFECTS_MAX))
        return True

    # ---- players

    def _seats(self) -> list[tuple[Place, Seat]]:
        return [(place, seat) for place in self._alive("worker") for seat in place.seats if seat.player.is_alive]

    def _player(self, luck: float) -> bool:
        """A player dies; half the time a grant that is under way to it comes again after that."""
        seats = self._seats()
        if not seats:
            return False
        index, rest = divmod(luck * len(seats), 1.0)
        place, seat = seats[int(index)]
        if rest < 0.5:
            self._repeat_grant(place, 2 * rest)
        self._world.lose_player(seat, place)
        return True

    def _repeat_grant(self, place: Place, luck: float) -> None:
        """A grant that is under way to this worker comes a second time, when it may be about a player of the past."""
        for link in place.incoming:
            for item in link.queue:
                if item[3] and getattr(item[1], "grants", None):
                    self._world.scheduler.at(0.3 * luck, self._send_again, link, item)
                    return

    def _hang(self, luck: float) -> bool:
        seats = self._seats()
        if not seats:
            return False
        seats[int(luck * len(seats))][1].player.hangs = True
        self._world.died = True
        return True

    # ---- links

    def _link(self, luck: float) -> tuple[Link, float] | None:
        ready = self._world.scheduler.ready
        if not ready:
            return None
        index, rest = divmod(luck * len(ready), 1.0)
        return ready[int(index)], rest

    def _clog(self, luck: float) -> bool:
        chosen = self._link(luck)
        if chosen is None:
            return False
        self._world.scheduler.clog(chosen[0], 0.01 + chosen[1])
        return True

    def _partition(self, luck: float) -> bool:
        """One part neither hears nor is heard by the others for a while."""
        places = [*self._alive("worker"), *self._alive("holder"), *self._alive("controller")]
        if not places:
            return False
        index, rest = divmod(luck * len(places), 1.0)
        place = places[int(index)]
        for link in (*place.incoming, *place.outgoing.values()):
            if isinstance(link.source, Place) and isinstance(link.target, Place):
                self._world.scheduler.clog(link, 0.01 + 2.0 * rest)
        return True

    def _heads(self, luck: float, is_target: Callable[[object], bool]) -> tuple[Link, float] | None:
        """A link at whose head waits a message of that sort, and what is left of the luck."""
        links = [each for each in self._world.scheduler.ready if each.queue[0][3] and is_target(each.queue[0][1])]
        if not links:
            return None
        index, rest = divmod(luck * len(links), 1.0)
        return links[int(index)], rest

    def _duplicate(self, luck: float) -> bool:
        """The message at the head of a link comes twice: at once, behind what is under way, or some time later."""
        chosen = self._heads(luck, lambda message: not isinstance(message, UNIQUE))
        if chosen is None:
            return False
        link, rest = chosen
        item = link.queue[0]
        if rest < 0.3:
            link.queue.appendleft(item)
        elif rest < 0.5:
            link.queue.append(item)
        else:
            self._world.scheduler.at(0.2 * (rest - 0.5) ** 2, self._send_again, link, item)
        return True

    def _send_again(self, link: Link, item: Item) -> None:
        target = link.target
        if isinstance(target, Place) and target.is_alive:
            self._world.scheduler.send(link, item)

    def _drop(self, luck: float) -> bool:
        """The message at the head of a link is lost."""
        is_lossy = self._world.scenario.is_lossy
        chosen = self._heads(
            luck, lambda message: not isinstance(message, NEEDED) if is_lossy else isinstance(message, DROPPABLE)
        )
        if chosen is None:
            return False
        link = chosen[0]
        message = link.queue.popleft()[1]
        self._world.scheduler.cut(link, len(link.queue))
        self.dropped += not isinstance(message, DROPPABLE)
        return True

    def _jump(self, luck: float) -> bool:
        del luck
        self._world.scheduler.jump()
        return True
