"""`run_logs/timers.json`: where the time went, as a tree, in the format that ML-Agents' tools read."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runtime.results import Json

TIMER_FORMAT_VERSION = "0.1.0"
PARALLEL: Final = frozenset({("learner thread",), ("storage thread",), ("EnvWorkers",), ("EnvWorkers", "exchange")})
"""Nodes whose time runs beside that of others: threads, processes, and the players of one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerNode:
    """One thing that takes time. total_s includes the children. is_parallel: several ran at once."""

    total_s: float = 0.0
    count: int = 0
    children: Mapping[str, TimerNode] = field(default_factory=dict)
    is_parallel: bool = False

    @property
    def self_s(self) -> float:
        """The time not spent in children, never negative: parallel children may take longer than the whole."""
        return max(0.0, self.total_s - sum(child.total_s for child in self.children.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A measured value: the last one, the range, and how many there were."""

    value: float
    min: float
    max: float
    count: int


class TimeBook:
    """Seconds and counts of all actors of a run, by the path of names in the tree. Any thread may add."""

    def __init__(self) -> None:
        self._spent: dict[tuple[str, ...], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def add(self, *path: str, seconds: float, count: int = 1) -> None:
        """Adds time that was measured."""
        with self._lock:
            before, times = self._spent.get(path, (0.0, 0))
            self._spent[path] = (before + seconds, times + count)

    def tree(self) -> dict[str, TimerNode]:
        """The nodes below the root; one that was not measured itself lasts as long as its children together."""
        with self._lock:
            spent = dict(self._spent)
        return _children(spent, ())


def _children(spent: Mapping[tuple[str, ...], tuple[float, int]], above: tuple[str, ...]) -> dict[str, TimerNode]:
    depth = len(above)
    names = sorted({path[depth] for path in spent if path[:depth] == above and len(path) > depth})
    nodes = {}
    for name in names:
        path = (*above, name)
        children = _children(spent, path)
        together = (sum(each.total_s for each in children.values()), 1)
        total_s, count = spent.get(path, together)
        nodes[name] = TimerNode(total_s=total_s, count=count, children=children, is_parallel=path in PARALLEL)
    return nodes


def widened(gauge: Gauge | None, value: float) -> Gauge:
    """The gauge after one more value; None before the first."""
    if gauge is None:
        return Gauge(value=value, min=value, max=value, count=1)
    return Gauge(value=value, min=min(gauge.min, value), max=max(gauge.max, value), count=gauge.count + 1)


def timers_document(root: TimerNode, gauges: Mapping[str, Gauge], metadata: Mapping[str, str]) -> dict[str, Json]:
    """The document of `timers.json`. metadata: versions, command line and times, as texts."""
    return {
        "name": "root",
        **_node(root),
        "gauges": {
            name: {"value": gauge.value, "min": gauge.min, "max": gauge.max, "count": gauge.count}
            for name, gauge in gauges.items()
        },
        "metadata": {"timer_format_version": TIMER_FORMAT_VERSION, **metadata},
    }


def _node(node: TimerNode) -> dict[str, Json]:
    content: dict[str, Json] = {"total": node.total_s, "count": node.count, "self": node.self_s}
    if node.is_parallel:
        content["is_parallel"] = True
    if node.children:
        content["children"] = {name: _node(child) for name, child in node.children.items()}
    return content
