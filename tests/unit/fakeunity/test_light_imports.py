"""What is imported by whom: tests that use the plugin, and commands that only answer a question, load nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = ("tensorflow", "onnxruntime", "thespian", "onnx", "torch")


def loaded_by(*imports: str) -> set[str]:
    program = f"import sys\nimport {', '.join(imports)}\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return {name.partition(".")[0] for name in found.stdout.split()}


@pytest.mark.parametrize(
    "module",
    ["fakeunity", "fakeunity.testing.plugin", "fakeunity.testing.expected", "fakeunity.grpc_player", "fakeunity.cli"],
)
def test_neither_player_nor_plugin_loads_a_learning_library(module: str) -> None:
    assert not loaded_by(module) & set(HEAVY)


def test_commands_that_only_answer_load_neither_numpy_nor_grpc() -> None:
    assert not loaded_by("fakeunity.cli", "fakeunity.spec") & {"numpy", "grpc", "google"}


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = "import sys, fakeunity; print(*(m for m in sys.modules if m.startswith('fakeunity')))"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == ["fakeunity"]
