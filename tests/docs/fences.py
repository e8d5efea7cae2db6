"""The fenced blocks of the documentation, with where they stand."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<tag>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its file and first line as text to show, its tag (may be empty) and its body."""

    place: str
    tag: str
    body: str


def documents() -> tuple[Path, ...]:
    """README.md, CONTRIBUTING.md and all pages under docs/ that exist."""
    first = [path for path in (README, ROOT / "CONTRIBUTING.md") if path.is_file()]
    return (*first, *sorted((ROOT / "docs").rglob("*.md")))


def blocks_in(text: str, name: str) -> Iterator[Block]:
    """The fenced blocks of one document, without the indentation of their fence."""
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        body = re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        yield Block(place=f"{name}:{line}", tag=match["tag"], body=body)


def blocks(tag: str) -> tuple[Block, ...]:
    """All blocks of the documentation with this tag."""
    found = (block for path in documents() for block in blocks_in(path.read_text(encoding="utf-8"), _name(path)))
    return tuple(block for block in found if block.tag == tag)


def commands_in(body: str) -> tuple[str, ...]:
    """What a console block tells to type: lines after `$ `, continued ones joined."""
    joined = body.replace("\\\n", " ")
    return tuple(line.removeprefix("$ ").strip() for line in joined.splitlines() if line.startswith("$ "))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
