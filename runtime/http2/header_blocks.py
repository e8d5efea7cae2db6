"""Header blocks (HPACK, RFC 7541): a stateless writer, and a reader that knows a block again.

What we write never touches the peer's table, so a block may be written once and sent for ever. What we read goes
through the `hpack` library; calls of one session repeat each other to the byte, and a block that changed nothing in
the table means the same when it comes again while the table is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import hpack

from runtime.http2.frames import ErrorCode, Http2Error

# Headers of a block, names in small letters. A name that comes twice keeps its last value: gRPC repeats none we read.
Fields = Mapping[str, str]

FIELDS_BYTES_MAX = 1 << 16


def write_block(fields: Iterable[tuple[str, str]]) -> bytes:
    """Headers as literals that are not to be indexed, without Huffman coding."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _integer(len(raw)) + raw


def _integer(value: int) -> bytes:
    """An integer with a prefix of 7 bits, the eighth one 0 (RFC 7541, section 5.1)."""
    if value < 0x7F:
        return bytes([value])
    out = bytearray([0x7F])
    value -= 0x7F
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class BlockReader:
    """Reads the peer's header blocks, in the order in which they come."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=FIELDS_BYTES_MAX)
        self._known: dict[bytes, Fields] = {}

    def read(self, block: bytes) -> Fields:
        """The headers in a block. Raises Http2Error for what is none; the connection's table is lost then."""
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            pairs = self._decoder.decode(block)
        except (hpack.HPACKError, UnicodeDecodeError) as error:
            text = f"headers that cannot be read ({type(error).__name__})"
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, text) from error
        fields = {str(name): str(value) for name, value in pairs}
        if not _keeps_table(block):
            self._known.clear()
        elif len(self._known) < 64:
            self._known[block] = fields
        return fields


def _keeps_table(block: bytes) -> bool:
    """True when nothing in a block that was read without error changes the table (RFC 7541, section 6)."""
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:  # an indexed field
            _, at = _read_integer(block, at, 7)
            continue
        if first & 0x60:  # a literal that is added to the table, or a new size of it
            return False
        index, at = _read_integer(block, at, 4)
        for _ in range(1 if index else 2):
            length, at = _read_integer(block, at, 7)
            at += length
    return True


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """An integer with a prefix of so many bits, and where it ends."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        digit = block[at]
        at += 1
        value += (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return value, at
