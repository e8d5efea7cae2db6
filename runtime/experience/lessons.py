"""Lessons: parameters of the environment that become harder as a behavior becomes better.

Each parameter of a curriculum has lessons of its own, and moves on when the criterion of its lesson is met: when the
mean return of the behavior's latest episodes, or its share of `max_steps`, is above a threshold. Everything here is a
function of what was accepted, in order, so that it depends neither on time nor on which process ran what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from runtime.experience.parameters import ParameterValue

Measure = Literal["reward", "progress"]
OLD_SHARE: Final = 0.25
"""Of the smoothed signal so far; the rest is the new measure. The signal begins at 0, as in ML-Agents."""
LESSON_LENGTH_MAX: Final = 10_000
PROGRESS_THRESHOLDS: Final = (0.0, 1.0)
"""From, to: progress is a share, so that a greater threshold is never passed, and a smaller one always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """When a lesson ends: when the signal is greater than `threshold`.

    min_lesson_length: episodes of the behavior that must have ended in this lesson; the mean is over as many of the
    latest. require_reset: the new lesson begins with a reset of the players.
    """

    behavior: str
    measure: Measure = "reward"
    threshold: float = 0.0
    min_lesson_length: int = 0
    signal_smoothing: bool = True
    require_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson: the value that players are given, and when it ends; None for the last."""

    name: str
    value: ParameterValue
    criterion: Criterion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonPlan:
    """The lessons of one parameter, at least one. source: where they were written, for messages."""

    parameter: str
    lessons: tuple[Lesson, ...]
    source: str = ""

    def criterion(self, number: int) -> Criterion | None:
        """What ends lesson `number`; None when it is the last."""
        return self.lessons[number].criterion if number + 1 < len(self.lessons) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonCheck:
    """A look at a criterion. lesson: the one that was looked at. signal: what was compared, smoothed or not."""

    lesson: int
    measure: float
    signal: float
    threshold: float
    is_passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonState:
    """Where all parameters are. signals: smoothed so far. checks: the newest of each parameter.

    returns: of the latest episodes of each behavior since its lesson began, as many as any of its criteria needs.
    fresh: behaviors of which episodes have ended since the last look.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    returns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    checks: Mapping[str, LessonCheck] = field(default_factory=dict)


def first_lessons(plans: Sequence[LessonPlan], number: int = 0) -> LessonState:
    """The state before anything was accepted, each parameter in lesson `number`, or its last if it has fewer."""
    return LessonState(numbers={plan.parameter: clamped(plan, number) for plan in plans})


def clamped(plan: LessonPlan, number: int) -> int:
    """The lesson of that number, or the nearest that there is."""
    return min(max(0, number), len(plan.lessons) - 1)


def lesson_values(state: LessonState, plans: Sequence[LessonPlan]) -> dict[str, ParameterValue]:
    """What players are given now."""
    return {plan.parameter: plan.lessons[state.numbers[plan.parameter]].value for plan in plans}


def with_returns(
    state: LessonState, plans: Sequence[LessonPlan], returns: Mapping[str, Sequence[float]]
) -> LessonState:
    """The state once these episodes have ended; 0 is a return as any other."""
    kept = dict(state.returns)
    needs = _lengths(plans)
    for behavior, new in returns.items():
        if behavior in needs and new:
            kept[behavior] = (*kept.get(behavior, ()), *new)[-needs[behavior] :]
    fresh = state.fresh | {name for name, new in returns.items() if name in needs and new}
    return replace(state, returns=kept, fresh=fresh)


