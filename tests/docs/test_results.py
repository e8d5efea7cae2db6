"""The page on what a run leaves names every curve that learning writes."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.tidy.sources import python_files, tree_of

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
GROUPS = ("Losses/", "Policy/", "Environment/")
NOT_OF_A_RUN = {"Environment/Global Step", "Environment/Time Elapsed"}  # A PPOTrainer's, in a loop of one's own.


def tags() -> set[str]:
    """The curves whose whole name stands in the code of learning."""
    return {
        node.value
        for path in python_files("trainers")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(GROUPS)
        if not node.value.endswith("/") and "`" not in node.value
    } - NOT_OF_A_RUN


def test_every_curve_of_learning_is_in_the_table() -> None:
    assert {"Losses/Cloning Loss", "Losses/Pretraining Loss", "Losses/Curiosity Forward Loss"} <= tags()
    page = PAGE.read_text(encoding="utf-8")
    assert not [tag for tag in sorted(tags()) if f"`{tag}`" not in page]
