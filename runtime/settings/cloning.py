"""Reads the block `behavioral_cloning:` of a behavior."""

from __future__ import annotations

from runtime.learner import CloningSettings
from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings
from runtime.settings.sections import Section


def read_cloning(behavior: Section, findings: Findings) -> CloningSettings | None:
    """What PPO learns from demonstrations beside rewards; None without the block."""
    block, place = behavior.child("behavioral_cloning"), behavior.place("behavioral_cloning")
    positive = kinds.optional(kinds.integer(at_least=1))
    read = CloningSettings(
        demo_path=take_demo_path(block),
        strength=block.take("strength", kinds.number(at_least=0), 1.0),
        steps=block.take("steps", kinds.integer(at_least=0), 0),
        batch_size=block.take("batch_size", positive, None),
        num_epoch=block.take("num_epoch", positive, None),
        samples_per_update=block.take("samples_per_update", kinds.integer(at_least=0), 0),
    )
    block.close()
    if place is None or behavior.is_null("behavioral_cloning"):
        return None
    if not read.demo_path and block.is_good("demo_path"):
        problem = "there is no demo_path to learn from"
        findings.add(Fault(place=place, problem=problem, allowed="a .demo file, or a folder of them"))
    return read


def take_demo_path(block: Section) -> str:
    """The value of `demo_path`, empty where there is none."""
    return block.take("demo_path", kinds.text("a .demo file, or a folder of them"), "")
