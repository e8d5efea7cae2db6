"""`Curriculum` of 2019: the lessons of one brain, read from its JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runtime.errors import ConfigError
from runtime.experience.lesson_files import ENDING, LessonFile, LessonFileError, parse_lesson_file
from runtime.experience.lessons import OLD_SHARE, LessonCheck, clamped


class Curriculum:
    """The lessons of the brain after which the file is called.

    default_reset_parameters: what the player announced; a parameter that is not among them is refused, as in 2019. None
    where nobody knows them. Raises ConfigError, naming the file and what is wrong with it.
    """

    def __init__(self, location: str | Path, default_reset_parameters: Mapping[str, float] | None = None) -> None:
        self._path = Path(location)
        self._file = _read(self._path)
        self._number = 0
        self._signal = 0.0
        self._checks: list[LessonCheck] = []
        if default_reset_parameters is not None:
            for name in self._file.parameters:
                if name not in default_reset_parameters:
                    known = ", ".join(sorted(default_reset_parameters)) or "none"
                    raise ConfigError(
                        f"{self._path}: parameters.{name}: the player knows no such parameter; it knows {known}",
                    )

    @property
    def brain_name(self) -> str:
        """The brain whose lessons these are."""
        return self._path.name.removesuffix(ENDING)

    @property
    def lesson_num(self) -> int:
        """The lesson, from 0."""
        return self._number

    @lesson_num.setter
    def lesson_num(self, number: int) -> None:
        """A number beyond the last lesson is the last."""
        self._number = clamped(self._file.plans(self.brain_name)[0], number)

    @property
    def max_lesson_num(self) -> int:
        """The last lesson."""
        return self._file.lessons - 1

    @property
    def measure(self) -> str:
        """`reward` or `progress`."""
        return self._file.measure

    @property
    def min_lesson_length(self) -> int:
        """Episodes that a lesson takes at least."""
        return self._file.min_lesson_length

    @property
    def checks(self) -> tuple[LessonCheck, ...]:
        """What each call of `increment_lesson` found, oldest first."""
        return tuple(self._checks)

    def increment_lesson(self, measure_val: float | None) -> bool:
        """True when the lesson ends with this measure, which is smoothed if the file asks for it.

        0 is a measure as any other; None or NaN is none. Nothing follows on the last lesson.
        """
        criterion = self._file.criterion(self.brain_name, self._number)
        if criterion is None or measure_val is None or measure_val != measure_val:  # noqa: PLR0124 - NaN differs from itself
            return False
        signal = measure_val
        if criterion.signal_smoothing:
            signal = self._signal = OLD_SHARE * self._signal + (1.0 - OLD_SHARE) * measure_val
        is_passed = signal > criterion.threshold
        check = LessonCheck(
            lesson=self._number, measure=measure_val, signal=signal, threshold=criterion.threshold, is_passed=is_passed
        )
        self._checks.append(check)
        self._number += is_passed
        return is_passed

    def get_config(self, lesson: int | None = None) -> dict[str, float]:
        """The reset parameters of a lesson, of the one now when None; empty when there is no such lesson."""
        number = self._number if lesson is None else lesson
        if not 0 <= number < self._file.lessons:
            return {}
        return {name: values[number] for name, values in self._file.parameters.items()}


def _read(path: Path) -> LessonFile:
    try:
        return parse_lesson_file(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: the lesson file cannot be read: {error.strerror or error}") from error
    except LessonFileError as error:
        raise ConfigError(f"{path}: {error}") from error
