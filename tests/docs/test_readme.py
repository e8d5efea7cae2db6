"""What the documentation shows runs: Python snippets whole, commands as far as they only answer a question."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.docs.fences import README, ROOT, Block, blocks, blocks_in, commands_in

SNIPPET_TIMEOUT_S = 180.0
QUESTION_TIMEOUT_S = 60.0
QUESTIONS = frozenset({"--help", "--list", "--version"})


def run_bounded(command: Sequence[str], folder: Path, timeout_s: float) -> tuple[int, str]:
    """Exit code and output of a command in `folder`; one that takes longer is killed with all it started, and fails."""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=10)
        pytest.fail(f"{shlex.join(command)} has not ended after {timeout_s:g} s; it printed:\n{output}")
    return process.returncode, output


def module_commands() -> list[tuple[str, list[str]]]:
    """Place and words of each `python -m` command that a console block shows."""
    found = [(block.place, shlex.split(command)) for block in blocks("console") for command in commands_in(block.body)]
    return [(place, words) for place, words in found if words[:2] == ["python", "-m"]]


def questions() -> list[tuple[str, list[str]]]:
    return [(place, words) for place, words in module_commands() if QUESTIONS & set(words)]


def test_there_is_a_readme_with_a_title() -> None:
    assert README.is_file(), "README.md is missing: users have nothing to start from"
    assert README.read_text(encoding="utf-8").startswith("# "), "README.md does not open with a title"


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.place)
def test_python_snippet_runs(block: Block, tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(block.body, encoding="utf-8")
    code, output = run_bounded([sys.executable, snippet.name], tmp_path, SNIPPET_TIMEOUT_S)
    assert code == 0, f"the snippet at {block.place} ended with {code}:\n{output}"


@pytest.mark.parametrize(("place", "words"), questions(), ids=lambda value: value if isinstance(value, str) else None)
def test_command_that_asks_is_answered(place: str, words: list[str], tmp_path: Path) -> None:
    code, output = run_bounded([sys.executable, *words[1:]], tmp_path, QUESTION_TIMEOUT_S)
    assert code == 0, f"{shlex.join(words)} at {place} ended with {code}:\n{output}"
    assert output.strip(), f"{shlex.join(words)} at {place} printed nothing"


def test_modules_that_commands_name_exist() -> None:
    ours = {"runtime", "trainers", "fakeunity"}
    named = {(place, words[2]) for place, words in module_commands() if words[2].split(".")[0] in ours}
    missing = [f"{place}: {module}" for place, module in sorted(named) if find_spec(module) is None]
    assert not missing


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_yaml_parses(block: Block) -> None:
    assert yaml.safe_load(block.body) is not None, block.place


def test_blocks_are_found_with_their_line_and_without_indentation() -> None:
    python = "# T\n\n```python\nprint(1)\n```\n"
    console = "1. then\n\n   ```console\n   $ a \\\n     b\n   out\n   $ c\n   ```\n\n"
    text = f"{python}{console}```\nplain\n```\n"
    found = list(blocks_in(text, "page"))
    assert [(block.place, block.tag) for block in found] == [
        ("page:3", "python"),
        ("page:8", "console"),
        ("page:15", ""),
    ]
    assert found[0].body == "print(1)\n"
    assert [command.split() for command in commands_in(found[1].body)] == [["a", "b"], ["c"]]


def test_a_snippet_that_hangs_is_ended_and_shown(tmp_path: Path) -> None:
    hanging = "import select; print('hanging', flush=True); select.select([], [], [], 60)"
    with pytest.raises(pytest.fail.Exception, match="has not ended after 2 s; it printed:\nhanging"):
        run_bounded([sys.executable, "-c", hanging], tmp_path, 2.0)
