"""What a mutant is: a small change to the text of a decision machine that makes it wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """In this module of `runtime.decisions`, `old`, which occurs once, becomes `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault built into the machines. text: what it is, as the table of `docs/testing.md` says it."""

    name: str
    text: str
    patches: tuple[Patch, ...]


def mutant(name: str, text: str, module: str, old: str, new: str) -> Mutant:
    """A mutant of one patch."""
    return Mutant(name, text, (Patch(module, old, new),))
