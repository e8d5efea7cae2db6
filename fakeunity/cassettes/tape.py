"""The file of a cassette: a few lines of text, then blocks of messages, compressed and checked.

    fakeunity cassette 1
    generation: 2
    player: {"communication_version": "1.5.0", "package_version": "3.0.0"}
    behaviors: ["Basic"]
    <an empty line>
    BLK1, then three little-endian uint32: bytes when unpacked, bytes packed, CRC-32 of these; then the packed bytes
    ...
    END1, then a uint32, the number of messages, and the SHA-256 of all bytes before END1

Values of the lines are JSON. An unpacked block holds whole messages: one byte, 0 for the player and 1 for the trainer,
a uint32, the length, and the bytes. No times stand in it, so that equal conversations are equal files. A file without
its end was being written when something died; its whole blocks are good.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from fakeunity.errors import FakeUnityError

MAGIC = b"fakeunity cassette 1\n"
BLOCK, END = b"BLK1", b"END1"
BLOCK_HEAD = struct.Struct("<4sIII")
END_REST = struct.Struct("<I32s")
MESSAGE_HEAD = struct.Struct("<BI")
HEADER_BYTES_MAX = 1 << 20
# zlib packs at most about 1032 bytes into one; a block that promises more is a lie.
PACKING_MAX = 1040
Speaker = Literal["player", "trainer"]
SPEAKERS: tuple[Speaker, ...] = ("player", "trainer")


class CassetteError(FakeUnityError, OSError):
    """A file that is no cassette, or a damaged one; the message names the byte."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said."""

    speaker: Speaker
    body: bytes


@dataclass(frozen=True, slots=True)
class Cassette:
    """A cassette that was looked through. header: its lines. ends_at: where its last whole block ends.

    is_whole: False when the recording was cut short; what is left can be played.
    """

    path: Path
    header: Mapping[str, object]
    starts_at: int
    ends_at: int
    is_whole: bool

    @property
    def generation(self) -> int:
        """1 for API-8 to API-10, else 2."""
        return 1 if self.header.get("generation") == 1 else 2

    @property
    def summary(self) -> str:
        """A line for people."""
        cut = "" if self.is_whole else f"; cut short, good up to byte {self.ends_at}"
        return f"{self.path}: {json.dumps(dict(self.header))}{cut}"

    def messages(self) -> Iterator[Message]:
        """All messages, read as they are asked for. Raises CassetteError."""
        with self.path.open("rb") as file:
            file.seek(self.starts_at)
            while file.tell() < self.ends_at:
                at = file.tell()
                _, size, packed, _ = BLOCK_HEAD.unpack(file.read(BLOCK_HEAD.size))
                yield from _unpacked(file.read(packed), size, self.path, at)


def open_cassette(path: Path) -> Cassette:
    """The cassette in this file, every checksum checked. Raises CassetteError, and OSError when it cannot be read."""
    with path.open("rb") as file:
        header = _header(file, path)
        starts_at = file.tell()
        ends_at, is_whole = _walk(file, path, starts_at)
    return Cassette(path, header, starts_at, ends_at, is_whole)


def header_bytes(header: Mapping[str, object]) -> bytes:
    """The text before the blocks."""
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in header.items()]
    return "".join([*lines, "\n"]).encode()


def block_bytes(messages: bytes) -> bytes:
    """A block of messages that `message_bytes` made."""
    packed = zlib.compress(messages, 6)
    return BLOCK_HEAD.pack(BLOCK, len(messages), len(packed), zlib.crc32(packed)) + packed


def message_bytes(message: Message) -> bytes:
    """One message as it stands in an unpacked block."""
    return MESSAGE_HEAD.pack(SPEAKERS.index(message.speaker), len(message.body)) + message.body


def end_bytes(count: int, digest: bytes) -> bytes:
    """The end of a file with so many messages, whose bytes so far have this SHA-256."""
    return END + END_REST.pack(count, digest)


