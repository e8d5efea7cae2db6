"""Reads `environment_parameters:`: constants and samplers; lessons are refused by name."""

from __future__ import annotations

from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings
from runtime.settings.model import (
    ConstantParameter,
    GaussianSampler,
    MultiRangeUniformSampler,
    ParameterSettings,
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


_ALLOWED = "a number, or a block with sampler_type and sampler_parameters"


def _read_block(block: Section, findings: Findings, node: MapNode) -> ParameterSettings:
    if "curriculum" in node.entries:
        block.refuse("curriculum", "curriculum (lessons) is not supported yet; give a number or a sampler")
        return ConstantParameter(0.0)
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


def _read_sampler(sampler_type: str, options: Section) -> ParameterSettings:
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
