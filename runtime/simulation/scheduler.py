"""A seeded scheduler in virtual time: one FIFO per (source, target), any order between links, timers that jump.

These are the promises of the runtime's transport: order and single delivery between two processes that live, nothing
across senders. One number is drawn before each event. Ordinarily links are served in turn and timers when they are due;
what deviates is a choice that can be taken back.
"""

from __future__ import annotations

import heapq
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from runtime.simulation.draws import Draws
from runtime.simulation.scenarios import Strategy

DELIVERY_S = 0.0005
FOREVER_S = 1.0e9

# Any: what the function of an item takes; calling it directly is what makes events cheap.
Action = Callable[[Any, Any], None]
# What travels: (function, what, from whom, whether it is a message between parts).
Item = tuple[Action, Any, Any, bool]
TraceEntry = tuple[float, str, str, object]


class Endpoint:
    """A process, as the scheduler knows it."""

    __slots__ = ("incoming", "name", "outgoing", "silent_until_s")

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: list[Link] = []
        self.outgoing: dict[Endpoint, Link] = {}
        self.silent_until_s = 0.0


class Link:
    """What is under way from one process to another. clogged_until_s: nothing arrives before."""

    __slots__ = ("clogged_until_s", "is_ready", "priority", "queue", "source", "target")

    def __init__(self, source: Endpoint, target: Endpoint, priority: int) -> None:
        self.source = source
        self.target = target
        self.priority = priority
        self.queue: deque[Item] = deque()
        self.clogged_until_s = target.silent_until_s
        self.is_ready = False


class Scheduler:
    """Delivers items and fires timers; everything that happens follows from the draws."""

    def __init__(self, draws: Draws, *, strategy: Strategy, deviation: float, seed: int) -> None:
        self.draws = draws
        self.now_s = 0.0
        self.events = 0
        self.trace: list[TraceEntry] = []
        self.ready: list[Link] = []
        self.links: list[Link] = []
        self._strategy = strategy
        self._deviation = deviation
        self._seed = seed
        self._due: list[tuple[float, int, Action, Any, Any]] = []
        self._numbers = 0

    # ---- what is to happen

    def link(self, source: Endpoint, target: Endpoint) -> Link:
        """The link between two processes; made when it is first used."""
        link = source.outgoing.get(target)
        if link is None:
            # Not `hash`, which differs from process to process for texts.
            priority = zlib.crc32(f"{self._seed} {source.name} {target.name}".encode())
            link = source.outgoing[target] = Link(source, target, priority)
            target.incoming.append(link)
            self.links.append(link)
            if self.now_s < link.clogged_until_s < FOREVER_S:
                self.at_time(link.clogged_until_s, self._unclog, link)
        return link

    def send(self, link: Link, item: Item) -> None:
        """Put an item at the end of a link."""
        link.queue.append(item)
        if not link.is_ready:
            self._make_ready(link)

    def at(self, delay_s: float, action: Action, what: object, extra: object = None) -> None:
        """Have something happen later, whatever waits on links then."""
        self._numbers += 1
        heapq.heappush(self._due, (self.now_s + delay_s, self._numbers, action, what, extra))

    def at_time(self, at_s: float, action: Action, what: object, extra: object = None) -> None:
        """The same at a given moment, to the last bit."""
        self._numbers += 1
        heapq.heappush(self._due, (at_s, self._numbers, action, what, extra))

    def clog(self, link: Link, seconds: float) -> None:
        """Hold a link back for a while."""
        link.clogged_until_s = max(link.clogged_until_s, self.now_s + seconds)
        if link.is_ready:
            link.is_ready = False
            self.ready.remove(link)
        if seconds < FOREVER_S:
            self.at(seconds, self._unclog, link)

    def heal(self) -> None:
        """Nothing is held back any more."""
        for link in self.links:
            if link.clogged_until_s > self.now_s and link.target.silent_until_s < FOREVER_S:
                link.clogged_until_s = self.now_s
                self._make_ready(link)

    def cut(self, link: Link, kept: int) -> None:
        """Lose all of a link but its first `kept` items."""
        queue = link.queue
        while len(queue) > kept:
            queue.pop()
        if not queue and link.is_ready:
            link.is_ready = False
            self.ready.remove(link)

    def _unclog(self, link: Link, _: object) -> None:
        self._make_ready(link)

    def _make_ready(self, link: Link) -> None:
        if link.queue and not link.is_ready and link.clogged_until_s <= self.now_s:
            link.is_ready = True
            self.ready.append(link)

    def forget(self) -> None:
        """Let go of all that is under way, and of who sends to whom."""
        for link in self.links:
            link.source.outgoing.clear()
            link.target.incoming.clear()
        self.links.clear()
        self.ready.clear()
        self._due.clear()

    # ---- what happens

    def step(self, value: float) -> bool:
        """Let one thing happen, as `value` (a draw) says; False when nothing can."""
        ready, due = self.ready, self._due
        if due and due[0][0] <= self.now_s:
            if not ready or value >= self._deviation * 0.3:
                self._fire()
                return True
            self.draws.deviate()
        if ready:
            self._deliver(self._choose(value) if len(ready) > 1 else ready[0])
            return True
        if due:
            self._fire()
            return True
        return False

    def jump(self) -> None:
        """Time passes until the next timer although messages wait."""
        if self._due:
            self._fire()

    def _choose(self, value: float) -> Link:
        ready = self.ready
        if self._strategy == "priority":
            link = max(ready, key=_priority_of)
            if value < 0.05:
                link.priority -= 1 << 32
                self.draws.deviate()
                link = max(ready, key=_priority_of)
            return link
        if value < self._deviation:
            index = int(value / self._deviation * len(ready))
            if index:
                self.draws.deviate()
                return ready[index]
        return ready[0]

    def _fire(self) -> None:
        at_s, _, action, what, extra = heapq.heappop(self._due)
        self.now_s = max(self.now_s, at_s)
        action(what, extra)

    def _deliver(self, link: Link) -> None:
        self.events += 1
        self.now_s += DELIVERY_S
        queue, ready = link.queue, self.ready
        action, what, extra, _ = queue.popleft()
        ready.remove(link)
        if queue:
            ready.append(link)
        else:
            link.is_ready = False
        self.trace.append((self.now_s, link.source.name, link.target.name, what))
        action(what, extra)

    def note(self, name: str, what: object) -> None:
        """One more event, which happened at one process."""
        self.events += 1
        self.trace.append((self.now_s, name, name, what))


def _priority_of(link: Link) -> int:
    return link.priority
