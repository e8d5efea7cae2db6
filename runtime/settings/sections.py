"""Reads one block of a configuration out of its layers: what the command line says over the file over a default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from runtime.learner_rules import BlockRules
from runtime.settings.faults import Fault, Findings, Place, listed, nearest
from runtime.settings.kinds import Kind, real, whole
from runtime.settings.nodes import MapNode, Node, Scalar, described

T = TypeVar("T")


class Section:
    """One block. layers: lowest first; a value that a higher layer covers is checked all the same.

    Take every known key, then call `close`, which reports the unknown ones.
    """

    def __init__(self, layers: Sequence[MapNode], findings: Findings) -> None:
        self._layers = tuple(layers)
        self._findings = findings
        self._known: dict[str, None] = {}
        self._refused: set[str] = set()

    def take(self, key: str, kind: Kind[T], default: T) -> T:
        """The value of `key`, or `default` where no layer has a good one. Faults are logged."""
        self._known[key] = None
        value = default
        for layer in self._layers:
            node = layer.entries.get(key)
            if node is None:
                continue
            try:
                value = kind.parse(node)
            except ValueError:
                self._refused.add(key)
                self._findings.add(_not_allowed(node, layer.keys[key], kind.allowed))
        return value

    def whole(self, key: str, rules: BlockRules, default: int) -> int:
        """The whole number of `key`, by its rule."""
        return self.take(key, whole(rules.whole[key]), default)

    def real(self, key: str, rules: BlockRules, default: float) -> float:
        """The number of `key`, by its rule."""
        return self.take(key, real(rules.real[key]), default)

    def place(self, key: str) -> Place | None:
        """Where the value of `key` that counts was written; None when it was not."""
        places = [layer.keys[key] for layer in self._layers if key in layer.entries]
        return places[-1] if places else None

    def is_null(self, key: str) -> bool:
        """True when `key` is absent, or null in the highest layer that has it."""
        found = [layer.entries[key] for layer in self._layers if key in layer.entries]
        return not found or _is_null(found[-1])

    def is_good(self, *keys: str) -> bool:
        """True when none of these keys was taken with a fault, so that a rule about them can be checked."""
        return self._refused.isdisjoint(keys)

    def child(self, key: str) -> Section:
        """The block under `key`; an absent one is empty."""
        return Section(self.child_layers(key), self._findings)

    def child_layers(self, key: str) -> list[MapNode]:
        """The blocks under `key`, lowest layer first; none of those below a null."""
        self._known[key] = None
        found = []
        for layer in self._layers:
            node = layer.entries.get(key)
            if isinstance(node, MapNode):
                found.append(node)
            elif node is not None and _is_null(node):
                found.clear()  # null says that there is no such block, whatever lies below
            elif node is not None:
                self._findings.add(_not_allowed(node, layer.keys[key], "a block of keys"))
        return found

    def refuse(self, key: str, reason: str) -> None:
        """Refuses any value of `key` but null: what we cannot do is never ignored."""
        self._known[key] = None
        for layer in self._layers:
            node = layer.entries.get(key)
            if node is not None and not _is_null(node):
                self._findings.add(Fault(place=layer.keys[key], problem=reason))

    def refuse_value(self, key: str, value: str, reason: str) -> bool:
        """Refuses one value of `key` by its name. True when it stood there."""
        found = False
        for layer in self._layers:
            node = layer.entries.get(key)
            if isinstance(node, Scalar) and node.text == value:
                self._findings.add(Fault(place=layer.keys[key], problem=reason, value=value))
                found = True
        return found

    def names(self) -> list[str]:
        """All keys of all layers, in the order of their first appearance."""
        return list(dict.fromkeys(key for layer in self._layers for key in layer.entries))

    def ignore(self, key: str) -> None:
        """Allows `key` without reading it."""
        self._known[key] = None

    def close(self) -> None:
        """Reports the keys that nobody took."""
        for layer in self._layers:
            for key, place in layer.keys.items():
                if key not in self._known:
                    close = nearest(key, self._known)
                    allowed = None if close else listed(sorted(self._known))
                    self._findings.add(Fault(place=place, problem="unknown key", allowed=allowed, nearest=close))


def _not_allowed(node: Node, key_place: Place, allowed: str) -> Fault:
    """The line is the value's: that is what has to be changed. A merged value keeps the key it was written under."""
    line = node.place.line if isinstance(node, Scalar) and node.place.line else key_place.line
    place = Place(key_place.file, line, key_place.key)
    return Fault(place=place, problem="is not allowed", value=described(node), allowed=allowed)


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null
