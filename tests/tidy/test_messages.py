"""Messages are frozen data whose docstrings say who sends them to whom, and the page about them is fresh."""

import ast
import re
import runpy
from collections.abc import Callable
from typing import cast

from tests.tidy.sources import ROOT, tree_of

MESSAGES = ROOT / "runtime" / "messages.py"
GENERATOR = ROOT / "docs" / "generate_messages.py"
PAGE = ROOT / "docs" / "messages.md"
ROUTE = re.compile(r"[A-Za-z]+( [a-z]+)?(, [A-Za-z]+)*( -> [A-Za-z]+( [a-z]+)?(, [A-Za-z]+)*)+: \S")
DECORATOR = "dataclass(frozen=True, slots=True, kw_only=True)"
DECORATOR_WITH_ARRAYS = "dataclass(frozen=True, slots=True, kw_only=True, eq=False)"
UNTYPED = frozenset({"Any", "object", "Callable"})


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree_of(MESSAGES).body if isinstance(node, ast.ClassDef)}


def names_in(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def parts() -> set[str]:
    """Classes that are not sent but are part of what is sent: the types of other classes' fields."""
    used = set[str]()
    for node in classes().values():
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                used |= names_in(item.annotation)
    return used & classes().keys()


def test_every_class_is_a_frozen_slotted_dataclass() -> None:
    assert len(classes()) > 10
    for name, node in classes().items():
        assert [ast.unparse(one) for one in node.decorator_list] in ([DECORATOR], [DECORATOR_WITH_ARRAYS]), name


def test_every_message_says_who_sends_it_to_whom() -> None:
    silent = [
        name
        for name, node in classes().items()
        if name not in parts() and not ROUTE.match(" ".join((ast.get_docstring(node) or "").split()))
    ]
    assert not silent, f"docstrings that do not open with `Sender -> Receiver: `: {silent}"


def test_every_message_names_its_run() -> None:
    nameless = [
        name
        for name, node in classes().items()
        if name not in parts()
        and "run" not in {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
    ]
    assert not nameless


def test_no_field_is_untyped() -> None:
    untyped = [
        f"{name}.{ast.unparse(item.target)}"
        for name, node in classes().items()
        for item in node.body
        if isinstance(item, ast.AnnAssign) and names_in(item.annotation) & UNTYPED
    ]
    assert not untyped


def test_the_page_about_messages_is_fresh() -> None:
    page = cast("Callable[[str], str]", runpy.run_path(str(GENERATOR))["page"])
    assert PAGE.is_file(), f"no {PAGE.name}: run python docs/generate_messages.py"
    assert PAGE.read_text(encoding="utf-8") == page(MESSAGES.read_text(encoding="utf-8")), (
        f"{PAGE.name} is stale: run python docs/generate_messages.py"
    )


def test_the_page_lists_messages_and_their_parts_apart() -> None:
    page = cast("Callable[[str], str]", runpy.run_path(str(GENERATOR))["page"])
    text = page(
        'class Grant:\n    """A -> B, C: go on,\n    or not | never.\n\n    More."""\n    run: str\n    steps: int\n'
        'class Part:\n    """One: of them."""\n    n: int\n'
    )
    assert "| `Grant` | A → B, C | go on, or not \\| never. | `steps` |\n" in text
    assert text.endswith("| `Part` | One: of them. | `n` |\n")
    assert not [line for line in text.splitlines() if line.startswith("| `Part`") and "→" in line]
