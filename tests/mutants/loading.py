"""Load the decisions with a fault built in, under a simulator of their own; what ships is not touched."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

import runtime
from runtime.simulation.mutations import Simulate
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant, Patch

DECISIONS = "runtime.decisions"
# Loaded anew for each mutant: what is mutated, and whoever has imported it.
FRESH = (DECISIONS, "runtime.simulation")


def descriptions() -> Mapping[str, str]:
    """What each mutant changes, by name."""
    return {name: each.text for name, each in MUTANTS.items()}


def patched(source: str, patches: Sequence[Patch]) -> str:
    """The source with all patches. Raises ValueError for one that does not meet its place exactly once."""
    for patch in patches:
        if source.count(patch.old) != 1:
            msg = f"{patch.module}: {patch.old!r} occurs {source.count(patch.old)} times, expected once"
            raise ValueError(msg)
        source = source.replace(patch.old, patch.new)
    return source


class _PatchedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, patches: Sequence[Patch]) -> None:
        super().__init__(name, path)
        self._patches = patches

    def get_code(self, fullname: str) -> CodeType:
        """The patched source, compiled; the cache of compiled files is for the real one."""
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(patched(source, self._patches), self.path, "exec")


class _Finder:
    """Finds the modules that a mutant changes."""

    def __init__(self, mutant: Mutant) -> None:
        self._patches: dict[str, list[Patch]] = {}
        for patch in mutant.patches:
            self._patches.setdefault(f"{DECISIONS}.{patch.module}", []).append(patch)
        self._paths = {name: _path_of(name) for name in self._patches}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As importlib asks for it."""
        patches = self._patches.get(name)
        if patches is None:
            return None
        where = self._paths[name]
        return spec_from_file_location(name, where, loader=_PatchedLoader(name, where, patches))


def _path_of(name: str) -> str:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


def _is_fresh(name: str) -> bool:
    return any(name == each or name.startswith(each + ".") for each in FRESH)


@contextmanager
def _fresh_modules(finder: _Finder) -> Iterator[None]:
    """Inside, the decisions and the simulation are imported anew; outside, they are what they were."""
    before = {name: module for name, module in sys.modules.items() if _is_fresh(name)}
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if _is_fresh(each)]:
            del sys.modules[name]
        sys.modules.update(before)
        for each in FRESH:
            if each in before:
                setattr(runtime, each.rpartition(".")[2], before[each])


def load(mutant: Mutant) -> ModuleType:
    """The module `runtime.simulation.running` over the mutant's machines."""
    finder = _Finder(mutant)
    with _fresh_modules(finder):
        return importlib.import_module("runtime.simulation.running")


def simulator_of(name: str) -> Simulate:
    """`simulate` over the machines of the mutant of this name."""
    return cast("Simulate", load(MUTANTS[name]).simulate)
