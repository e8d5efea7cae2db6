"""`run_logs/timers.json`: where the time went, as a tree, in the format that ML-Agents' tools read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.results import Json

TIMER_FORMAT_VERSION = "0.1.0"


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
