"""The benchmarks' bookkeeping: sides take turns, ratios pair rounds, what cannot be measured is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.__main__ import added, document
from tests.benchmarks.collection import BARE_WALK
from tests.benchmarks.measure import Case, Figures, NotMeasuredError, Results, Side, run_all
from tests.benchmarks.page import page
from tests.benchmarks.runs import Progress, Work


def test_sides_take_turns_and_another_one_begins_each_round() -> None:
    order: list[str] = []

    def side(name: str) -> Side:
        def measure(_folder: Path) -> Figures:
            order.append(name)
            return {"n": float(len(order))}

        return Side(name, measure)

    results = run_all([Case("s", "c", (side("a"), side("b")))], rounds=3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert results.values["s", "c", "a", "n"] == [1.0, 4.0, 5.0]


def test_a_ratio_is_the_median_of_the_rounds_ratios_and_not_the_ratio_of_medians() -> None:
    results = Results()
    results.values["s", "c", "a", "n"] = [10.0, 100.0, 30.0]
    results.values["s", "c", "b", "n"] = [10.0, 50.0, 60.0]
    assert results.ratio("s", "c", ("a", "b"), "n") == pytest.approx(1.0)
    assert results.median("s", "c", "a", "n") == pytest.approx(30.0)
    assert results.ratio("s", "c", ("a", "nobody"), "n") is None


def test_what_cannot_be_measured_is_named_once_and_the_others_go_on() -> None:
    def fails(_folder: Path) -> Figures:
        raise NotMeasuredError("it is not installed")

    case = Case("s", "c", (Side("peer", fails), Side("ours", lambda _folder: {"n": 2.0})))
    results = run_all([case], rounds=3)
    assert results.troubles == ["s c, peer: it is not installed"]
    assert results.values == {("s", "c", "ours", "n"): [2.0, 2.0, 2.0]}


def test_the_steady_rate_leaves_the_start_out() -> None:
    progress = Progress(points=[(100, 10.0, None), (300, 11.0, 0.5), (600, 12.0, 0.9), (900, 13.0, 0.9)])
    assert progress.steady_rate(1000) == pytest.approx(300.0)
    assert progress.reached_s(0.9) == pytest.approx(12.0)
    with pytest.raises(NotMeasuredError, match="never reached"):
        progress.reached_s(1.0)
    with pytest.raises(NotMeasuredError, match="too few"):
        progress.steady_rate(3000)


def test_both_trainers_are_given_the_same_configuration() -> None:
    work = Work(scene="basic", envs=1, agents=8, max_steps=10, summary_freq=5, more={"time_horizon": 7})
    settings = work.document()["behaviors"]["Basic"]
    assert (settings["max_steps"], settings["summary_freq"], settings["time_horizon"]) == (10, 5, 7)


def test_a_page_tells_figures_goals_and_what_was_not_measured() -> None:
    results = Results(troubles=["collection 1x1, mlagents-learn: not installed"])
    results.values["collection", "1x1", "ours, sync", "agent steps/s"] = [900.0, 950.0, 1000.0]
    results.values["collection", "1x1", "bare loop", "agent steps/s"] = [1000.0, 1000.0, 1000.0]
    text = page(json.loads(json.dumps(document(results, {"cores": "2"}))))
    assert "| 1x1: ours, sync / bare loop | at least 0.75 | 0.95 | reached |" in text
    assert "| 4x8: ours, async / bare loop | at least 0.6 | not measured |  |" in text
    assert "- collection 1x1, mlagents-learn: not installed" in text
    assert "| cores | 2 |" in text
    assert BARE_WALK not in text
    results.values["collection", "1x1", BARE_WALK, "agent steps/s"] = [900.0, 900.0, 900.0]
    assert f"`{BARE_WALK}` they walk as trained ones do" in page(json.loads(json.dumps(document(results, {}))))


def test_what_is_measured_again_replaces_what_was_measured_before() -> None:
    def measured(case: str, value: float, *troubles: str) -> dict[str, Any]:  # JSON
        results = Results(troubles=list(troubles))
        results.values["s", case, "ours", "n"] = [value]
        return document(results, {})

    first = added(measured("one", 1.0, "s one, peer: absent"), measured("two", 2.0))
    again = added(first, measured("one", 3.0))
    assert [(each["case"], each["values"]) for each in again["figures"]] == [("two", [2.0]), ("one", [3.0])]
    assert again["not_measured"] == []
    assert again["when"] == [*first["when"], *again["when"][2:]]
