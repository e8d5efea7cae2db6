"""Lesson files of ML-Agents 0.8 to 0.15: one JSON file per brain, whose parameters all move on together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runtime.experience.lessons import LESSON_LENGTH_MAX, PROGRESS_THRESHOLDS, Criterion, Lesson, LessonPlan, Measure

ENDING: Final = ".json"
KEYS: Final = ("measure", "thresholds", "min_lesson_length", "signal_smoothing", "parameters")
NUMBER_MAX: Final = 3.4e38  # players take float32
_MEASURES: Final[tuple[Measure, ...]] = ("reward", "progress")


class LessonFileError(ValueError):
    """A lesson file that cannot be used: a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonFile:
    """What one file holds. parameters: for each, one number per lesson, which is one more than thresholds."""

    measure: Measure
    thresholds: tuple[float, ...]
    min_lesson_length: int
    signal_smoothing: bool
    parameters: Mapping[str, tuple[float, ...]]

    @property
    def lessons(self) -> int:
        """How many lessons there are."""
        return len(self.thresholds) + 1

    def criterion(self, brain: str, number: int) -> Criterion | None:
        """What ends lesson `number`; None for the last. A new lesson always began with a reset."""
        if number >= len(self.thresholds):
            return None
        return Criterion(
            behavior=brain,
            measure=self.measure,
            threshold=self.thresholds[number],
            min_lesson_length=self.min_lesson_length,
            signal_smoothing=self.signal_smoothing,
            require_reset=True,
        )

    def plans(self, brain: str, source: str = "") -> tuple[LessonPlan, ...]:
        """The lessons of each parameter; with equal criteria they move on together."""
        return tuple(
            LessonPlan(
                parameter=name,
                lessons=tuple(
                    Lesson(name=f"Lesson{number}", value=value, criterion=self.criterion(brain, number))
                    for number, value in enumerate(values)
                ),
                source=source,
            )
            for name, values in self.parameters.items()
        )


def parse_lesson_file(text: str) -> LessonFile:
    """The lessons in a JSON text. Raises LessonFileError that tells the key, what was found and what was expected."""
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise LessonFileError(f"this is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except LessonFileError:
        raise
    except (RecursionError, ValueError) as error:  # a thousand brackets, or a number of thousands of digits
        raise LessonFileError(f"this is no lesson file: {error}") from error
    if not isinstance(found, dict):
        raise LessonFileError(f"found {_kind(found)}; expected an object with the keys {', '.join(KEYS)}")
    for key in KEYS:
        if key not in found:
            raise LessonFileError(f"{key} is missing; expected the keys {', '.join(KEYS)}")
    unknown = sorted(set(found) - set(KEYS))
    if unknown:
        raise LessonFileError(f"{unknown[0]} is no key of a lesson file; expected {', '.join(KEYS)}")
    if found["measure"] not in _MEASURES:
        raise LessonFileError(f"measure: found {found['measure']!r}; expected reward or progress")
    thresholds = _thresholds(found["thresholds"], found["measure"])
    length = found["min_lesson_length"]
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= LESSON_LENGTH_MAX:
        raise LessonFileError(f"min_lesson_length: found {length!r}; expected an integer from 0 to {LESSON_LENGTH_MAX}")
    if not isinstance(found["signal_smoothing"], bool):
        raise LessonFileError(f"signal_smoothing: found {found['signal_smoothing']!r}; expected true or false")
    return LessonFile(
        measure=found["measure"],
        thresholds=thresholds,
        min_lesson_length=length,
        signal_smoothing=found["signal_smoothing"],
        parameters=_parameters(found["parameters"], len(thresholds) + 1),
    )


def _thresholds(found: object, measure: Measure) -> tuple[float, ...]:
    thresholds = _numbers(found, "thresholds")
    low, high = PROGRESS_THRESHOLDS
    wrong = [each for each in thresholds if measure == "progress" and not low <= each <= high]
    if wrong:
        raise LessonFileError(
            f"thresholds: found {wrong[0]:g}; expected numbers from {low:g} to {high:g}: progress is a share of "
            "max_steps, and a lesson ends when it is greater than its threshold"
        )
    return thresholds


def _parameters(found: object, lessons: int) -> dict[str, tuple[float, ...]]:
    if not isinstance(found, dict) or not found:
        raise LessonFileError("parameters: expected an object with a list of numbers for each parameter")
    parameters = {str(name): _numbers(values, f"parameters.{name}") for name, values in found.items()}
    for name, values in parameters.items():
        if len(values) != lessons:
            raise LessonFileError(
                f"parameters.{name}: found {len(values)} values; expected {lessons}, one more than there are thresholds"
            )
    return parameters


def _numbers(found: object, key: str) -> tuple[float, ...]:
    if not isinstance(found, list):
        raise LessonFileError(f"{key}: found {_kind(found)}; expected a list of numbers")
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int | float) or not abs(each) <= NUMBER_MAX:
            raise LessonFileError(f"{key}: found {each!r}; expected finite numbers")
    return tuple(float(each) for each in found)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LessonFileError(f"{twice[0]} stands twice; remove one of them")
    return dict(pairs)


def _kind(found: object) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(type(found), repr(found))
