"""A configuration as a tree in which every value knows where it was written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.settings.faults import COMMAND_LINE, Place


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number or truth value, as written. is_quoted: it stood in quotes, so it is never null."""

    place: Place
    text: str
    is_quoted: bool = False

    @property
    def is_null(self) -> bool:
        """True for what YAML reads as nothing."""
        return not self.is_quoted and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class ListNode:
    """Values in order."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    """Values by key. keys: where each key was written."""

    place: Place
    entries: dict[str, Node]
    keys: dict[str, Place]


Node = Scalar | ListNode | MapNode


def described(node: Node) -> str:
    """What a message says that it found."""
    match node:
        case Scalar():
            if node.is_null:
                return "nothing"
            return repr(node.text) if node.is_quoted else node.text
        case ListNode():
            return "a list"
        case MapNode():
            return "a block of keys"


def empty_map(place: Place = COMMAND_LINE) -> MapNode:
    """A block without keys."""
    return MapNode(place, {}, {})


def map_of(entries: Iterable[tuple[str, Node]], place: Place = COMMAND_LINE) -> MapNode:
    """A block made from values that bring their own places."""
    known = dict(entries)
    return MapNode(place, known, {key: node.place for key, node in known.items()})