def _header(file: BinaryIO, path: Path) -> Mapping[str, object]:
    first = file.readline(len(MAGIC))
    if first != MAGIC:
        raise CassetteError(f"{path}: no cassette; it begins with {first[:32]!r}, expected {MAGIC!r}")
    header: dict[str, object] = {}
    while True:
        at = file.tell()
        line = file.readline(HEADER_BYTES_MAX)
        if line == b"\n":
            return header
        if not line.endswith(b"\n"):
            if line or at > len(MAGIC):
                raise CassetteError(f"{path}, byte {at}: the text at the beginning has no end")
            raise CassetteError(f"{path}: the recording was cut short before its player was reset; nothing to play")
        name, colon, value = line.decode(errors="replace").partition(": ")
        try:
            header[name] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise CassetteError(f"{path}, byte {at}: expected `name: JSON`, not {line[:64]!r}") from error
        if not colon or at > HEADER_BYTES_MAX:
            raise CassetteError(f"{path}, byte {at}: the text at the beginning is too long")


def _walk(file: BinaryIO, path: Path, starts_at: int) -> tuple[int, bool]:
    """Where the last whole block ends, and whether the file's end follows. Raises CassetteError for wrong checksums."""
    digest, at, count = hashlib.sha256(), starts_at, 0
    whole = file.seek(0, os.SEEK_END)
    file.seek(0)
    digest.update(file.read(starts_at))
    while True:
        head = file.read(BLOCK_HEAD.size)
        kind = head[:4]
        if kind == END:
            return at, _is_end(head + file.read(END_REST.size + 5 - BLOCK_HEAD.size), path, at, (count, digest))
        if len(head) < BLOCK_HEAD.size:
            if not END.startswith(kind) and not BLOCK.startswith(kind):
                raise CassetteError(f"{path}, byte {at}: {kind!r}, expected a block or the end")
            return at, False
        _, size, packed, checksum = BLOCK_HEAD.unpack(head)
        if kind != BLOCK or size > packed * PACKING_MAX:
            raise CassetteError(f"{path}, byte {at}: {kind!r} with {packed} bytes packed out of {size}; no block")
        # Not read to find out: memory for all that is announced would be taken first.
        if packed > whole - at - len(head):
            return at, False
        body = file.read(packed)
        if zlib.crc32(body) != checksum:
            raise CassetteError(f"{path}, byte {at}: a damaged block; its checksum is wrong")
        count += sum(1 for _ in _unpacked(body, size, path, at))
        digest.update(head + body)
        at += len(head) + len(body)


def _is_end(found: bytes, path: Path, at: int, expected: tuple[int, hashlib._Hash]) -> bool:
    """True for the right end, False for a part of it. Raises CassetteError for a wrong one."""
    count, digest = expected
    right = end_bytes(count, digest.digest())
    if found == right:
        return True
    if len(found) < len(right):
        return False
    problem = "more follows" if found.startswith(right) else f"the checksum of {count} messages is wrong"
    raise CassetteError(f"{path}, byte {at}: a damaged end; {problem}")


def _unpacked(packed: bytes, size: int, path: Path, at: int) -> Iterator[Message]:
    inflate = zlib.decompressobj()
    try:
        block = inflate.decompress(packed, size + 1)
    except zlib.error as error:
        raise CassetteError(f"{path}, byte {at}: a block that cannot be unpacked: {error}") from error
    if len(block) != size or not inflate.eof or inflate.unused_data:
        raise CassetteError(f"{path}, byte {at}: a block that does not unpack into the {size} bytes that it promises")
    start = 0
    while start < size:
        if start + MESSAGE_HEAD.size > size:
            raise CassetteError(f"{path}, block at byte {at}: its last message has no beginning")
        speaker, length = MESSAGE_HEAD.unpack_from(block, start)
        start += MESSAGE_HEAD.size
        if speaker >= len(SPEAKERS) or start + length > size:
            raise CassetteError(f"{path}, block at byte {at}: a message of {length} bytes by speaker {speaker}")
        yield Message(SPEAKERS[speaker], block[start : start + length])
        start += length
