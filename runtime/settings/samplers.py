"""Reads the sampler file of ML-Agents 0.9 to 0.15 as `environment_parameters:` of today, drawn anew at an interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from runtime.settings import kinds
from runtime.settings.command_line import CommandLine
from runtime.settings.faults import Fault, Findings, Place
from runtime.settings.model import ConstantParameter, CurriculumParameter, ParameterSettings, RunSettings
from runtime.settings.nodes import MapNode, Node, Scalar, described, map_of
from runtime.settings.sections import Section
from runtime.settings.yaml_reader import read_file

INTERVAL: Final = "resampling-interval"
TYPE: Final = "sampler-type"
HOLDS: Final = f"`{INTERVAL}: N` and a block with `{TYPE}` for each parameter"
_TYPES: Final = {"uniform": "uniform", "gaussian": "gaussian", "multirange_uniform": "multirangeuniform"}
_ARGUMENTS: Final = {
    "uniform": ("min_value", "max_value"),
    "gaussian": ("mean", "st_dev"),
    "multirange_uniform": ("intervals",),
}


def read_sampler_file(path: Path, findings: Findings) -> MapNode:
    """The file as blocks of today: `environment_parameters:`, and the interval under `runtime:`."""
    root = read_file(path, advice="check the path after --sampler, or leave --sampler out", holds=HOLDS)
    section = Section([root], findings)
    section.take(INTERVAL, kinds.integer(at_least=1), 1)
    interval = root.entries.get(INTERVAL)
    if interval is None:
        place = Place(root.place.file, 1, INTERVAL)
        allowed = "a number of env steps after which all parameters are drawn anew"
        findings.add(Fault(place=place, problem="is missing", allowed=allowed))
        interval = Scalar(place, "1")
    elif not section.is_good(INTERVAL):
        interval = Scalar(root.keys[INTERVAL], "1")  # The fault is told: nobody reads the value again.
    entries: dict[str, Node] = {}
    for name, node in root.entries.items():
        if name != INTERVAL:
            entries[name] = _sampler(node, root.keys[name], findings)
    parameters = MapNode(root.place, entries, {name: root.keys[name] for name in entries})
    runtime = map_of([("resampling_interval", interval)])
    return map_of([("environment_parameters", parameters), ("runtime", runtime)])


def _sampler(node: Node, place: Place, findings: Findings) -> Node:
    nothing = Scalar(place, "0")
    if not isinstance(node, MapNode):
        problem, allowed = "is not allowed", f"a block with {TYPE} and its arguments"
        findings.add(Fault(place=place, problem=problem, value=described(node), allowed=allowed))
        return nothing
    if TYPE not in node.entries:
        findings.add(Fault(place=place, problem=f"{TYPE} is missing", allowed=f"one of {', '.join(_TYPES)}"))
        return nothing
    before = len(findings.faults)
    word = Section([node], findings).take(TYPE, kinds.choice(tuple(_TYPES)), "uniform")
    if len(findings.faults) > before:
        return nothing
    wanted = _ARGUMENTS[word]
    for key in wanted:
        if key not in node.entries:
            findings.add(Fault(place=place, problem=f"{key} is missing", allowed=f"{word} takes {', '.join(wanted)}"))
    arguments = {key: value for key, value in node.entries.items() if key != TYPE}
    options = MapNode(place, arguments, {key: node.keys[key] for key in arguments})
    return map_of([("sampler_type", Scalar(node.keys[TYPE], _TYPES[word])), ("sampler_parameters", options)], place)


def without_idle_interval(settings: RunSettings, place: Place | None, findings: Findings) -> RunSettings:
    """The settings without an interval that would reset all players for the values that they have, which is noted.

    place: where the interval was written.
    """
    if settings.resampling_interval is None or any(map(_is_sampled, settings.environment_parameters.values())):
        return settings
    findings.note(f"{place or INTERVAL}: has no effect: no environment parameter is sampled")
    return replace(settings, resampling_interval=None)


def _is_sampled(parameter: ParameterSettings) -> bool:
    if isinstance(parameter, CurriculumParameter):
        return any(_is_sampled(each.value) for each in parameter.lessons)
    return not isinstance(parameter, ConstantParameter)


def with_samplers(command: CommandLine, blocks: MapNode) -> CommandLine:
    """The command line with these blocks beside its flags, which lie over them where both speak."""
    layer = dict(command.layer.entries)
    for section, block in blocks.entries.items():
        own = layer.get(section)
        assert isinstance(block, MapNode)
        flags = own if isinstance(own, MapNode) else map_of([])
        layer[section] = MapNode(block.place, {**block.entries, **flags.entries}, {**block.keys, **flags.keys})
    return replace(command, layer=map_of(layer.items()))
