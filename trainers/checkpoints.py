"""Checkpoint folders: complete or not there, and never trusted unread.

A folder holds `arrays.safetensors`, `state.json` and, written last, `manifest.json` with length and SHA-256 of both.
It is written beside its place under a hidden name, synchronised, and renamed; a folder without a fitting manifest is
damaged. Where a folder of that name exists already, it steps aside under another hidden name until its successor is in
place; a crash between the two leaves it there, and it is read from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import StorageError
from runtime.folders import ASIDE_PREFIX, TEMPORARY_PREFIX
from trainers.disk import Disk, RealDisk
from trainers.tensors_file import Array, decode_arrays, encode_arrays

FORMAT = 1
ARRAYS, STATE, MANIFEST = "arrays.safetensors", "state.json", "manifest.json"


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


def write_checkpoint(folder: Path, checkpoint: Checkpoint, disk: Disk | None = None) -> None:
    """Writes `folder` so that a crash at any instant leaves the old content, the new one, or no folder, never a part.

    Its content survives a loss of power once this returns. disk: None is the operating system's. Raises StorageError
    when it cannot be written; nothing is left behind then.
    """
    disk = RealDisk() if disk is None else disk
    contents: dict[str, Sequence[bytes | memoryview]] = {
        ARRAYS: encode_arrays(checkpoint.arrays),
        STATE: [_json(checkpoint.state)],
    }
    temporary = folder.with_name(f"{TEMPORARY_PREFIX}{folder.name}")
    try:
        _make_folders(folder.parent, disk)
        _remove_leftovers(folder.parent, disk)
        disk.make_folder(temporary)
        files = {name: _write(temporary / name, pieces, disk) for name, pieces in contents.items()}
        _write(temporary / MANIFEST, [_json({"format": FORMAT, "files": files})], disk)
        disk.sync_folder(temporary)
        _put_in_place(temporary, folder, disk)
        disk.sync_folder(folder.parent)
    except OSError as error:
        disk.remove(temporary)
        needed = sum(len(piece) for pieces in contents.values() for piece in pieces)
        raise StorageError(_failure(folder, error, needed)) from error


def read_checkpoint(folder: Path) -> Checkpoint:
    """The verified content of `folder`. Raises StorageError with the reason when it is damaged or not one of ours."""
    aside = folder.with_name(f"{ASIDE_PREFIX}{folder.name}")
    if aside.exists() and not folder.exists():
        folder = aside
    try:
        written = (folder / MANIFEST).read_bytes()
        if not written:
            raise StorageError(f"{MANIFEST} is empty")
        manifest = json.loads(written)
        if manifest["format"] != FORMAT:
            raise StorageError(f"format {manifest['format']!r}, expected {FORMAT}")
        arrays, state = (_verified(folder, name, manifest["files"][name]) for name in (ARRAYS, STATE))
        return Checkpoint(decode_arrays(arrays), json.loads(state))
    except OSError as error:
        raise StorageError(f"{error.strerror or error}: {error.filename}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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
    # Told by its entry before it is read: what is put there may be endless, or larger than the memory.
    found = (folder / name).stat()
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{name} is no file")
    if found.st_size != entry["length"]:
        raise StorageError(f"{name} has {found.st_size} bytes, expected {entry['length']}")
    content = (folder / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise StorageError(f"{name} does not have the SHA-256 of its manifest")
    return content


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False, indent=1).encode()


def _write(path: Path, pieces: Sequence[bytes | memoryview], disk: Disk) -> dict[str, object]:
    """Writes a file and says what the manifest holds of it."""
    digest, length = hashlib.sha256(), 0
    with disk.create(path) as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            length += len(piece)
        file.sync()
    return {"length": length, "sha256": digest.hexdigest()}


def _make_folders(folder: Path, disk: Disk) -> None:
    """Makes a folder and those above it where they are missing; an entry that is not durable loses all below it."""
    if not disk.exists(folder):
        _make_folders(folder.parent, disk)
        disk.make_folder(folder)
    if folder != folder.parent and disk.exists(folder.parent):
        disk.sync_folder(folder.parent)


def _put_in_place(temporary: Path, folder: Path, disk: Disk) -> None:
    if not disk.exists(folder):
        disk.rename(temporary, folder)
        return
    # A folder cannot replace a full one in one step: the old content steps aside for an instant, and is deleted last.
    aside = folder.with_name(f"{ASIDE_PREFIX}{folder.name}")
    disk.rename(folder, aside)
    disk.rename(temporary, folder)
    disk.sync_folder(folder.parent)
    disk.remove(aside)


def _remove_leftovers(parent: Path, disk: Disk) -> None:
    """Deletes what saves that were killed have left; one run, which holds a lock, saves one at a time.

    Old content that stepped aside for a successor which never came takes its place again.
    """
    leftovers = [name for name in disk.names(parent) if name.startswith(TEMPORARY_PREFIX)]
    if leftovers:
        # What was put in place by a save that was killed then may not be durable yet; what it replaced goes after it.
        disk.sync_folder(parent)
    for name in leftovers:
        place = parent / name.removeprefix(ASIDE_PREFIX)
        if name.startswith(ASIDE_PREFIX) and not disk.exists(place):
            disk.rename(parent / name, place)
        else:
            disk.remove(parent / name)


def _failure(folder: Path, error: OSError, needed: int) -> str:
    free = ""
    with contextlib.suppress(OSError):
        free = f", free {shutil.disk_usage(folder.parent).free / 1e6:.1f} MB"
    return (
        f"checkpoint {folder} was not written: {error.strerror or error} (needed {needed / 1e6:.1f} MB{free}). "
        "Expected a writable folder with room; free some space or choose another --results-dir."
    )
