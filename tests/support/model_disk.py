"""A small model of a disk that forgets: what a save asked of it, and every state that a loss of power may leave.

What was synchronised is there. Of the rest, each folder has kept some first of its changes, and each file any of a few
parts of its bytes, cut at sectors: none, the first sector, all but the first sector, or all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

SECTOR = 512

Tree = dict[str, "Tree | bytes"]


class PowerLostError(Exception):
    """The process that saves ends here."""


@dataclass(eq=False)
class Node:
    """A file or folder. changes: of a folder, (name, node or None for gone). synced: changes or bytes that are kept."""

    is_folder: bool
    changes: list[tuple[tuple[str, Node | None], ...]] = field(default_factory=list)
    content: bytes = b""
    synced: int = 0

    def entries(self, kept: int | None = None) -> dict[str, Node]:
        """The names in a folder after its first `kept` changes."""
        found: dict[str, Node] = {}
        for change in self.changes[:kept]:
            for name, node in change:
                if node is None:
                    found.pop(name, None)
                else:
                    found[name] = node
        return found


class ModelDisk:
    """A `trainers.disk.Disk` in memory. lives: operations until the process that saves is killed; None is for ever.

    watch: called after every operation; `states` may be asked there.
    """

    def __init__(self, *, syncs_files: bool = True, syncs_folders: bool = True) -> None:
        self.root = Node(is_folder=True)
        self.lives: int | None = None
        self.watch: Callable[[], None] = lambda: None
        self._syncs_files = syncs_files
        self._syncs_folders = syncs_folders

    def _did(self) -> None:
        self.watch()
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise PowerLostError

    def _find(self, path: Path) -> Node | None:
        node: Node | None = self.root
        for part in path.parts[1:]:
            node = node.entries().get(part) if node is not None else None
        return node

    def _at(self, path: Path) -> Node:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(2, "no such file", str(path))
        return node

    def _add(self, path: Path, node: Node) -> None:
        if self._find(path) is not None:
            raise FileExistsError(17, "exists", str(path))
        self._at(path.parent).changes.append(((path.name, node),))
        self._did()

    def make_folder(self, folder: Path) -> None:
        self._add(folder, Node(is_folder=True))

    def create(self, path: Path) -> ModelFile:
        node = Node(is_folder=False)
        self._add(path, node)
        return ModelFile(node, self._did, syncs=self._syncs_files)

    def sync_folder(self, folder: Path) -> None:
        node = self._at(folder)
        if self._syncs_folders:
            node.synced = len(node.changes)
        self._did()

    def rename(self, old: Path, new: Path) -> None:
        node = self._at(old)
        if self._find(new) is not None or old.parent != new.parent:
            raise OSError(39, "not empty, or elsewhere", str(new))
        self._at(old.parent).changes.append(((old.name, None), (new.name, node)))
        self._did()

    def remove(self, folder: Path) -> None:
        node = self._find(folder)
        if node is None:
            return
        for name, inner in sorted(node.entries().items()):
            if inner.is_folder:
                self.remove(folder / name)
            else:
                node.changes.append(((name, None),))
                self._did()
        self._at(folder.parent).changes.append(((folder.name, None),))
        self._did()

    def exists(self, path: Path) -> bool:
        return self._find(path) is not None

    def names(self, folder: Path) -> Sequence[str]:
        return sorted(self._at(folder).entries())

    def states(self) -> Iterator[Tree]:
        """Every tree that a loss of power may leave now."""
        nodes = list(_below(self.root))
        open_ones = [
            node for node in nodes if node.synced < (len(node.changes) if node.is_folder else len(node.content))
        ]
        for choice in itertools.product(*(_choices(node) for node in open_ones)):
            kept = dict(zip(map(id, open_ones), choice, strict=True))
            yield _tree(self.root, kept)


class ModelFile:
    """A new file of a `ModelDisk`."""

    def __init__(self, node: Node, did: Callable[[], None], *, syncs: bool) -> None:
        self._node = node
        self._did = did
        self._syncs = syncs

    def write(self, piece: bytes | memoryview) -> None:
        self._node.content += bytes(piece)
        self._did()

    def sync(self) -> None:
        if self._syncs:
            self._node.synced = len(self._node.content)
        self._did()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


def _below(node: Node) -> Iterator[Node]:
    """The node and all that is or was below it, once each."""
    seen: dict[int, Node] = {}
    left = [node]
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            left += [inner for change in one.changes for _, inner in change if inner is not None]
    yield from seen.values()


def _choices(node: Node) -> Sequence[int | bytes]:
    if node.is_folder:
        return range(node.synced, len(node.changes) + 1)
    safe, new = node.content[: node.synced], node.content[node.synced :]
    torn = {b"", new[:SECTOR], bytes(min(SECTOR, len(new))) + new[SECTOR:], new}
    return sorted(safe + part for part in torn)


def _tree(node: Node, kept: dict[int, int | bytes]) -> Tree:
    found: Tree = {}
    count = kept.get(id(node))
    for name, inner in sorted(node.entries(count if isinstance(count, int) else None).items()):
        content = kept.get(id(inner), inner.content)
        found[name] = _tree(inner, kept) if inner.is_folder else content if isinstance(content, bytes) else b""
    return found


def put(tree: Tree, folder: Path) -> None:
    """Writes a state as real files, so that it can be read as a run would."""
    folder.mkdir()
    for name, inner in tree.items():
        if isinstance(inner, bytes):
            (folder / name).write_bytes(inner)
        else:
            put(inner, folder / name)


def load(tree: Tree) -> ModelDisk:
    """A disk as it is after a start from a state: all of it is durable."""
    disk = ModelDisk()

    def grow(node: Node, inner: Tree) -> None:
        for name, each in inner.items():
            below = Node(is_folder=not isinstance(each, bytes))
            if isinstance(each, bytes):
                below.content, below.synced = each, len(each)
            else:
                grow(below, each)
            node.changes.append(((name, below),))
        node.synced = len(node.changes)

    grow(disk.root, tree)
    return disk
