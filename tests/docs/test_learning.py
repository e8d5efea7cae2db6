"""The page on learning is what its figures make, and its figures are of rows and sides that there are."""

from __future__ import annotations

import json
from pathlib import Path

from tests.learning.judgement import Run
from tests.learning.page import page
from tests.learning.rows import rows

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = json.loads((DOCS / "learning.json").read_text(encoding="utf-8"))


def test_the_page_is_what_the_figures_make() -> None:
    written = (DOCS / "learning.md").read_text(encoding="utf-8")
    assert written == page(FIGURES), "run python -m tests.learning.page docs/learning.json docs/learning.md"


def test_the_figures_are_of_rows_and_sides_that_there_are() -> None:
    known = {(row.name, side.name) for row in rows() for side in row.sides}
    measured = [Run.from_json(each) for each in FIGURES["runs"]]
    assert {(each.row, each.side) for each in measured} <= known
    assert len({(each.row, each.side, each.seed) for each in measured}) == len(measured)
