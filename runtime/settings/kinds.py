"""What a value may be: one `Kind` for each sort of value, used for files and command line alike."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar, cast

from runtime.learner_rules import INTEGER_MAX, Real, Whole
from runtime.settings.faults import listed
from runtime.settings.nodes import ListNode, Node, Scalar

T = TypeVar("T")

DIGITS_MAX = 64
_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d{1,4})?", re.ASCII)
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE | re.ASCII)
RUN_ID_CHARACTERS_MAX = 120


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """allowed: what a message says is allowed. parse: the value of a node; raises ValueError for any other node."""

    allowed: str
    parse: Callable[[Node], T]


def _text_of(node: Node) -> str:
    if not isinstance(node, Scalar) or node.is_null:
        raise ValueError
    return node.text


def _decimal_of(node: Node) -> Decimal:
    text = _text_of(node).strip()
    if len(text) > DIGITS_MAX or _NUMBER.fullmatch(text) is None:
        raise ValueError
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        raise ValueError  # YAML reads 010 as eight, people read it as ten
    return Decimal(text.replace("_", ""))


def integer(*, at_least: int, at_most: int = INTEGER_MAX, also: int | None = None) -> Kind[int]:
    """Whole numbers in a range, `1e3` and `5.0e5` included. also: one more that has a meaning of its own."""
    return whole(Whole(at_least=at_least, at_most=at_most, also=also))


def whole(rule: Whole) -> Kind[int]:
    """The whole numbers of a rule, `1e3` and `5.0e5` included."""

    def parse(node: Node) -> int:
        number = _decimal_of(node)
        # Compared before it is converted: 1e9999 as an int would be ten thousand digits long.
        if not -INTEGER_MAX <= number <= INTEGER_MAX or number != number.to_integral_value():
            raise ValueError
        if not rule.admits(int(number)):
            raise ValueError
        return int(number)

    return Kind(rule.allowed, parse)


def number(*, above: float | None = None, at_least: float | None = None, at_most: float | None = None) -> Kind[float]:
    """Finite numbers in a range."""
    return real(Real(above=above, at_least=at_least, at_most=at_most))


def real(rule: Real) -> Kind[float]:
    """The finite numbers of a rule."""

    def parse(node: Node) -> float:
        value = float(_decimal_of(node))
        if not rule.admits(value):
            raise ValueError
        return value

    return Kind(rule.allowed, parse)


def boolean() -> Kind[bool]:
    """True or false, in any of YAML's spellings."""

    def parse(node: Node) -> bool:
        word = _text_of(node).strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError
        return word in _TRUE

    return Kind("true or false", parse)


def choice(words: Collection[T]) -> Kind[T]:
    """One of a few words, given as the strings of a Literal type."""

    def parse(node: Node) -> T:
        word = _text_of(node)
        if word not in words:
            raise ValueError
        return cast("T", word)

    return Kind(f"one of {listed([str(word) for word in words])}", parse)


def text(allowed: str = "a text") -> Kind[str]:
    """Any text but an empty one and the word none, which people write where YAML wants null."""

    def parse(node: Node) -> str:
        word = _text_of(node)
        is_none = word.lower() == "none" and not (isinstance(node, Scalar) and node.is_quoted)
        if not word.strip() or "\0" in word or is_none:
            raise ValueError
        return word

    return Kind(f"{allowed} (for none, write null or leave the key out)", parse)


def run_id() -> Kind[str]:
    """The name of a run: one folder name, on every system."""

    def parse(node: Node) -> str:
        word = _text_of(node)
        is_name = 0 < len(word) <= RUN_ID_CHARACTERS_MAX and word.isprintable() and not set(word) & set('/\\:*?"<>|')
        if not is_name or word[0] in ". -" or word[-1] in ". " or _RESERVED.fullmatch(word):
            raise ValueError
        return word

    return Kind('one folder name: no / \\ : * ? " < > |, no leading dot or dash, no trailing dot or blank', parse)


def address() -> Kind[str]:
    """An IP address to listen on."""

    def parse(node: Node) -> str:
        return str(ipaddress.ip_address(_text_of(node)))

    return Kind("an IP address such as 0.0.0.0 or ::", parse)


def texts() -> Kind[tuple[str, ...]]:
    """A list of texts; null is an empty one."""

    def parse(node: Node) -> tuple[str, ...]:
        match node:
            case ListNode(items=items):
                return tuple("" if isinstance(item, Scalar) and item.is_null else _text_of(item) for item in items)
            case Scalar(is_null=True):
                return ()
            case _:
                raise ValueError(node)

    return Kind("a list of texts, such as [--level, '3']", parse)


def intervals() -> Kind[tuple[tuple[float, float], ...]]:
    """A list of pairs of numbers, the lower one first."""
    bound = number()

    def parse_pair(node: Node) -> tuple[float, float]:
        match node:
            case ListNode(items=(first, second)):
                low, high = bound.parse(first), bound.parse(second)
                if low <= high:
                    return low, high
        raise ValueError(node)

    def parse(node: Node) -> tuple[tuple[float, float], ...]:
        match node:
            case ListNode(items=items) if items:
                return tuple(parse_pair(item) for item in items)
            case _:
                raise ValueError(node)

    return Kind("a list of pairs of numbers, the lower first, such as [[0, 1], [3, 4]]", parse)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """The same, or null."""

    def parse(node: Node) -> T | None:
        if isinstance(node, Scalar) and node.is_null:
            return None
        return kind.parse(node)

    return Kind(kind.allowed if "null" in kind.allowed else f"{kind.allowed}, or null", parse)
