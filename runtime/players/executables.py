"""Where a player's executable is, given what users write for it on each system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import UsageError

_SUFFIXES = (".x86_64", ".x86", ".exe", ".app")


def find_executable(path: str | os.PathLike[str], *, platform: str = sys.platform) -> Path:
    """The file to launch for `path`, absolute.

    `path` may lack its suffix (`.x86_64`, `.x86`, `.exe`, `.app`), carry another system's, or be a build's folder.
    Raises UsageError that says what was tried, or that the file may not be executed.
    """
    tried = list(dict.fromkeys(_candidates(Path(path).expanduser(), platform)))
    found = next((each for each in tried if each.is_file()), None)
    if found is None:
        raise UsageError(
            f"player not found: {os.fspath(path)!r}; tried {', '.join(str(each) for each in tried)}. "
            "Give the path of the executable that Unity built."
        )
    if platform != "win32" and not os.access(found, os.X_OK):
        raise UsageError(f"player {str(found)!r} may not be executed; allow it with: chmod -R 755 {str(found)!r}")
    return found.absolute()


def _candidates(path: Path, platform: str) -> Iterator[Path]:
    base = path.with_suffix("") if path.suffix in _SUFFIXES else path
    if platform == "darwin":
        yield from _in_app(base.with_name(base.name + ".app"), base.name)
        yield path
    elif platform == "win32":
        yield base.with_name(base.name + ".exe")
        if path.is_dir():
            yield from (each for each in sorted(path.glob("*.exe")) if not each.name.startswith("UnityCrashHandler"))
        yield path
    else:
        yield path
        yield from (base.with_name(base.name + suffix) for suffix in (".x86_64", ".x86"))
        yield base
        if path.is_dir():
            yield from sorted(path.glob("*.x86_64"))


def _in_app(app: Path, name: str) -> Iterator[Path]:
    """The executable inside a macOS application; it keeps its old name when the folder is renamed."""
    folder = app / "Contents" / "MacOS"
    yield folder / name
    if folder.is_dir():
        yield from sorted(each for each in folder.iterdir() if each.is_file())
