"""Writes docs/messages.md from runtime/messages.py: python docs/generate_messages.py [--check]."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "runtime" / "messages.py"
PAGE = ROOT / "docs" / "messages.md"
sys.path.insert(0, str(ROOT))

from tests.support.generated_page import write_or_check  # noqa: E402 - found by the line above

INTRODUCTION = """\
# Messages between actors

Generated from `runtime/messages.py` by `docs/generate_messages.py`; the docstrings there also give shapes, units and
limits. Every message is a frozen dataclass and names its run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One class of runtime/messages.py: its route (empty for a part of messages), what it says, its fields."""

    name: str
    route: str
    sentence: str
    fields: tuple[str, ...]


def entries(source: str) -> Iterator[Entry]:
    """The classes of the module in their order there."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        summary = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
        head, colon, rest = summary.partition(": ")
        is_message = bool(colon) and "->" in head
        yield Entry(
            name=node.name,
            route=head if is_message else "",
            sentence=rest if is_message else summary,
            fields=tuple(_field_names(node)),
        )


def page(source: str) -> str:
    """The whole page, for the text of runtime/messages.py."""
    found = tuple(entries(source))
    messages = [entry for entry in found if entry.route]
    parts = [entry for entry in found if not entry.route]
    lines = [INTRODUCTION, "| message | from → to | says | carries |", "|---|---|---|---|"]
    lines += [
        f"| `{entry.name}` | {entry.route.replace('->', '→')} | {_cell(entry.sentence)} | {_fields(entry)} |"
        for entry in messages
    ]
    if parts:
        lines += ["", "## Parts of messages", "", "| part | is | carries |", "|---|---|---|"]
        lines += [f"| `{entry.name}` | {_cell(entry.sentence)} | {_fields(entry)} |" for entry in parts]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check only say whether it is what would be written; the exit code."""
    return write_or_check(
        arguments, PAGE, lambda: page(SOURCE.read_text(encoding="utf-8")), "docs/generate_messages.py"
    )


def _field_names(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and "ClassVar" not in ast.unparse(item.annotation):
            yield ast.unparse(item.target)


def _fields(entry: Entry) -> str:
    return ", ".join(f"`{name}`" for name in entry.fields if name != "run")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
