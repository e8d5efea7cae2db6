"""Lessons move on when their criterion is met, by what was accepted alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.lesson_files import LessonFileError, parse_lesson_file
from runtime.experience.lessons import (
    Criterion,
    Lesson,
    LessonPlan,
    LessonState,
    Measure,
    first_lessons,
    from_json,
    lesson_values,
    look,
    to_json,
    with_returns,
)
from runtime.experience.parameters import GaussianDraw, MultiRangeDraw, ParameterValue, UniformDraw, in_words

BOT = "Bot"


def plan(
    *thresholds: float,
    length: int = 1,
    smooths: bool = False,
    measure: Measure = "reward",
    name: str = "height",
    behavior: str = BOT,
) -> LessonPlan:
    criteria = [
        Criterion(
            behavior=behavior, measure=measure, threshold=each, min_lesson_length=length, signal_smoothing=smooths
        )
        for each in thresholds
    ]
    lessons = [Lesson(name=f"L{n}", value=float(n), criterion=each) for n, each in enumerate([*criteria, None])]
    return LessonPlan(parameter=name, lessons=tuple(lessons))


def after(
    plans: Sequence[LessonPlan],
    *rounds: Sequence[float],
    state: LessonState | None = None,
    progress: Mapping[str, float] | None = None,
) -> LessonState:
    """The state after a look at each round's returns of Bot."""
    state = first_lessons(plans) if state is None else state
    for returns in rounds:
        state, _ = look(with_returns(state, plans, {BOT: returns}), plans, progress or {BOT: 0.0})
    return state


def test_c27_a_measure_of_exactly_0_counts_and_is_not_above_0() -> None:
    plans = [plan(-0.5, 0.0, length=2)]
    state = after(plans, [0.0])
    assert state.numbers == {"height": 0}
    assert state.checks == {}
    state = after(plans, [0.0], state=state)
    assert state.numbers == {"height": 1}
    assert (state.checks["height"].measure, state.checks["height"].is_passed) == (0.0, True)
    state = after(plans, [0.0], [0.0], [0.0], state=state)
    assert state.numbers == {"height": 1}
    check = state.checks["height"]
    assert (check.lesson, check.measure, check.threshold, check.is_passed) == (1, 0.0, 0.0, False)
    state = after(plans, [-0.1, -0.1], state=state)
    assert state.checks["height"].measure == pytest.approx(-0.1)
    assert state.numbers == {"height": 1}


def test_a_lesson_begins_with_no_episodes_of_the_one_before() -> None:
    plans = [plan(0.0, 0.0, length=2)]
    state = after(plans, [5.0, 5.0, 5.0, 5.0])
    assert state.numbers == {"height": 1}
    assert after(plans, [5.0], state=state).numbers == {"height": 1}
    assert after(plans, [5.0], [5.0], state=state).numbers == {"height": 2}


def test_the_mean_is_over_the_latest_episodes() -> None:
    plans = [plan(1.0, length=2)]
    assert after(plans, [9.0, 0.0, 1.0]).checks["height"].measure == 0.5
    assert after(plans, [0.0, 1.0, 9.0]).checks["height"].measure == 5.0


def test_a_smoothed_signal_begins_at_0_and_takes_three_quarters_of_each_measure() -> None:
    plans = [plan(0.8, smooths=True)]
    state = after(plans, [1.0])
    assert (state.checks["height"].signal, state.numbers["height"]) == (0.75, 0)
    state = after(plans, [1.0], state=state)
    assert (state.checks["height"].signal, state.numbers["height"]) == (0.9375, 1)


def test_a_reward_is_looked_at_once_and_again_only_after_more_episodes() -> None:
    plans = [plan(0.8, smooths=True)]
    state = after(plans, [1.0], [], [], [])
    assert state.signals["height"] == 0.75


def test_progress_is_looked_at_without_episodes_unless_a_lesson_takes_some() -> None:
    assert after([plan(0.5, measure="progress", length=0)], [], progress={BOT: 0.6}).numbers == {"height": 1}
    assert after([plan(0.5, measure="progress", length=1)], [], progress={BOT: 0.6}).numbers == {"height": 0}
    assert after([plan(0.5, measure="progress", length=1)], [0.0], progress={BOT: 0.6}).numbers == {"height": 1}
    assert after([plan(0.5, measure="progress", length=0)], [], progress={BOT: 0.5}).numbers == {"height": 0}


def test_one_look_moves_one_lesson_and_the_last_stays() -> None:
    plans = [plan(-1.0, -1.0, length=0)]
    assert after(plans, [0.0]).numbers == {"height": 1}
    assert after(plans, *[[0.0]] * 9).numbers == {"height": 2}


def test_parameters_with_equal_criteria_move_on_together() -> None:
    plans = [plan(0.0, 0.5, length=2, name="height"), plan(0.0, 0.5, length=2, name="mass")]
    for rounds in ([[1.0]], [[1.0, 1.0]], [[1.0, 1.0], [1.0]], [[1.0, 1.0], [1.0, 1.0]]):
        numbers = after(plans, *rounds).numbers
        assert numbers["height"] == numbers["mass"]
    assert lesson_values(after(plans, [1.0, 1.0]), plans) == {"height": 1.0, "mass": 1.0}


def test_other_behaviors_keep_their_episodes_when_a_lesson_changes() -> None:
    plans = [plan(0.0, 0.0), plan(5.0, length=3, name="mass", behavior="Cat")]
    state = with_returns(first_lessons(plans), plans, {BOT: [1.0], "Cat": [1.0, 2.0], "Dog": [3.0]})
    state, moved = look(state, plans, {})
    assert moved == ("height",)
    assert state.returns == {"Cat": (1.0, 2.0)}


