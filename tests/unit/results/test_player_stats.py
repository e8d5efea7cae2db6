"""Statistics of players: summed up as they ask for, once for each reader, and readable in TensorBoard's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from runtime.experience.stats import Stat, StatAggregation
from runtime.reporting.player_stats import VALUES_MAX, StatsBook, summed
from runtime.reporting.tensorboard import EventWriter

AVERAGE, RECENT = StatAggregation.AVERAGE, StatAggregation.MOST_RECENT
SUM, HISTOGRAM = StatAggregation.SUM, StatAggregation.HISTOGRAM


@pytest.mark.parametrize(("way", "expected"), [(AVERAGE, 2.0), (RECENT, 3.0), (SUM, 6.0), (HISTOGRAM, 2.0)])
def test_values_of_a_name_are_summed_up_as_the_player_asks(way: StatAggregation, expected: float) -> None:
    told = summed([Stat("Goals", value, way) for value in (1.0, 2.0, 3.0)])
    assert told.scalars == {"Goals": expected}
    assert told.histograms == ({"Goals_hist": (1.0, 2.0, 3.0)} if way is HISTOGRAM else {})


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=5), max_size=6))
def test_every_reader_sees_every_value_once(batches: list[list[float]]) -> None:
    book = StatsBook()
    seen: dict[str, float] = {"often": 0.0, "late": 0.0}
    for batch in batches:
        book.add(Stat("n", value, SUM) for value in batch)
        seen["often"] += book.take("often").scalars.get("n", 0.0)
    seen["late"] += book.take("late").scalars.get("n", 0.0)
    assert seen["often"] == pytest.approx(sum(sum(batch) for batch in batches))
    if sum(len(batch) for batch in batches) and not any(batches[:-1]):
        assert seen["late"] in (0.0, pytest.approx(sum(batches[-1])))


def test_a_reader_that_never_takes_costs_bounded_memory() -> None:
    book = StatsBook()
    for _ in range(3):
        book.add(Stat("n", 1.0, SUM) for _ in range(VALUES_MAX))
    assert book.take("late").scalars == {"n": float(VALUES_MAX)}


def test_a_histogram_is_written_with_all_its_values(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path, started_s=1.0, warn=pytest.fail)
    writer.add(5, {"a": 1.0}, now_s=2.0, histograms={"b": (1.0, 2.0, 2.0, 9.0), "none": ()})
    writer.close()
    events = [Event.FromString(raw) for raw in RawEventFileLoader(str(writer.path)).Load()]
    values = {value.tag: value for event in events for value in event.summary.value}
    assert values["a"].simple_value == 1.0
    histogram = values["b"].histo
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (1.0, 9.0, 4.0, 14.0)
    assert sum(histogram.bucket) == 4
    assert "none" not in values
