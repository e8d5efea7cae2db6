"""Heavy libraries are loaded only by the processes that need them."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.tidy.sources import PACKAGES, ROOT, module_name, name_of, python_files, tree_of

HEAVY = ("tensorflow", "keras", "torch", "onnx", "onnxruntime", "thespian", "grpc")
# Scripts of developers, which need tools that an installation lacks; and modules that run when they are imported.
NOT_IMPORTED = ("__main__", "generate")


def modules_of(*prefixes: str) -> tuple[str, ...]:
    """Our modules in these packages, as dotted names."""
    names = (module_name(path) for path in python_files(*PACKAGES))
    return tuple(
        name
        for name in names
        if name.rpartition(".")[2] not in NOT_IMPORTED
        and any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
    )


def loaded_by(modules: Iterable[str]) -> set[str]:
    """The heavy libraries that a fresh interpreter has loaded after importing `modules`."""
    code = (
        "import importlib, json, sys\n"
        f"for name in {list(modules)!r}: importlib.import_module(name)\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_only_trainers_import_tensorflow() -> None:
    faults = []
    for path in python_files("runtime", "fakeunity"):
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            faults += [f"{name_of(path)}: {name}" for name in names if name.split(".")[0] in {"tensorflow", "keras"}]
    assert not faults


@pytest.mark.parametrize(
    ("prefixes", "barred"),
    [
        pytest.param(("runtime", "fakeunity"), {"tensorflow", "keras", "torch"}, id="all but trainers: no TensorFlow"),
        pytest.param(("fakeunity",), {"tensorflow", "keras", "onnx", "onnxruntime", "thespian"}, id="fakeunity: light"),
        pytest.param(
            ("runtime.settings", "runtime.experience", "runtime.messages", "runtime.errors", "runtime.decisions"),
            set(HEAVY),
            id="vocabulary, settings and decisions: none",
        ),
        pytest.param(("runtime.simulation", "runtime.simulate"), set(HEAVY), id="simulations: none"),
    ],
)
def test_importing_loads_nothing_heavy(prefixes: tuple[str, ...], barred: set[str]) -> None:
    modules = modules_of(*prefixes)
    assert modules
    assert not loaded_by(modules) & barred


def test_a_heavy_library_is_seen_when_it_is_loaded() -> None:
    assert loaded_by(["grpc"]) == {"grpc"}


def test_importing_runtime_itself_imports_nothing_of_ours() -> None:
    code = "import runtime, sys; print([name for name in sys.modules if name.startswith(('runtime.', 'signal'))])"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "[]\n"
