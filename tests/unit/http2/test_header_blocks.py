"""Header blocks are read as the hpack library reads them, however often they come and whatever changes the table."""

from __future__ import annotations

from contextlib import suppress

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.http2.frames import ErrorCode, Http2Error
from runtime.http2.header_blocks import BlockReader, write_block

names = st.sampled_from((":method", ":path", "te", "user-agent", "x-one", "x-two"))
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200)
pairs = st.lists(st.tuples(names, values), max_size=6)


@given(pairs)
def test_what_is_written_is_read_back_and_leaves_the_table_alone(fields: list[tuple[str, str]]) -> None:
    decoder = hpack.Decoder(max_header_list_size=1 << 20)
    assert [(str(name), str(value)) for name, value in decoder.decode(write_block(fields))] == fields
    assert not decoder.header_table.dynamic_entries


@given(st.lists(st.tuples(pairs, st.booleans()), max_size=12), st.sampled_from((0, 64, 4096)))
def test_blocks_of_a_peer_that_indexes_mean_the_same_each_time(
    blocks: list[tuple[list[tuple[str, str]], bool]], table: int
) -> None:
    encoder, reader = hpack.Encoder(), BlockReader()
    encoder.header_table_size = table
    for fields, is_repeated in blocks:
        for _ in range(3 if is_repeated else 1):
            assert reader.read(encoder.encode(fields)) == dict(fields)


def test_a_block_that_is_known_is_read_anew_once_the_table_has_changed() -> None:
    encoder, reader = hpack.Encoder(), BlockReader()
    reader.read(encoder.encode([("x-one", "first")]))
    indexed = encoder.encode([("x-one", "first")])
    assert reader.read(indexed) == {"x-one": "first"}
    assert reader.read(indexed) == {"x-one": "first"}
    reader.read(encoder.encode([("x-two", "second")]))
    assert reader.read(indexed) == {"x-two": "second"}  # the same index now stands for the newest entry


@given(st.binary(max_size=60))
def test_bytes_that_are_no_block_are_refused_as_such(block: bytes) -> None:
    with suppress(Http2Error):
        assert isinstance(BlockReader().read(block), dict)


def test_a_broken_block_is_told_as_such() -> None:
    with pytest.raises(Http2Error) as caught:
        BlockReader().read(b"\xff\xff")
    assert caught.value.code == ErrorCode.COMPRESSION_ERROR


def test_headers_without_end_are_refused() -> None:
    with pytest.raises(Http2Error):
        BlockReader().read(write_block([("x-one", "y" * 70_000)]))
