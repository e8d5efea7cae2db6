"""Where a player's executable is, given what users write for it on each system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import UsageError

_HEAD_BYTES = 256
_BLANK = 32
_SUFFIXES = (".x86_64", ".x86", ".exe", ".app")


def find_executable(path: str | os.PathLike[str], *, platform: str = sys.platform) -> Path:
    """The file to launch for `path`, absolute.

    `path` may lack its suffix (`.x86_64`, `.x86`, `.exe`, `.app`), carry another system's, or be a build's folder.
    Raises UsageError that says what was tried, or why the system would not start the file.
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
    if platform != "win32":
        _require_startable(found)
    return found.absolute()


def _require_startable(file: Path) -> None:
    """Nothing, unless it is certain that the system cannot start the file: texts need a line that says with what."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except OSError:
        return  # what may be executed need not be readable
    if head.startswith(b"#!") or (head and not _is_text(head)):
        return
    what = "a text without a first line such as #!/bin/sh" if head else "an empty file"
    raise UsageError(
        f"player {str(file)!r} cannot be started: it is {what}. "
        "Give the path of the executable that Unity built, or of a script that begins with such a line."
    )


def _is_text(head: bytes) -> bool:
    return b"\0" not in head and all(byte >= _BLANK or byte in b"\t\n\r\f\v" for byte in head)


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
