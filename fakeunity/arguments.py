"""A player's command line, read as a Unity build reads its own: what is not for it is let pass.

Words with two dashes are ours, and a misspelt one is an error. Words with one dash are Unity's (`-batchmode`,
`-logFile X`, `-screen-width 640`): all are let pass with the value that follows, and only -logFile is obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fakeunity.errors import SpecError
from fakeunity.nearest import unknown_word
from fakeunity.spec import READERS

PLAYER_KEYS = ("mlagents_port", "port", "env_id", "incarnation", "connect_timeout_s")
FLAGS = ("list", "help", "version", "tolerant")
UNITY_FLAGS_WITHOUT_VALUE = frozenset(("-nographics", "-batchmode", "-quit", "-popupwindow", "-nolog"))


@dataclass(frozen=True, slots=True)
class Arguments:
    """words: what is no option, in order. options: pairs of our keys, `_` in them, in order; flags: those given."""

    words: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    flags: frozenset[str]
    log_file: str | None


def split_arguments(argv: Sequence[str]) -> Arguments:
    """`argv` without the program's name, sorted. Raises SpecError for an unknown `--key` or one without its value."""
    words: list[str] = []
    options: list[tuple[str, str]] = []
    flags: set[str] = set()
    log_file: str | None = None
    left = list(reversed(argv))
    while left:
        word = left.pop()
        has_value = bool(left) and not left[-1].startswith("-")
        if word.startswith("--"):
            key, equals, value = word[2:].partition("=")
            if key in FLAGS and not equals:
                flags.add(key)
                continue
            options.append((_known_key(key), value if equals else _value(word, left)))
        elif word.startswith("-") and len(word) > 1:
            if word.lower() == "-logfile" and left:
                log_file = left.pop()
            elif has_value and word.lower() not in UNITY_FLAGS_WITHOUT_VALUE:
                left.pop()
        else:
            words.append(word)
    return Arguments(tuple(words), tuple(options), frozenset(flags), log_file)


def _known_key(key: str) -> str:
    known = (*PLAYER_KEYS, *READERS)
    name = key.replace("-", "_")
    if name not in known:
        raise SpecError(unknown_word("option", f"--{key}", [f"--{k.replace('_', '-')}" for k in (*known, *FLAGS)]))
    return name


def _value(word: str, left: list[str]) -> str:
    # A value may begin with one dash, as in --seed -5; two dashes are the next option.
    if not left or left[-1].startswith("--"):
        raise SpecError(f"{word} needs a value")
    return left.pop()
