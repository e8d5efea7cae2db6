"""Writes a cassette while it is spoken: what is on disk is good at any moment, whatever dies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import DecodeError

from fakeunity.cassettes.tape import MAGIC, Message, Speaker, block_bytes, end_bytes, header_bytes, message_bytes
from fakeunity.protocols import PROTOCOLS
from runtime.players.wire import communicator_pb2 as pb

BLOCK_BYTES = 1 << 18
BLOCK_MESSAGES = 128


class Recorder:
    """Takes the messages of one player's life, in order. more: further lines of the header, by name.

    The header is written when the player has told its behaviors, at the first rows, and until then the first messages
    wait in memory. Raises OSError when the file cannot be made; `path` must not exist yet.
    """

    def __init__(self, path: Path, more: Mapping[str, object]) -> None:
        self._more = dict(more)
        self._file = path.open("xb", buffering=0)
        self._digest = hashlib.sha256()
        self._has_header = False
        self._versions: dict[Speaker, dict[str, str]] = {}
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._count = 0
        self._write(MAGIC)

    def on_bytes(self, speaker: Speaker, body: bytes) -> None:
        """Somebody said this. Raises OSError when it cannot be written."""
        self._pending.append(message_bytes(Message(speaker, body)))
        self._pending_bytes += len(body)
        self._count += 1
        if not self._has_header:
            self._look_at(speaker, body)
        elif self._pending_bytes >= BLOCK_BYTES or len(self._pending) >= BLOCK_MESSAGES:
            self._flush()

    def close(self) -> None:
        """Writes the end; harmless twice."""
        if self._file.closed:
            return
        with self._file:
            if not self._has_header:
                self._begin([])
            self._flush()
            self._write(end_bytes(self._count, self._digest.digest()))

    def abandon(self) -> None:
        """Leaves the file as it is, without an end."""
        self._file.close()

    def _look_at(self, speaker: Speaker, body: bytes) -> None:
        """Versions and behaviors, which stand at the same places in both generations of the protocol."""
        try:
            message = pb.UnityMessageProto.FromString(body)
        except DecodeError:
            return
        if speaker == "trainer":
            told = message.unity_input.rl_initialization_input
            if message.unity_input.HasField("rl_initialization_input"):
                self._versions["trainer"] = {
                    "communication_version": told.communication_version,
                    "package_version": told.package_version,
                }
            return
        output = message.unity_output
        if self._versions.get("player") is None and output.HasField("rl_initialization_output"):
            self._versions["player"] = {
                "communication_version": output.rl_initialization_output.communication_version,
                "package_version": output.rl_initialization_output.package_version,
            }
        if output.HasField("rl_output"):
            self._begin(sorted(output.rl_output.agentInfos))
            self._flush()

    def _begin(self, behaviors: list[str]) -> None:
        spoken = self._versions.get("player", {}).get("communication_version", "")
        is_gen1 = spoken in PROTOCOLS and PROTOCOLS[spoken].is_gen1
        header: dict[str, object] = {"generation": 1 if is_gen1 else 2}
        header |= {str(speaker): versions for speaker, versions in self._versions.items()}
        header |= {"behaviors": behaviors, **self._more}
        self._write(header_bytes(header))
        self._has_header = True

    def _flush(self) -> None:
        if self._pending:
            self._write(block_bytes(b"".join(self._pending)))
            self._pending, self._pending_bytes = [], 0

    def _write(self, content: bytes) -> None:
        self._digest.update(content)
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]
