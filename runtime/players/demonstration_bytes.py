"""The layout of a `.demo` file: a header of at most 33 bytes, a brain, and records, each after its length as a varint.

Files have no mark of their generation: the brain's fields tell, for what the older one has the newer one reserves.
Every length is compared with what is left of the file before anything is read, so a file that lies costs no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from google.protobuf.message import DecodeError

from runtime.errors import DemonstrationError
from runtime.experience.demonstrations import DemonstrationMeta
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2

HEADER_BYTES = 33
RECORD_BYTES_MAX = 64 << 20
API_VERSIONS = (0, 1)
Brain = pb1.BrainParametersProto | pb2.BrainParametersProto


@dataclass(frozen=True, slots=True)
class FileHead:
    """What stands before the records. offset: of the first record."""

    meta: DemonstrationMeta
    generation: Literal[1, 2]
    brain: Brain
    offset: int


class DemonstrationFile:
    """An open file, read piece by piece. Raises DemonstrationError with the byte offset of what is wrong."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._size = path.stat().st_size

    def error(self, offset: int, text: str) -> DemonstrationError:
        """An error that names the file and the place."""
        return DemonstrationError(f"{self._path}, byte {offset}: {text}", offset=offset)

    def read_head(self) -> FileHead:
        """The header and the brain."""
        meta, end = self._read_meta()
        if end > HEADER_BYTES:
            raise self.error(
                HEADER_BYTES,
                f"the header takes {end} bytes of {HEADER_BYTES}, so that it overwrote the beginning of the brain's "
                f"description by {end - HEADER_BYTES}; the file cannot be read. Record again with a shorter name than "
                f"{meta.name!r}.",
            )
        body, offset = self._read_piece(HEADER_BYTES, "the brain's description")
        try:
            old = pb1.BrainParametersProto.FromString(body)
            if old.vector_observation_size or old.num_stacked_vector_observations or old.camera_resolutions:
                return FileHead(meta, 1, old, offset)
            return FileHead(meta, 2, pb2.BrainParametersProto.FromString(body), offset)
        except DecodeError as error:
            raise self.error(HEADER_BYTES, f"the brain's description cannot be read ({error}).") from error

    def read_records(self, head: FileHead, *, accepts_unfinished: bool) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of each record, as many as the header says; what follows them is not looked at.

        A recording that was not ended properly says 0: its records are read to the end of the file if that is accepted,
        without one that is cut short.
        """
        count, offset = 0, head.offset
        if not head.meta.steps and not accepts_unfinished:
            raise self.error(
                0,
                "the header counts no steps: the recording was not ended properly. Accept unfinished files to read it.",
            )
        while count < head.meta.steps or (not head.meta.steps and offset < self._size):
            try:
                body, end = self._read_piece(offset, f"record {count} of {head.meta.steps or 'an unfinished file'}")
            except DemonstrationError:
                if head.meta.steps:
                    raise
                return
            yield offset, body
            count, offset = count + 1, end

    def _read_meta(self) -> tuple[DemonstrationMeta, int]:
        body, end = self._read_piece(0, "the header")
        try:
            meta = pb2.DemonstrationMetaProto.FromString(body)
        except DecodeError as error:
            raise self.error(0, f"the header cannot be read ({error}); expected a demonstration file.") from error
        if meta.api_version not in API_VERSIONS:
            raise self.error(0, f"the header has API version {meta.api_version}; expected {API_VERSIONS[-1]}.")
        if meta.number_steps < 0 or meta.number_episodes < 0:
            raise self.error(0, f"the header counts {meta.number_steps} steps and {meta.number_episodes} episodes.")
        told = DemonstrationMeta(
            name=meta.demonstration_name,
            api_version=meta.api_version,
            steps=meta.number_steps,
            episodes=meta.number_episodes,
            mean_reward=meta.mean_reward,
        )
        return told, end

    def _read_piece(self, offset: int, what: str) -> tuple[bytes, int]:
        """The piece whose length stands at `offset`, and where the next one begins."""
        self._file.seek(offset)
        length, shift, start = 0, 0, offset
        while True:
            byte = self._file.read(1)
            if not byte:
                raise self.error(start, f"the file ends where {what} should be; it is cut short.")
            start += 1
            length |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
            if shift > 28:
                raise self.error(offset, f"{what} has no length of at most five bytes.")
        left = self._size - start
        if length > left:
            raise self.error(offset, f"{what} announces {length} bytes, of which {left} are there; it is cut short.")
        if length > RECORD_BYTES_MAX:
            raise self.error(offset, f"{what} announces {length} bytes; at most {RECORD_BYTES_MAX} are taken.")
        return self._file.read(length), start + length
