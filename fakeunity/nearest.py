"""The known word a user most likely meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def nearest(word: str, known: Iterable[str]) -> str:
    """The closest of `known` (at least one), the first of equals: even a bad guess shows what a name looks like."""
    return max(known, key=lambda other: SequenceMatcher(a=word.lower(), b=other.lower()).ratio())


def unknown_word(kind: str, word: str, known: Iterable[str]) -> str:
    """A sentence for an unknown `word`: what it was taken for, the nearest known, and all of them."""
    names = list(known)
    return f"unknown {kind} {word!r}; did you mean {nearest(word, names)!r}? Known: {', '.join(names)}"
