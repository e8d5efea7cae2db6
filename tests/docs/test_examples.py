"""The example of an outside project is tested as its users would test it, in a folder of its own."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.fences import ROOT
from tests.docs.test_readme import run_bounded

EXAMPLE = ROOT / "docs" / "examples" / "outside_project"
SESSION_S = 180.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, out of reach of this one's settings."""
    return shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", ".*"))


def session(project: Path, *arguments: str) -> tuple[int, str]:
    return run_bounded([sys.executable, "-m", "pytest", "-q", *arguments], project, SESSION_S)


def test_its_tests_pass(project: Path) -> None:
    code, output = session(project)
    written = sum(len(re.findall(r"^def test_", file.read_text(), re.MULTILINE)) for file in project.rglob("test_*.py"))
    assert code == 0, output
    assert f"{written} passed" in output


def test_its_failures_end_as_its_page_says(project: Path) -> None:
    page = (project / "README.md").read_text()
    code, output = session(project, "-k", "harmless", "--fakeunity-fault", "version:0.9@handshake")
    assert code == 1, output
    shown = next(line for line in page.splitlines() if line.startswith("replay: pytest"))
    printed = next(line for line in output.splitlines() if line.startswith("replay: pytest"))
    assert printed.split()[2].strip("'") == shown.split()[2].strip("'")
    assert "basic --agents=4" in output
    assert "--fault=version:text=0.9@handshake" in output


def test_its_page_fits_a_screen_and_is_linked() -> None:
    assert len((EXAMPLE / "README.md").read_text().splitlines()) <= 40
    assert "examples/outside_project" in (ROOT / "docs" / "fakeunity.md").read_text()
