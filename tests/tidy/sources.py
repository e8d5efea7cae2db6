"""The files of this project, as the tidy tests see them: found by walking, generated ones known by their names."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("runtime", "trainers", "fakeunity")
HIDDEN_BUT_OURS = frozenset({".ci", ".gitignore", ".pre-commit-config.yaml"})
NOT_OURS = frozenset({"__pycache__", "build", "dist", "results", "venv"})


def name_of(path: Path) -> str:
    """The path as messages show it: relative to the project."""
    return path.relative_to(ROOT).as_posix()


def is_generated(path: Path) -> bool:
    """Whether a generator wrote the file; another test compares it with what the generator writes now."""
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


@functools.cache
def project_files() -> tuple[Path, ...]:
    """All text files of the project, sorted."""
    return tuple(sorted(path for path in _walk(ROOT) if _is_text(path)))


def python_files(*folders: str) -> tuple[Path, ...]:
    """Hand-written Python files under `folders` (all of the project without any), sorted."""
    found = (path for path in project_files() if path.suffix == ".py" and not is_generated(path))
    return tuple(path for path in found if not folders or name_of(path).split("/")[0] in folders)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    """The dotted name of a module of ours."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in NOT_OURS or path.suffix == ".egg-info":
            continue
        if path.name.startswith(".") and path.name not in HIDDEN_BUT_OURS:
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def _is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:4096]
