"""Tests neither sleep nor patch, and what runs in an actor does not sleep either."""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.tidy.sources import name_of, python_files, tree_of

# Files of runtime and trainers that may sleep, and why.
SLEEPS_ALLOWED: Mapping[str, str] = {
    "runtime/players/server.py": "nobody tells when a listener that another process holds is gone",
    "runtime/players/memory_link.py": "a bundled player that is asked to answer late, never longer than the time-out",
    "runtime/record_demo.py": "no time at all: the loop sees Ctrl-C there beside players that never wait",
}
PATCHING = frozenset({"unittest.mock", "mock", "pytest_mock"})


def full_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported or used as `module.name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)


def sleeps(tree: ast.Module) -> list[int]:
    return sorted({line for line, name in full_names(tree) if name in {"time.sleep", "asyncio.sleep"}})


def patches(tree: ast.Module) -> list[int]:
    return sorted(
        {
            line
            for line, name in full_names(tree)
            if name in PATCHING or name.endswith(("monkeypatch.setattr", "mocker"))
        }
    )


def test_tests_do_not_sleep() -> None:
    faults = [f"{name_of(path)}:{line}" for path in python_files("tests") for line in sleeps(tree_of(path))]
    assert not faults, "wait for an event with a deadline instead:\n" + "\n".join(faults)


def test_runtime_and_trainers_do_not_sleep_but_where_a_reason_is_given() -> None:
    asleep = {name_of(path): sleeps(tree_of(path)) for path in python_files("runtime", "trainers")}
    faults = [f"{name}:{line}" for name, lines in asleep.items() for line in lines if name not in SLEEPS_ALLOWED]
    assert not faults, "wait for an event with a deadline, or give a reason in SLEEPS_ALLOWED:\n" + "\n".join(faults)
    assert not [name for name in SLEEPS_ALLOWED if not asleep.get(name)], "no longer needed"


def test_tests_do_not_patch() -> None:
    faults = [f"{name_of(path)}:{line}" for path in python_files("tests") for line in patches(tree_of(path))]
    assert not faults, "give the code a parameter, and the test a fake:\n" + "\n".join(faults)


@pytest.mark.parametrize(
    "source",
    ["import time\ntime.sleep(1)", "import os\nfrom time import sleep", "import asyncio\nawait asyncio.sleep(0.1)"],
)
def test_each_way_to_sleep_is_found(source: str) -> None:
    assert sleeps(ast.parse(source)) == [2]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nfrom unittest.mock import patch",
        "import os\nimport unittest.mock",
        "x = 1\nmonkeypatch.setattr(a, 'b', 2)",
    ],
)
def test_each_way_to_patch_is_found(source: str) -> None:
    assert patches(ast.parse(source)) == [2]
