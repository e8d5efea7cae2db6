"""The page on performance is what its figures make, and no goal was left unmeasured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.page import TARGETS, Target, page, reached, results_of

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = json.loads((DOCS / "performance.json").read_text(encoding="utf-8"))


def test_the_page_is_what_the_figures_make() -> None:
    written = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert written == page(FIGURES), "run python -m tests.benchmarks.page docs/performance.json docs/performance.md"


@pytest.mark.parametrize("target", TARGETS, ids=[each.text for each in TARGETS])
def test_every_goal_was_measured(target: Target) -> None:
    assert reached(results_of(FIGURES), target) is not None
