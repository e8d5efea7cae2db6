"""Side-channel bytes: the known examples read as they should, anything else is refused with a sentence."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.errors import TrainerMistakeError
from fakeunity.side_channels import ENGINE_CONFIGURATION, Sampler, environment_parameter, messages


def test_a_known_container_reads_as_one_message() -> None:
    container = bytes.fromhex("2c3451e97e4fea11b238784f4387d1f708000000020000000000a041")
    assert list(messages(container)) == [(ENGINE_CONFIGURATION, struct.pack("<if", 2, 20.0))]


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=40)), max_size=5))
def test_messages_come_out_in_their_order(sent: list[tuple[object, bytes]]) -> None:
    container = b"".join(u.bytes_le + struct.pack("<i", len(p)) + p for u, p in sent)  # type: ignore[attr-defined]
    assert list(messages(container)) == sent


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("0700000067726176697479 00000000 cdcc1c41", ("gravity", pytest.approx(9.8))),
        ("010000006d 01000000 05000000 00000000 0000003f 00000040", ("m", Sampler("uniform", 5, (0.5, 2.0)))),
        ("010000006d 01000000 05000000 01000000 0000003f 00000040", ("m", Sampler("gaussian", 5, (0.5, 2.0)))),
        (
            "010000006d 01000000 05000000 02000000 02000000 0000003f 00000040",
            ("m", Sampler("multirangeuniform", 5, (0.5, 2.0))),
        ),
    ],
)
def test_each_kind_of_parameter_is_read(payload: str, expected: tuple[str, object]) -> None:
    assert environment_parameter(bytes.fromhex(payload)) == expected


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("", "unreadable payload"),
        ("ff000000 6d", "a key of 255 bytes"),
        ("01000000 e9 00000000 00000000", "unreadable payload"),
        ("01000000 6d 02000000 00000000", "kind 2"),
        ("01000000 6d 01000000 05000000 09000000", "sampler 9"),
        ("01000000 6d 01000000 05000000 00000000 00", "unreadable payload"),
    ],
)
def test_a_parameter_that_cannot_be_read_is_refused(payload: str, words: str) -> None:
    with pytest.raises(TrainerMistakeError, match=words):
        environment_parameter(bytes.fromhex(payload))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_container_or_a_refusal(garbage: bytes) -> None:
    try:
        total = sum(20 + len(payload) for _, payload in messages(garbage))
    except TrainerMistakeError:
        return
    assert total == len(garbage)
