"""Frames come out as they went in, however the stream is cut; everything else is refused before it costs anything."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.actors.frames import HEADER_BYTES, Frame, FrameBuffer, FrameError, FrameKind, FrameSeal

KEY = bytes(range(32))
SENDER = b"sender 1"

bodies = st.binary(max_size=200)
frames = st.builds(
    lambda sequence, body: Frame(FrameKind.MESSAGE, SENDER, sequence, bytearray(body)),
    st.integers(0, 2**64 - 1),
    bodies,
)


def sealed(seal: FrameSeal, *several: Frame) -> bytes:
    return b"".join(seal.seal(frame.kind, frame.sender, frame.sequence, bytes(frame.body)) for frame in several)


def opened(seal: FrameSeal, pieces: list[bytes]) -> list[Frame]:
    """All frames in a stream that arrives in `pieces`, read as the transport reads it."""
    found: list[Frame] = []
    buffer = FrameBuffer(seal)
    for piece in pieces:
        buffer.addMore(piece)
        while buffer.isDone():
            frame, extra = buffer.take()
            found.append(frame)
            buffer = FrameBuffer(seal)
            buffer.addMore(extra)
    assert buffer.is_empty()
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


@given(st.lists(frames, max_size=5), st.lists(st.integers(0, 2000), max_size=10))
def test_frames_survive_any_cutting_of_the_stream(several: list[Frame], places: list[int]) -> None:
    seal = FrameSeal(KEY)
    assert opened(seal, cut(sealed(seal, *several), places)) == several
    assert seal.refused == 0


@given(frames)
def test_frames_survive_one_byte_at_a_time(frame: Frame) -> None:
    seal = FrameSeal(KEY)
    assert opened(seal, [bytes([byte]) for byte in sealed(seal, frame)]) == [frame]


@given(st.binary(min_size=HEADER_BYTES, max_size=300))
def test_any_bytes_without_the_key_are_refused(data: bytes) -> None:
    seal = FrameSeal(KEY)
    with pytest.raises(FrameError, match="without the key of this run; the connection is closed"):
        FrameBuffer(seal).addMore(data)
    assert seal.refused == 1


@given(frames, st.integers(0, 10_000), st.integers(1, 255))
def test_a_frame_with_one_changed_byte_is_refused(frame: Frame, place: int, change: int) -> None:
    seal = FrameSeal(KEY)
    data = bytearray(sealed(seal, frame))
    data[place % len(data)] ^= change
    with pytest.raises(FrameError):
        FrameBuffer(seal).addMore(bytes(data))


@given(frames)
def test_a_frame_under_another_key_is_refused(frame: Frame) -> None:
    with pytest.raises(FrameError):
        FrameBuffer(FrameSeal(KEY)).addMore(sealed(FrameSeal(bytes(32)), frame))


@given(st.binary(max_size=HEADER_BYTES - 1), st.binary(min_size=HEADER_BYTES, max_size=1000))
def test_a_stranger_is_refused_within_one_header(first: bytes, more: bytes) -> None:
    buffer = FrameBuffer(FrameSeal(KEY))
    buffer.addMore(first)
    with pytest.raises(FrameError):
        buffer.addMore(more)


def test_a_body_above_the_limit_is_refused_by_sender_and_receiver() -> None:
    small = FrameSeal(KEY, frame_bytes_max=10)
    with pytest.raises(ValueError, match="a message of 11 bytes is above the limit of 10; send it in parts"):
        small.seal(FrameKind.MESSAGE, SENDER, 1, bytes(11))
    header = FrameSeal(KEY).seal(FrameKind.MESSAGE, SENDER, 1, bytes(11))[:HEADER_BYTES]
    with pytest.raises(FrameError, match="a frame of 11 bytes, at most 10 are allowed"):
        FrameBuffer(small).addMore(header)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="has 31 bytes, expected at least 32"):
        FrameSeal(bytes(31))


def test_the_key_is_not_in_the_text_of_settings() -> None:
    from runtime.actors.rltcp import new_settings  # noqa: PLC0415

    settings = new_settings("run", key=b"secret key of this run, 32 bytes")
    assert "secret" not in repr(settings)
    assert "secret" not in "".join(settings.environment().values())
