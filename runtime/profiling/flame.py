"""A flame graph as one SVG file: width is time, the innermost functions are at the bottom."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Final

WIDTH: Final = 1200.0
ROW: Final = 17.0
LETTER: Final = 6.6
SHARE_MIN: Final = 0.0005


@dataclass(slots=True)
class _Frame:
    """One function at one place. count: looks that saw it there."""

    name: str
    count: int = 0
    inner: dict[str, _Frame] = field(default_factory=dict)


def flame_graph(stacks: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """The SVG for stacks with their counts; names show on the boxes that have room, and on all under the pointer."""
    root = _Frame("all")
    for stack, count in stacks:
        root.count += count
        frame = root
        for name in stack:
            frame = frame.inner.setdefault(name, _Frame(name))
            frame.count += count
    boxes = list(_boxes(root, 0.0, 0, max(1, root.count)))
    height = ROW * (1 + max((depth for _, _, _, depth in boxes), default=0))
    shapes = "".join(_shape(frame, left, width, depth, max(1, root.count)) for frame, left, width, depth in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" '
        f'font-family="monospace" font-size="11">{shapes}</svg>\n'
    )


def _boxes(frame: _Frame, left: float, depth: int, total: int) -> Iterator[tuple[_Frame, float, float, int]]:
    """Boxes from the outside in: frame, left edge, width, row. An own stack, as recursion ends at deep ones."""
    waiting = [(frame, left, depth)]
    while waiting:
        each, x, row = waiting.pop()
        yield each, x, WIDTH * each.count / total, row
        for inner in sorted(each.inner.values(), key=lambda one: one.name):
            if inner.count >= SHARE_MIN * total:
                waiting.append((inner, x, row + 1))
            x += WIDTH * inner.count / total


def _shape(frame: _Frame, left: float, width: float, depth: int, total: int) -> str:
    hue = 15 + zlib.crc32(frame.name.partition(":")[0].encode()) % 45
    room = int(width / LETTER)
    name = frame.name if len(frame.name) <= room else frame.name[-room:] if room > 3 else ""
    top = depth * ROW
    text = f'<text x="{left + 2:.1f}" y="{top + 12:.1f}">{escape(name)}</text>' if name else ""
    told = f"<title>{escape(frame.name)}: {frame.count} looks, {frame.count / total:.1%}</title>"
    box = f'<rect x="{left:.2f}" y="{top:.1f}" width="{max(0.1, width - 0.3):.2f}" height="{ROW - 1:g}"'
    return f'<g>{told}{box} fill="hsl({hue},80%,65%)"/>{text}</g>'
