"""Statistics that a player reports beside its steps, on their way to the curves of a run."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class StatAggregation(IntEnum):
    """How a player wants the values of one statistic to be summed up."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


class Stat(NamedTuple):
    """One value that a player reported. value: finite."""

    name: str
    value: float
    aggregation: StatAggregation = StatAggregation.AVERAGE
