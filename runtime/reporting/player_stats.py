"""Statistics that players report, summed up between two summaries of a behavior."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.experience.stats import Stat, StatAggregation

VALUES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Summed:
    """What goes into the events: scalars by tag, and the values of histograms by tag."""

    scalars: Mapping[str, float]
    histograms: Mapping[str, tuple[float, ...]]


class StatsBook:
    """What players reported, for several readers: each takes what came since it took last.

    At most `VALUES_MAX` values wait for the slowest reader; older ones are dropped.
    """

    def __init__(self) -> None:
        self._stats: list[Stat] = []
        self._first = 0
        self._taken: dict[str, int] = {}

    def add(self, stats: Iterable[Stat]) -> None:
        """Keeps values."""
        self._stats.extend(stats)
        self._forget(len(self._stats) - VALUES_MAX)

    def take(self, reader: str) -> Summed:
        """Everything since the reader's last `take`, summed up as the players asked for."""
        end = self._first + len(self._stats)
        begin = max(self._first, self._taken.get(reader, 0))
        self._taken[reader] = end
        found = self._stats[begin - self._first :]
        self._forget(min(self._taken.values()) - self._first)
        return summed(found)

    def _forget(self, count: int) -> None:
        if count > 0:
            del self._stats[:count]
            self._first += count


def summed(stats: Iterable[Stat]) -> Summed:
    """Values by name; the way of summing up that came last for a name holds."""
    values: dict[str, list[float]] = {}
    ways: dict[str, StatAggregation] = {}
    for each in stats:
        values.setdefault(each.name, []).append(each.value)
        ways[each.name] = each.aggregation
    scalars, histograms = {}, {}
    for name, series in values.items():
        match ways[name]:
            case StatAggregation.SUM:
                scalars[name] = sum(series)
            case StatAggregation.MOST_RECENT:
                scalars[name] = series[-1]
            case _:
                scalars[name] = sum(series) / len(series)
        if ways[name] is StatAggregation.HISTOGRAM:
            histograms[f"{name}_hist"] = tuple(series)
    return Summed(scalars, histograms)