def look(
    state: LessonState, plans: Sequence[LessonPlan], progress: Mapping[str, float]
) -> tuple[LessonState, tuple[str, ...]]:
    """One look at every criterion: the state after it, and the parameters that have moved on, each by one lesson.

    progress: share of `max_steps` by behavior. A reward is looked at once after episodes have ended, progress always.
    Where a lesson changes, the behavior's returns so far belong to the lesson before, and are forgotten.
    """
    numbers, signals, checks = dict(state.numbers), dict(state.signals), dict(state.checks)
    moved, restarted = [], set()
    for plan in plans:
        number = numbers[plan.parameter]
        criterion = plan.criterion(number)
        found = None if criterion is None else measured(criterion, state, progress)
        if criterion is None or found is None:
            continue
        signal = found
        if criterion.measure == "reward" and criterion.signal_smoothing:
            signal = OLD_SHARE * signals.get(plan.parameter, 0.0) + (1.0 - OLD_SHARE) * found
            signals[plan.parameter] = signal
        is_passed = signal > criterion.threshold
        checks[plan.parameter] = LessonCheck(
            lesson=number, measure=found, signal=signal, threshold=criterion.threshold, is_passed=is_passed
        )
        if is_passed:
            numbers[plan.parameter] = number + 1
            moved.append(plan.parameter)
            restarted.add(criterion.behavior)
    returns = {name: each for name, each in state.returns.items() if name not in restarted}
    after = LessonState(numbers=numbers, signals=signals, returns=returns, checks=checks)
    return after, tuple(moved)


def measured(criterion: Criterion, state: LessonState, progress: Mapping[str, float]) -> float | None:
    """What the criterion measures now; None while too few episodes have ended, or none since the last look."""
    returns = state.returns.get(criterion.behavior, ())
    if len(returns) < criterion.min_lesson_length:
        return None
    if criterion.measure == "progress":
        return progress.get(criterion.behavior)
    latest = returns[-max(1, criterion.min_lesson_length) :]
    if not latest or criterion.behavior not in state.fresh:
        return None
    return sum(latest) / len(latest)


def saved_numbers(saved: object) -> dict[str, int]:
    """The lesson of each parameter in what `to_json` has written."""
    numbers = _numbers(saved.get("numbers")) if isinstance(saved, Mapping) else {}
    return {name: int(number) for name, number in numbers.items()}


def to_json(state: LessonState) -> dict[str, object]:
    """As JSON, for a checkpoint."""
    return {
        "numbers": dict(state.numbers),
        "signals": dict(state.signals),
        "returns": {name: list(each) for name, each in state.returns.items()},
        "fresh": sorted(state.fresh),
        "checks": {name: asdict(each) for name, each in state.checks.items()},
    }


def from_json(saved: object, plans: Sequence[LessonPlan], *, number: int | None) -> LessonState:
    """The state of a run that goes on. number: begin with this lesson instead, None for the saved ones.

    Parameters that are new begin at 0, those that are gone are forgotten; one with fewer lessons now is in its last.
    """
    before = saved if isinstance(saved, Mapping) else {}
    numbers, signals = saved_numbers(before), _numbers(before.get("signals"))
    returns = before.get("returns")
    kept = {
        str(name): tuple(float(one) for one in each if isinstance(one, int | float))
        for name, each in (returns.items() if isinstance(returns, Mapping) else ())
        if isinstance(each, list)
    }
    known = {plan.parameter: plan for plan in plans}
    fresh = before.get("fresh")
    return LessonState(
        numbers={
            name: clamped(plan, numbers.get(name, 0) if number is None else number) for name, plan in known.items()
        },
        signals={name: each for name, each in signals.items() if name in known},
        returns={} if number is not None else kept,
        fresh=frozenset(kept.keys() & fresh) if isinstance(fresh, list) and number is None else frozenset(),
    )


def _numbers(saved: object) -> dict[str, float]:
    entries = saved.items() if isinstance(saved, Mapping) else ()
    return {str(name): each for name, each in entries if isinstance(each, int | float)}


def _lengths(plans: Sequence[LessonPlan]) -> dict[str, int]:
    """Episodes to be remembered, by behavior."""
    lengths: dict[str, int] = {}
    for criterion in criteria(plans):
        lengths[criterion.behavior] = max(lengths.get(criterion.behavior, 1), criterion.min_lesson_length)
    return lengths


def criteria(plans: Sequence[LessonPlan]) -> tuple[Criterion, ...]:
    """All criteria that may be looked at."""
    found = (plan.criterion(number) for plan in plans for number in range(len(plan.lessons)))
    return tuple(each for each in found if each is not None)
