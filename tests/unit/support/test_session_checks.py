"""A process that outlives the tests fails their session, and each failure can be reproduced by pasting a line."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.left_processes import RUN_MARKER, SESSION_MARKER, end_processes, left_processes

ROOT = Path(__file__).parents[3]
# Ends by itself, in case the test that starts it fails to end it.
WAITING_PROCESS = [sys.executable, "-c", "import sys, select; print('up', flush=True); select.select([], [], [], 60)"]

LEAVING_TEST = """
import os, subprocess, sys

def test_that_leaves_a_process(tmp_path):
    code = "import select; select.select([], [], [], 60)"
    subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], env={**os.environ, "UNITY_RL_RUN": "run-7"})
"""


def start_marked(environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(WAITING_PROCESS, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_only_processes_of_a_run_of_this_session_count_as_left(tmp_path: Path) -> None:
    token = f"token of {tmp_path}"
    ours = start_marked({SESSION_MARKER: token, RUN_MARKER: "run-1"})
    others = start_marked({SESSION_MARKER: "another session", RUN_MARKER: "run-1"})
    no_run = start_marked({SESSION_MARKER: token})
    try:
        left = left_processes(token)
        assert [process.pid for process in left] == [ours.pid]
        assert f"pid {ours.pid}, run run-1" in end_processes(left, grace_s=0.0)[0]
        assert ours.wait(timeout=10) < 0
        assert left_processes(token) == ()
    finally:
        for process in (ours, others, no_run):
            process.kill()
            process.communicate(timeout=10)


def run_inner_session(folder: Path, test: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A pytest session of its own, with this project's conftest, over one file."""
    (folder / "tests").mkdir()
    conftest = (ROOT / "tests" / "conftest.py").read_text().replace("GRACE_S = 10.0", "GRACE_S = 0.5")
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_inner.py").write_text(test)
    environment = {name: value for name, value in os.environ.items() if name not in {SESSION_MARKER, "PYTEST_ADDOPTS"}}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:fakeunity",
        "-o",
        "addopts=",
        *arguments,
    ]
    return subprocess.run(
        [*command, "test_inner.py"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_session_that_leaves_a_process_fails_and_names_it(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run_inner_session(tmp_path, LEAVING_TEST, *arguments)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout + result.stderr
    assert "1 passed" in result.stdout
    assert "processes left behind" in result.stdout
    assert "run run-7" in result.stdout


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_failure_ends_with_the_command_that_reproduces_it(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run_inner_session(tmp_path, "def test_wrong():\n    assert 1 == 2\n", *arguments)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout + result.stderr
    assert "reproduce: " in result.stdout
    assert "pytest test_inner.py::test_wrong   (commit " in result.stdout


def test_a_clean_session_passes_without_further_words(tmp_path: Path) -> None:
    result = run_inner_session(tmp_path, "def test_right():\n    assert 2 == 2\n")
    assert result.returncode == pytest.ExitCode.OK, result.stdout + result.stderr
    assert "left behind" not in result.stdout
    assert "reproduce" not in result.stdout
