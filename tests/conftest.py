"""What holds for every test: Hypothesis profiles, markers by folder, a line to reproduce, no process left behind."""

import functools
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.support.left_processes import end_processes, left_processes, mark_session

ROOT = Path(__file__).parents[1]
FOLDER_MARKERS = ("actors", "integration", "docs")
LEFT_PROCESS_GRACE_S = 10.0
SESSION = mark_session()
# A shell has what it runs in the background ignore Ctrl-C, and whatever that starts as well: here it is to be tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
LEFT_KEY = pytest.StashKey[tuple[str, ...]]()

# No deadline per example: cores are shared, and a slow machine is not a wrong result.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "night",
    max_examples=5000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
hypothesis.settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, so that `-m actors` needs no decorator in each file."""
    tests = ROOT / "tests"
    for item in items:
        folder = item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""
        if folder in FOLDER_MARKERS:
            item.add_marker(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End each failure with a line to paste."""
    report = yield
    if report.failed:
        report.sections.append(("reproduce", reproduce_line(item.nodeid)))
    return report


def reproduce_line(node_id: str) -> str:
    """The shell command that runs one test again as it ran here, and the commit."""
    seed = os.environ.get("PYTHONHASHSEED", "random")
    hash_seed = "" if seed == "random" else f"PYTHONHASHSEED={seed} "
    return f"reproduce: {hash_seed}HYPOTHESIS_PROFILE={PROFILE} pytest {shlex.quote(node_id)}   (commit {_commit()})"


@functools.cache
def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return answer.stdout.strip() or "unknown"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if a process of a run outlived the tests. Under xdist only the controller looks, at the end."""
    if hasattr(session.config, "workerinput"):
        return
    left = end_processes(left_processes(SESSION), grace_s=LEFT_PROCESS_GRACE_S)
    session.config.stash[LEFT_KEY] = left
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the processes that were left."""
    left = config.stash.get(LEFT_KEY, ())
    if left:
        terminalreporter.section("processes left behind", red=True, bold=True)
        terminalreporter.line(
            f"{len(left)} process(es) of a run were alive {LEFT_PROCESS_GRACE_S:g} s after the last test."
        )
        terminalreporter.line("Each test must end what it starts; these were killed:")
        for line in left:
            terminalreporter.line(f"  {line}")
