"""Reads lessons: `curriculum:` of an environment parameter, and the folder that `--curriculum` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from runtime.experience.lesson_files import ENDING, LessonFileError, parse_lesson_file
from runtime.experience.lessons import LESSON_LENGTH_MAX, PROGRESS_THRESHOLDS, Criterion, Measure
from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings, Place, listed, nearest, refuse
from runtime.settings.model import ConstantParameter, CurriculumParameter, LessonSettings, RunSettings
from runtime.settings.names import behavior_name
from runtime.settings.sections import Section

MEASURES: Final[tuple[Measure, ...]] = ("reward", "progress")
FILE_BYTES_MAX: Final = 1024 * 1024


def read_criterion(block: Section, place: Place, findings: Findings) -> Criterion:
    """The block `completion_criteria:`."""
    plain = Criterion(behavior="")
    behavior = block.take("behavior", kinds.text("the name of a behavior"), "")
    if block.place("behavior") is None:
        findings.add(Fault(place=place, problem="behavior is missing", allowed="the name of a behavior"))
    measure = block.take("measure", kinds.choice(MEASURES), plain.measure)
    low, high = PROGRESS_THRESHOLDS if measure == "progress" else (None, None)
    read = Criterion(
        behavior=behavior_name(behavior),
        measure=measure,
        threshold=block.take("threshold", kinds.number(at_least=low, at_most=high), plain.threshold),
        min_lesson_length=block.take("min_lesson_length", kinds.integer(at_least=0, at_most=LESSON_LENGTH_MAX), 0),
        signal_smoothing=block.take("signal_smoothing", kinds.boolean(), plain.signal_smoothing),
        require_reset=block.take("require_reset", kinds.boolean(), plain.require_reset),
    )
    block.close()
    return read


def read_lesson_folder(folder: Path, findings: Findings) -> dict[str, CurriculumParameter]:
    """The parameters in the files BRAIN.json of a folder, by name; other files are none of ours."""
    place = Place(str(folder), 0, "")
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ENDING and path.is_file())
    except FileNotFoundError:
        refuse(place, "--curriculum: there is no such folder; expected one with a file BRAIN.json for each brain")
    except NotADirectoryError:
        refuse(place, "--curriculum: this is a file; expected a folder with a file BRAIN.json for each brain")
    except OSError as error:
        refuse(place, f"--curriculum: the folder cannot be read: {error.strerror or error}")
    if not paths:
        refuse(place, "--curriculum: there is no lesson file in this folder; expected BRAIN.json for each brain")
    read: dict[str, CurriculumParameter] = {}
    for path in paths:
        for name, parameter in _read_file(path, findings).items():
            if name in read:
                problem = f"parameters.{name} is set in {read[name].source} too; expected it in one file"
                findings.add(Fault(place=Place(str(path), 0, ""), problem=problem))
            read[name] = parameter
    return read


def _read_file(path: Path, findings: Findings) -> dict[str, CurriculumParameter]:
    try:
        with path.open("rb") as file:
            found = parse_lesson_file(file.read(FILE_BYTES_MAX).decode("utf-8-sig"))
    except OSError as error:
        findings.add(Fault(place=Place(str(path), 0, ""), problem=f"cannot be read: {error.strerror or error}"))
        return {}
    except UnicodeDecodeError:
        findings.add(Fault(place=Place(str(path), 0, ""), problem="is not UTF-8; expected a JSON text in UTF-8"))
        return {}
    except LessonFileError as error:
        findings.add(Fault(place=Place(str(path), 0, ""), problem=str(error)))
        return {}
    plans = found.plans(behavior_name(path.name.removesuffix(ENDING)))
    return {
        plan.parameter: CurriculumParameter(
            tuple(
                LessonSettings(each.name, ConstantParameter(value), each.criterion)
                for each, value in zip(plan.lessons, found.parameters[plan.parameter], strict=True)
            ),
            str(path),
        )
        for plan in plans
    }


def with_curricula(
    settings: RunSettings, curricula: Mapping[str, CurriculumParameter], given: Section, findings: Findings
) -> RunSettings:
    """The settings with these parameters in place of those of the same name, which is noted.

    given: `environment_parameters:` of the file and of `--sampler`.
    """
    for name, curriculum in curricula.items():
        place = given.place(name)
        if place is not None:
            findings.note(f"{place}: has no effect: {name} has lessons in {curriculum.source}, and these count")
    return replace(settings, environment_parameters={**settings.environment_parameters, **curricula})


def check_lessons(settings: RunSettings, findings: Findings) -> None:
    """Refuses criteria of behaviors that are not configured, where all must be; notes a flag without effect."""
    curricula = {
        name: each for name, each in settings.environment_parameters.items() if isinstance(each, CurriculumParameter)
    }
    if settings.lesson is not None and not curricula:
        findings.note("--lesson has no effect: no environment parameter has lessons")
    _note_endless(curricula, findings)
    if settings.default_settings is not None or not settings.behaviors:
        return  # who is there is known when the players have said so
    for name, curriculum in curricula.items():
        for behavior in dict.fromkeys(_behaviors(curriculum.lessons)):
            if behavior and behavior not in settings.behaviors:
                problem = f"the lessons of {name} wait for the behavior {behavior!r}, which is not configured"
                fault = Fault(
                    place=Place(curriculum.source or None, 0, ""),
                    problem=problem,
                    allowed=listed(sorted(settings.behaviors)),
                    nearest=nearest(behavior, settings.behaviors),
                )
                findings.add(fault)


def _note_endless(curricula: Mapping[str, CurriculumParameter], findings: Findings) -> None:
    most = PROGRESS_THRESHOLDS[1]
    for name, curriculum in curricula.items():
        for each in curriculum.lessons:
            criterion = each.criterion
            if criterion is not None and criterion.measure == "progress" and criterion.threshold >= most:
                where = f"{curriculum.source}: lesson {each.name!r} of {name}"
                findings.note(f"{where} never ends: progress is never above {most:g}")


def _behaviors(lessons: Iterable[LessonSettings]) -> list[str]:
    return [each.criterion.behavior for each in lessons if each.criterion is not None]
