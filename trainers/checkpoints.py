"""Checkpoint folders: complete or not there, and never trusted unread.

A folder holds `arrays.safetensors`, `state.json` and, written last, `manifest.json` with length and SHA-256 of both.
It is written beside its place under a hidden name, synchronised, and renamed; a folder without a fitting manifest is
damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import StorageError
from trainers.tensors_file import Array, decode_arrays, encode_arrays

FORMAT = 1
ARRAYS, STATE, MANIFEST = "arrays.safetensors", "state.json", "manifest.json"
TEMPORARY_PREFIX = ".saving-"
ASIDE_PREFIX = f"{TEMPORARY_PREFIX}old-"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Content of a checkpoint. state: JSON."""

    arrays: Mapping[str, Array]
    state: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Damage:
    """A folder that cannot be loaded, and why."""

    folder: Path
    reason: str


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes `folder` so that a crash at any instant leaves the old content, the new one, or no folder, never a part.

    Raises StorageError when it cannot be written; nothing is left behind then.
    """
    contents: dict[str, Sequence[bytes | memoryview]] = {
        ARRAYS: encode_arrays(checkpoint.arrays),
        STATE: [_json(checkpoint.state)],
    }
    temporary = folder.with_name(f"{TEMPORARY_PREFIX}{folder.name}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder.parent)
        temporary.mkdir()
        files = {name: _write(temporary / name, pieces) for name, pieces in contents.items()}
        _write(temporary / MANIFEST, [_json({"format": FORMAT, "files": files})])
        _synchronise(temporary)
        _put_in_place(temporary, folder)
        _synchronise(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        needed = sum(len(piece) for pieces in contents.values() for piece in pieces)
        raise StorageError(_failure(folder, error, needed)) from error


def read_checkpoint(folder: Path) -> Checkpoint:
    """The verified content of `folder`. Raises StorageError with the reason when it is damaged or not one of ours."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise StorageError(f"format {manifest['format']!r}, expected {FORMAT}")
        arrays, state = (_verified(folder, name, manifest["files"][name]) for name in (ARRAYS, STATE))
        return Checkpoint(decode_arrays(arrays), json.loads(state))
    except OSError as error:
        raise StorageError(f"{error.strerror or error}: {error.filename}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"unreadable manifest or content ({error})") from error


def first_loadable(folders: Sequence[Path]) -> tuple[Path, Checkpoint, list[Damage]]:
    """The first folder that verifies, its content, and the damaged ones before it.

    Raises StorageError, with all reasons, when there is none.
    """
    damaged: list[Damage] = []
    for folder in folders:
        try:
            return folder, read_checkpoint(folder), damaged
        except StorageError as error:
            damaged.append(Damage(folder, str(error)))
    reasons = "; ".join(f"{each.folder}: {each.reason}" for each in damaged) or "no checkpoint was found"
    raise StorageError(
        f"nothing to load: {reasons}. Expected one undamaged checkpoint folder; "
        "restore one from a copy, or start anew with another --run-id.",
    )


def _verified(folder: Path, name: str, entry: Mapping[str, object]) -> bytes:
    content = (folder / name).read_bytes()
    if len(content) != entry["length"]:
        raise StorageError(f"{name} has {len(content)} bytes, expected {entry['length']}")
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise StorageError(f"{name} does not have the SHA-256 of its manifest")
    return content


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False, indent=1).encode()


def _write(path: Path, pieces: Sequence[bytes | memoryview]) -> dict[str, object]:
    """Writes a file and says what the manifest holds of it."""
    digest, length = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            length += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"length": length, "sha256": digest.hexdigest()}


def _synchronise(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    # A folder cannot replace a full one in one step: the old content steps aside for an instant, and is deleted last.
    aside = folder.with_name(f"{ASIDE_PREFIX}{folder.name}")
    folder.rename(aside)
    temporary.rename(folder)
    _synchronise(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _remove_leftovers(parent: Path) -> None:
    """Deletes what saves that were killed have left; one run, which holds a lock, saves one at a time.

    Old content that stepped aside for a successor which never came takes its place again.
    """
    for leftover in parent.glob(f"{TEMPORARY_PREFIX}*"):
        place = parent / leftover.name.removeprefix(ASIDE_PREFIX)
        if leftover.name.startswith(ASIDE_PREFIX) and not place.exists():
            leftover.rename(place)
        else:
            shutil.rmtree(leftover, ignore_errors=True)


def _failure(folder: Path, error: OSError, needed: int) -> str:
    free = ""
    with contextlib.suppress(OSError):
        free = f", free {shutil.disk_usage(folder.parent).free / 1e6:.1f} MB"
    return (
        f"checkpoint {folder} was not written: {error.strerror or error} (needed {needed / 1e6:.1f} MB{free}). "
        "Expected a writable folder with room; free some space or choose another --results-dir."
    )
