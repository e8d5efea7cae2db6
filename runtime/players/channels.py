"""Side channels for users: write and read short messages beside steps, over channels of one's own or the built-in ones.

The names are those that low-level code for ML-Agents uses, so that it ports by changing imports. What is queued travels
with the next reset or step; what a player sends is handed over after the rows of its reply. Channels belong to one
player: code that runs several gives each its own.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from uuid import UUID

from runtime.errors import UsageError

QUEUED_MAX = 10_000


class OutgoingMessage:
    """A message in the making: values are joined in the order in which they are written."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:  # noqa: FBT001 - the name and the form that users know
        """One byte."""
        self.buffer += struct.pack("<?", b)

    def write_int32(self, i: int) -> None:
        """Four bytes. Raises UsageError for a number that does not fit."""
        self._pack("<i", i)

    def write_float32(self, f: float) -> None:
        """Four bytes. Raises UsageError for a number that does not fit."""
        self._pack("<f", f)

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        """Their number, then the numbers."""
        self._pack(f"<i{len(float_list)}f", len(float_list), *float_list)

    def write_string(self, s: str) -> None:
        """Its length, then its characters. Raises UsageError unless it is ASCII, which is all that players read."""
        if not s.isascii():
            raise UsageError(f"the text {s!r} is not ASCII, which is all that players can read.")
        self._pack("<i", len(s))
        self.buffer += s.encode("ascii")

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        """These bytes and nothing else. Raises UsageError when something was written already."""
        if self.buffer:
            raise UsageError("raw bytes for a message that was begun with other values; use a message of their own.")
        self.buffer = bytearray(buffer)

    def _pack(self, form: str, *values: float) -> None:
        try:
            self.buffer += struct.pack(form, *values)
        except (struct.error, OverflowError) as error:
            raise UsageError(f"{values[:8]!r} in a side channel message: {error}; expected 32 bits.") from error


class IncomingMessage:
    """A message that arrived. Values are read in the order in which they were written.

    Reading past the end gives the default, as players' own library does.
    """

    def __init__(self, buffer: bytes, offset: int = 0) -> None:
        self.buffer = bytes(buffer)
        self.offset = offset

    def read_bool(self, default_value: bool = False) -> bool:  # noqa: FBT001, FBT002 - the form that users know
        """The next byte as truth."""
        return bool(self._next("<B", 1, default_value))

    def read_int32(self, default_value: int = 0) -> int:
        """The next four bytes as a whole number."""
        return int(self._next("<i", 4, default_value))

    def read_float32(self, default_value: float = 0.0) -> float:
        """The next four bytes as a number."""
        return float(self._next("<f", 4, default_value))

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        """The next list of numbers; the default when it is cut short."""
        count = self.read_int32(-1)
        if not 0 <= 4 * count <= len(self.buffer) - self.offset:
            self.offset = len(self.buffer)
            return [] if default_value is None else default_value
        values = list(struct.unpack_from(f"<{count}f", self.buffer, self.offset))
        self.offset += 4 * count
        return values

    def read_string(self, default_value: str = "") -> str:
        """The next text; the default when it is cut short. What is not ASCII becomes the replacement character."""
        size = self.read_int32(-1)
        if not 0 <= size <= len(self.buffer) - self.offset:
            self.offset = len(self.buffer)
            return default_value
        self.offset += size
        return self.buffer[self.offset - size : self.offset].decode("ascii", errors="replace")

    def get_raw_bytes(self) -> bytes:
        """All bytes of the message."""
        return self.buffer

    def _next(self, form: str, size: int, default: float) -> float:
        if len(self.buffer) - self.offset < size:
            self.offset = len(self.buffer)
            return default
        (value,) = struct.unpack_from(form, self.buffer, self.offset)
        self.offset += size
        number: float = value
        return number


class SideChannel(ABC):
    """One channel, known by its id on both sides. Subclass it and say what becomes of messages."""

    def __init__(self, channel_id: UUID) -> None:
        self._channel_id = channel_id
        self._queued: deque[bytes] = deque()

    @property
    def channel_id(self) -> UUID:
        """The id under which the player has the same channel."""
        return self._channel_id

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Called for each message of the player, in order. What it raises ends the environment."""

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """The message travels with the next reset or step. Raises UsageError when QUEUED_MAX wait already."""
        if len(self._queued) >= QUEUED_MAX:
            raise UsageError(
                f"{QUEUED_MAX} messages wait on side channel {self._channel_id}; they leave with a reset or a step."
            )
        self._queued.append(bytes(msg.buffer))

    def take_queued_messages(self) -> tuple[bytes, ...]:
        """The messages queued since the last call, which are on their way now."""
        queued = tuple(self._queued)
        self._queued.clear()
        return queued
