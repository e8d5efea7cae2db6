"""A seeded scheduler in virtual time: one FIFO per (source, target), random choice between links, timers that jump."""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

DELIVERY_S = 0.0005

Link = tuple[str, str]
Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Item:
    """What travels on a link. label: as the trace shows it."""

    label: str
    action: Action


@dataclass(slots=True)
class Scheduler:
    """Delivers items and fires timers; everything that happens follows from the seed.

    links keep the order of what is sent on them, and promise nothing about each other. jump_share: how often time
    jumps to the next timer although something could be delivered, which is what a slow network looks like.
    """

    rng: random.Random
    jump_share: float = 0.0
    now_s: float = 0.0
    events: int = 0
    digest: int = 0
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _links: dict[Link, deque[Item]] = field(default_factory=dict)
    _clogged_until: dict[Link, float] = field(default_factory=dict)
    _due: list[tuple[float, int, Item]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def send(self, link: Link, label: str, action: Action) -> None:
        """Put an item at the end of a link."""
        self._links.setdefault(link, deque()).append(Item(label, action))

    def after(self, delay_s: float, label: str, action: Action) -> None:
        """Have something happen later, whatever waits on links then."""
        heapq.heappush(self._due, (self.now_s + delay_s, next(self._numbers), Item(label, action)))

    def busy_links(self) -> list[Link]:
        """Links on which something waits, in a fixed order."""
        return sorted(link for link, queue in self._links.items() if queue)

    def clog(self, link: Link, seconds: float) -> None:
        """Hold a link back for a while."""
        self._clogged_until[link] = self.now_s + seconds
        self.after(seconds, "unclog", lambda: None)

    def cut(self, link: Link, kept: int) -> None:
        """Lose all of a link but its first `kept` items."""
        queue = self._links.get(link, deque())
        while len(queue) > kept:
            queue.pop()

    def links_of(self, name: str) -> list[Link]:
        """Links that begin or end at `name`, in a fixed order."""
        return sorted(link for link in self._links if name in link)

    def waiting(self, link: Link) -> int:
        """How many items wait on a link."""
        return len(self._links.get(link, ()))

    def step(self) -> bool:
        """Let one thing happen; False when nothing can."""
        now_s = self.now_s
        ready = [link for link in self.busy_links() if self._clogged_until.get(link, 0.0) <= now_s]
        is_due = bool(self._due) and self._due[0][0] <= now_s
        if not ready and not self._due:
            return False
        jumps = not ready or (self.jump_share > 0.0 and self.rng.random() < self.jump_share and bool(self._due))
        if jumps or (is_due and self.rng.random() < 0.5):
            at_s, _, item = heapq.heappop(self._due)
            self.now_s = max(now_s, at_s)
            self._happen("", item)
            return True
        link = self.rng.choice(ready)
        item = self._links[link].popleft()
        self.now_s += DELIVERY_S
        self._happen(f"{link[0]} -> {link[1]}: ", item)
        return True

    def _happen(self, where: str, item: Item) -> None:
        self.events += 1
        line = f"{self.now_s:.4f} {where}{item.label}"
        self.trace.append(line)
        self.digest = zlib.crc32(line.encode(), self.digest)
        item.action()
