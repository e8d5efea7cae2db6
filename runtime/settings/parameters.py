"""Reads `environment_parameters:`: constants, samplers and lessons."""

from __future__ import annotations

from runtime.experience.lessons import Criterion
from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings, Place
from runtime.settings.lessons import read_criterion
from runtime.settings.model import (
    ConstantParameter,
    CurriculumParameter,
    GaussianSampler,
    LessonSettings,
    MultiRangeUniformSampler,
    ParameterSettings,
    SampledParameter,
    UniformSampler,
)
from runtime.settings.nodes import ListNode, MapNode, described
from runtime.settings.sections import Section

SAMPLERS = ("constant", "uniform", "gaussian", "multirangeuniform")


def read_parameters(root: Section, findings: Findings) -> dict[str, ParameterSettings]:
    """The environment parameters by name."""
    read: dict[str, ParameterSettings] = {}
    for layer in root.child_layers("environment_parameters"):
        for name, node in layer.entries.items():
            place = layer.keys[name]
            if isinstance(node, MapNode):
                read[name] = _read_block(Section([node], findings), findings, node)
            elif isinstance(node, ListNode):
                findings.add(Fault(place=place, problem="is not allowed", value=described(node), allowed=_ALLOWED))
            else:
                read[name] = ConstantParameter(Section([layer], findings).take(name, kinds.number(), 0.0))
    return read


_ALLOWED = "a number, a block with sampler_type and sampler_parameters, or one with a curriculum"
_ALLOWED_VALUE = "a number, or a block with sampler_type and sampler_parameters"
_ALLOWED_LESSONS = "a list of lessons, each with name, value and, but for the last, completion_criteria"


def _read_block(block: Section, findings: Findings, node: MapNode) -> ParameterSettings:
    if "curriculum" in node.entries:
        return _read_curriculum(block, findings, node)
    return _read_sampled(block, findings, node)


def _read_curriculum(block: Section, findings: Findings, node: MapNode) -> CurriculumParameter:
    block.ignore("curriculum")
    block.close()
    listed, place = node.entries["curriculum"], node.keys["curriculum"]
    items = listed.items if isinstance(listed, ListNode) else ()
    if not items:
        findings.add(Fault(place=place, problem="is not allowed", value=described(listed), allowed=_ALLOWED_LESSONS))
        return CurriculumParameter((LessonSettings("Lesson0", ConstantParameter(0.0)),))
    lessons = []
    for number, item in enumerate(items):
        if isinstance(item, MapNode):
            lessons.append(_read_lesson(item, number, findings, is_last=number == len(items) - 1))
        else:
            findings.add(
                Fault(place=item.place, problem="is no lesson", value=described(item), allowed=_ALLOWED_LESSONS)
            )
    return CurriculumParameter(tuple(lessons), str(Place(place.file, place.line, place.key)))


def _read_lesson(node: MapNode, number: int, findings: Findings, *, is_last: bool) -> LessonSettings:
    section = Section([node], findings)
    name = section.take("name", kinds.text("a name"), f"Lesson{number}")
    value = _read_value(section, node, findings)
    criterion: Criterion | None = None
    criteria = section.child("completion_criteria")
    place = section.place("completion_criteria")
    if place is not None and criteria.names():
        criterion = read_criterion(criteria, place, findings)
    section.close()
    if criterion is None and not is_last:
        problem = "completion_criteria is missing: this lesson would never end"
        findings.add(
            Fault(place=node.place, problem=problem, allowed="completion_criteria in all lessons but the last")
        )
    if criterion is not None and is_last:
        findings.note(f"{place}: completion_criteria of the last lesson has no effect")
        criterion = None
    return LessonSettings(name, value, criterion)


def _read_value(section: Section, lesson: MapNode, findings: Findings) -> SampledParameter:
    section.ignore("value")
    node = lesson.entries.get("value")
    if node is None:
        findings.add(Fault(place=lesson.place, problem="value is missing", allowed=_ALLOWED_VALUE))
        return ConstantParameter(0.0)
    if isinstance(node, MapNode):
        return _read_sampled(Section([node], findings), findings, node)
    return ConstantParameter(section.take("value", kinds.number(), 0.0))


def _read_sampled(block: Section, findings: Findings, node: MapNode) -> SampledParameter:
    if "sampler_type" not in node.entries:
        findings.add(Fault(place=node.place, problem="sampler_type is missing", allowed=_ALLOWED))
        return ConstantParameter(0.0)
    sampler_type = block.take("sampler_type", kinds.choice(SAMPLERS), "constant")
    options = block.child("sampler_parameters")
    block.close()
    sampler = _read_sampler(sampler_type, options)
    if block.is_good("sampler_type"):
        options.close()
    is_checkable = options.is_good("min_value", "max_value")
    if isinstance(sampler, UniformSampler) and is_checkable and sampler.min_value > sampler.max_value:
        place = options.place("min_value") or options.place("max_value") or node.place
        problem = f"min_value {sampler.min_value:g} is above max_value {sampler.max_value:g}"
        findings.add(Fault(place=place, problem=problem, allowed="min_value of at most max_value"))
    return sampler


def _read_sampler(sampler_type: str, options: Section) -> SampledParameter:
    number = kinds.number()
    seed = options.take("seed", kinds.integer(at_least=-1, at_most=2**31 - 1), -1)
    match sampler_type:
        case "uniform":
            low, high = options.take("min_value", number, 0.0), options.take("max_value", number, 1.0)
            return UniformSampler(low, high, seed)
        case "gaussian":
            mean, deviation = options.take("mean", number, 1.0), options.take("st_dev", kinds.number(at_least=0), 1.0)
            return GaussianSampler(mean, deviation, seed)
        case "multirangeuniform":
            return MultiRangeUniformSampler(options.take("intervals", kinds.intervals(), ((0.0, 1.0),)), seed)
        case _:
            return ConstantParameter(options.take("value", number, 0.0))
