"""Where mutants come from: they are no part of what ships, but of the tests of a source tree."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from runtime.errors import UsageError
from runtime.simulation.draws import Skips
from runtime.simulation.running import Outcome, simulate
from runtime.simulation.scenarios import Scenario

MODULE = "tests.mutants.loading"


class Simulate(Protocol):
    """`simulate` of the machines as they are, or as a mutant has them."""

    def __call__(self, scenario: Scenario, skips: Skips = ...) -> Outcome:
        """The outcome of a scenario."""


def known_mutants() -> Mapping[str, str]:
    """What each mutant changes, by name. Raises UsageError where there is no source tree."""
    return cast("Mapping[str, str]", _loading("descriptions"))


@functools.cache
def simulator_of(mutant: str) -> Simulate:
    """`simulate` over a mutant's machines; over the real ones when `mutant` is empty. Raises UsageError."""
    if not mutant:
        return simulate
    known = known_mutants()
    if mutant not in known:
        raise UsageError(f"there is no mutant {mutant!r}; --list-mutants shows all {len(known)}")
    load = cast("Callable[[str], Simulate]", _loading("simulator_of"))
    return load(mutant)


def _loading(name: str) -> object:
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError:
        msg = "mutants belong to the tests and are not installed; run this at the root of a source tree"
        raise UsageError(msg) from None
    value: object = getattr(module, name)
    return value() if name == "descriptions" and callable(value) else value
