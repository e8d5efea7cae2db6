"""Side channels: the bytes that players expect, and what becomes of those that they send."""

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import PlayerProtocolError, UsageError
from runtime.players.places import Place
from runtime.players.side_channels import (
    STATS,
    EngineSettings,
    SideChannelInbox,
    Stat,
    StatAggregation,
    container,
    engine_configuration,
    environment_parameters,
    read_container,
)

PLACE = Place(1, 0, 4)


def stat_payload(name: str, value: float, aggregation: int | None) -> bytes:
    end = b"" if aggregation is None else struct.pack("<i", aggregation)
    return struct.pack("<i", len(name)) + name.encode() + struct.pack("<f", value) + end


def test_engine_settings_are_one_record_per_setting_in_order() -> None:
    body = engine_configuration(EngineSettings())
    channel = "2c3451e97e4fea11b238784f4387d1f7"
    assert body == bytes.fromhex(
        f"{channel} 0c000000 00000000 54000000 54000000"
        f"{channel} 08000000 01000000 05000000"
        f"{channel} 08000000 02000000 0000a041"
        f"{channel} 08000000 03000000 ffffffff"
        f"{channel} 08000000 04000000 3c000000"
    )


def test_environment_parameters_are_name_type_and_number() -> None:
    assert environment_parameters({"gravity": 9.8}) == bytes.fromhex(
        "1e894c530f81ea11a9d0822485860400 13000000 07000000 67726176697479 00000000 cdcc1c41"
    )
    assert environment_parameters({}) == b""


def test_a_parameter_name_that_players_cannot_read_is_refused() -> None:
    with pytest.raises(UsageError, match="'schwerkräfte' is not ASCII"):
        environment_parameters({"schwerkräfte": 1.0})


def test_the_id_of_statistics_is_derived_from_its_name() -> None:
    assert uuid.uuid5(uuid.NAMESPACE_URL, "com.unity.ml-agents/StatsSideChannel") == STATS


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=50)), max_size=5))
def test_records_come_out_as_they_went_in(records: list[tuple[uuid.UUID, bytes]]) -> None:
    body = b"".join(container(channel, payload) for channel, payload in records)
    assert list(read_container(body, PLACE)) == records


@given(st.binary(max_size=100))
def test_any_bytes_are_taken_in_or_refused_as_a_whole(body: bytes) -> None:
    inbox = SideChannelInbox()
    try:
        inbox.accept(body, PLACE)
    except PlayerProtocolError as error:
        assert str(error).startswith("environment 1 (incarnation 0), env step 4: ")  # noqa: PT017 - any bytes, either way
        assert (inbox.take_stats(), dict(inbox.ignored)) == ((), {})


def test_statistics_are_kept_until_taken() -> None:
    inbox = SideChannelInbox()
    body = container(STATS, stat_payload("height", 1.5, 2)) + container(STATS, stat_payload("old", 2.0, None))
    inbox.accept(body, PLACE)
    expected = Stat("height", 1.5, StatAggregation.SUM), Stat("old", 2.0, StatAggregation.AVERAGE)
    assert inbox.take_stats() == expected
    assert inbox.take_stats() == ()


def test_channels_that_nobody_reads_are_counted() -> None:
    inbox = SideChannelInbox()
    stranger = uuid.UUID(int=7)
    inbox.accept(container(stranger, b"abc") * 2, PLACE)
    assert inbox.ignored == {str(stranger): 2}


def test_a_flood_of_statistics_is_bounded() -> None:
    inbox = SideChannelInbox()
    inbox.accept(container(STATS, stat_payload("x", 0.0, 0)) * 10_002, PLACE)
    assert (len(inbox.take_stats()), inbox.stats_dropped) == (10_000, 2)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"short", "starts 5 bytes before the end"),
        (STATS.bytes_le + struct.pack("<i", 9) + b"four", "announces 9 bytes, of which 4 are there"),
        (STATS.bytes_le + struct.pack("<i", -1), "announces -1 bytes"),
        (container(STATS, b""), "a statistic of 0 bytes"),
        (container(STATS, struct.pack("<i", 99) + b"12345678"), "a statistic of 12 bytes"),
        (container(STATS, stat_payload("x", 0.0, 4)), "aggregation 4; expected 0 to 3"),
    ],
)
def test_malformed_bytes_are_named(body: bytes, words: str) -> None:
    with pytest.raises(PlayerProtocolError, match=words):
        SideChannelInbox().accept(body, PLACE)
