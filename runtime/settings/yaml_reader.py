"""Reads YAML into nodes that know their lines, and says in one sentence what is wrong with a file it cannot read.

Only texts, lists and blocks exist here: what a text means is decided where it is used, so `1e3` and `1000` are the same
number, and no tag builds an object. Size, depth and the number of values after aliases are limited, because a file may
come from anywhere.
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final, NoReturn, Protocol

import yaml

from runtime.settings.faults import Fault, Findings, Place, refuse
from runtime.settings.nodes import ListNode, MapNode, Node, Scalar

BYTES_MAX = 256 * 1024
DEPTH_MAX = 40
VALUES_MAX = 20_000


class Mark(Protocol):
    """Where PyYAML saw something. line: from 0."""

    line: int


_CORE = "tag:yaml.org,2002:"
# Texts that YAML reads as dates or as `=` are texts to us; they are listed because the resolver marks them so.
_PLAIN_TAGS = frozenset(_CORE + name for name in ("null", "bool", "int", "float", "str", "timestamp", "value", "merge"))
_MERGE = _CORE + "merge"


CONFIGURATION: Final = "a `behaviors:` block"


def read_file(path: Path, *, advice: str = "check the path", holds: str = CONFIGURATION) -> MapNode:
    """The blocks of a YAML file. Raises FaultsError, all faults at once.

    advice: for who names a file that is not there. holds: what is expected in it, for who gives an empty one.
    """
    place = Place(str(path), 0, "")
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        refuse(place, f"there is no such file; {advice}")
    except IsADirectoryError:
        refuse(place, "this is a folder; give the path of a YAML file")
    except (OSError, ValueError) as error:
        refuse(place, f"the file cannot be read: {getattr(error, 'strerror', None) or error}")
    return read_yaml(raw, path.name, holds=holds)


def read_yaml(raw: bytes, file: str, *, holds: str = CONFIGURATION) -> MapNode:
    """The blocks of a YAML text. file: its name in messages. Raises FaultsError, all faults at once."""
    place = Place(file, 0, "")
    if len(raw) > BYTES_MAX:
        refuse(place, f"the file is larger than {BYTES_MAX // 1024} KiB; a configuration is a few pages of YAML")
    text = _decode(raw, file)
    _check_depth(text, file)
    root = _compose(text, file)
    if root is None:
        refuse(Place(file, 1, ""), f"the file is empty (comments aside); expected {holds}")
    findings = Findings()
    node = _Converter(file, findings).convert(root, "", 0)
    findings.raise_if_any()
    if not isinstance(node, MapNode):
        found = "blocks of keys such as `behaviors:`" if holds == CONFIGURATION else holds
        refuse(node.place, f"expected {found} at the top of the file")
    return node


def _decode(raw: bytes, file: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in raw[:200]:
        refuse(Place(file, 1, ""), "the file is UTF-16 or binary; expected text: save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(Place(file, line, ""), f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8")
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        refuse(Place(file, line, ""), f"the character {found.group()!r} is not allowed in YAML; remove it")
    return text


def _check_depth(text: str, file: str) -> None:
    """Looks at the events first: composing is recursive and must not meet a thousand brackets."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    refuse(Place(file, _line(event.start_mark), ""), f"blocks are nested deeper than {DEPTH_MAX}")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(error, text, file)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML lets a few errors of Python itself through, such as an escape beyond the last code point.
        refuse(Place(file, 0, ""), f"this is not YAML: {error}")


def _compose(text: str, file: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(error, text, file)
    return node


def _refuse_syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    line = _line(mark)
    lines = text.splitlines()
    content = lines[line - 1] if 0 < line <= len(lines) else ""
    indent = content[: len(content) - len(content.lstrip())]
    if "\t" in indent:
        refuse(Place(file, line, ""), "the line is indented with a tab; YAML is indented with spaces")
    problem = " ".join(str(error.problem or error.context or "cannot be parsed").split())
    refuse(Place(file, line, ""), f"this is not YAML: {problem}; check indentation, colons and quotes")


def _line(mark: Mark | None) -> int:
    return 0 if mark is None else mark.line + 1


class _Converter:
    """Turns PyYAML's nodes into ours; counts values, so that aliases of aliases cannot fill the memory."""

    def __init__(self, file: str, findings: Findings) -> None:
        self._file = file
        self._findings = findings
        self._values = 0

    def convert(self, node: yaml.Node, key: str, depth: int) -> Node:
        place = Place(self._file, _line(node.start_mark), key)
        self._values += 1
        if self._values > VALUES_MAX:
            refuse(place, f"the file holds more than {VALUES_MAX} values once its aliases are followed")
        if depth > DEPTH_MAX:
            refuse(place, "an alias stands inside of what it names, or blocks are nested too deep")
        match node:
            case yaml.ScalarNode():
                self._check_tag(node, place, _PLAIN_TAGS)
                return Scalar(place, str(node.value), is_quoted=node.style is not None)
            case yaml.SequenceNode():
                self._check_tag(node, place, {_CORE + "seq"})
                items = enumerate(node.value)
                return ListNode(place, tuple(self.convert(item, f"{key}[{i}]", depth + 1) for i, item in items))
            case yaml.MappingNode():
                self._check_tag(node, place, {_CORE + "map"})
                return self._convert_map(node, place, depth)
        raise AssertionError(node)

    def _check_tag(self, node: yaml.Node, place: Place, allowed: set[str] | frozenset[str]) -> None:
        if node.tag not in allowed:
            tag = str(node.tag).replace(_CORE, "!!")
            self._findings.add(Fault(place=place, problem="is a tag; tags are not used here: remove it", value=tag))

    def _convert_map(self, node: yaml.MappingNode, place: Place, depth: int) -> MapNode:
        own: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[MapNode] = []
        for key_node, value_node in node.value:
            line = _line(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self._findings.add(Fault(place=Place(self._file, line, place.key), problem="a key must be a text"))
                continue
            name = str(key_node.value)
            at = Place(self._file, line, f"{place.key}.{name}" if place.key else name)
            value = self.convert(value_node, at.key, depth + 1)
            if key_node.tag == _MERGE:
                merged += self._merge_sources(value)
            elif name in own:
                problem = f"the key stands twice in this block, first in line {keys[name].line}; remove one of them"
                self._findings.add(Fault(place=at, problem=problem))
            else:
                own[name], keys[name] = value, at
        for source in merged:
            for name, value in source.entries.items():
                if name not in own:
                    own[name], keys[name] = value, source.keys[name]
        return MapNode(place, own, keys)

    def _merge_sources(self, value: Node) -> list[MapNode]:
        sources = value.items if isinstance(value, ListNode) else (value,)
        for source in sources:
            if not isinstance(source, MapNode):
                self._findings.add(Fault(place=source.place, problem="`<<` takes a block, or a list of blocks"))
        return [source for source in sources if isinstance(source, MapNode)]