@given(
    rounds=st.lists(st.lists(st.floats(-1, 1), max_size=4), max_size=12),
    cut=st.integers(0, 12),
    smooths=st.booleans(),
)
def test_a_saved_state_goes_on_exactly(*, rounds: list[list[float]], cut: int, smooths: bool) -> None:
    plans = [plan(-0.2, 0.0, 0.1, length=3, smooths=smooths), plan(0.0, 0.3, name="mass")]
    whole = after(plans, *rounds)
    first = after(plans, *rounds[:cut])
    saved = json.loads(json.dumps(to_json(first)))
    again = after(plans, *rounds[cut:], state=from_json(saved, plans, number=None))
    assert (again.numbers, again.signals, again.returns) == (whole.numbers, whole.signals, whole.returns)


def test_episodes_that_nobody_has_looked_at_are_looked_at_after_a_save() -> None:
    plans = [plan(0.0)]
    state = with_returns(first_lessons(plans), plans, {BOT: [1.0]})
    restored = from_json(json.loads(json.dumps(to_json(state))), plans, number=None)
    assert after(plans, [], state=restored).numbers == {"height": 1}


def test_a_restored_lesson_fits_the_lessons_that_there_are() -> None:
    saved = to_json(LessonState(numbers={"height": 7, "gone": 1}, signals={"gone": 0.5}))
    plans = [plan(0.0, 0.0), plan(0.0, name="new")]
    state = from_json(saved, plans, number=None)
    assert state.numbers == {"height": 2, "new": 0}
    assert state.signals == {}
    assert from_json(saved, plans, number=1).numbers == {"height": 1, "new": 1}
    assert from_json("nonsense", plans, number=None) == first_lessons(plans)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_lesson_file_or_is_refused(text: str) -> None:
    with pytest.raises(LessonFileError):
        parse_lesson_file(text)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2.0, "2"),
        (UniformDraw(min_value=0.5, max_value=4.0), "uniform from 0.5 to 4"),
        (GaussianDraw(mean=1.0, st_dev=0.25), "gaussian with mean 1 and deviation 0.25"),
        (MultiRangeDraw(intervals=((0.0, 1.0), (3.0, 4.0))), "uniform from 0 to 1 or 3 to 4"),
    ],
)
def test_a_value_is_told_in_words(value: ParameterValue, words: str) -> None:
    assert in_words(value) == words


GOOD = {
    "measure": "reward",
    "thresholds": [0.1, 0.2],
    "min_lesson_length": 3,
    "signal_smoothing": True,
    "parameters": {"height": [0, 1, 2.5], "mass": [1, 1, 2]},
}


def test_a_lesson_file_gives_a_plan_for_each_parameter() -> None:
    first, second = parse_lesson_file(json.dumps(GOOD)).plans("Bot", "Bot.json")
    assert [each.value for each in first.lessons] == [0.0, 1.0, 2.5]
    assert (first.parameter, second.parameter, first.source) == ("height", "mass", "Bot.json")
    criterion = first.criterion(1)
    assert criterion is not None
    assert (criterion.behavior, criterion.threshold, criterion.require_reset) == ("Bot", 0.2, True)
    assert first.criterion(2) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"measure": "rewards"}, "measure: found 'rewards'; expected reward or progress"),
        ({"thresholds": 3}, "thresholds: found 3; expected a list of numbers"),
        ({"thresholds": [10**400]}, "thresholds: found 1000"),
        ({"thresholds": [float("nan")]}, "thresholds: found nan; expected finite numbers"),
        ({"thresholds": ["a"]}, "thresholds: found 'a'; expected finite numbers"),
        ({"measure": "progress", "thresholds": [0, 1.5]}, "thresholds: found 1.5; expected numbers from 0 to 1: progr"),
        ({"measure": "progress", "thresholds": [-0.1, 1]}, "thresholds: found -0.1; expected numbers from 0 to 1: "),
        ({"min_lesson_length": -1}, "min_lesson_length: found -1; expected an integer from 0"),
        ({"min_lesson_length": True}, "min_lesson_length: found True; expected an integer from 0"),
        ({"signal_smoothing": 1}, "signal_smoothing: found 1; expected true or false"),
        ({"parameters": {}}, "parameters: expected an object with a list of numbers for each parameter"),
        ({"parameters": {"a": [1, 2]}}, "parameters.a: found 2 values; expected 3, one more than there are thresholds"),
        ({"extra": 1}, "extra is no key of a lesson file"),
    ],
)
def test_a_wrong_lesson_file_says_key_and_what_was_expected(change: dict[str, object], text: str) -> None:
    with pytest.raises(LessonFileError) as caught:
        parse_lesson_file(json.dumps({**GOOD, **change}))
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("key", sorted(GOOD))
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(LessonFileError, match=f"^{key} is missing"):
        parse_lesson_file(json.dumps({name: value for name, value in GOOD.items() if name != key}))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"measure": ', "this is not JSON: line 1, column 13"),
        ('{"measure": 1, "measure": 2}', "measure stands twice"),
        ("[1]", "found a list; expected an object"),
        ("null", "found null; expected an object"),
        ("[" * 100_000, "this is no lesson file"),
        ("1" * 10_000, "this is no lesson file"),
    ],
)
def test_what_is_no_lesson_file_is_said(text: str, found: str) -> None:
    with pytest.raises(LessonFileError) as caught:
        parse_lesson_file(text)
    assert str(caught.value).startswith(found)
