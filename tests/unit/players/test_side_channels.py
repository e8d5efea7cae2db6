"""Side channels: the bytes that players expect, and what becomes of those that they send."""

import math
import struct
import uuid
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import EnvironmentFactoryError, PlayerProtocolError, UsageError
from runtime.experience.parameters import GaussianDraw, MultiRangeDraw, UniformDraw, drawn_value
from runtime.experience.stats import Stat, StatAggregation
from runtime.players.builtin_channels import (
    EngineConfig,
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    FloatPropertiesChannel,
    RawBytesChannel,
    StatsSideChannel,
    TrainingAnalyticsSideChannel,
)
from runtime.players.channel_hub import SideChannelHub
from runtime.players.channels import IncomingMessage, OutgoingMessage, SideChannel
from runtime.players.places import Place
from runtime.players.side_channels import (
    FLOAT_PROPERTIES,
    STATS,
    TRAINING_ANALYTICS,
    EngineSettings,
    container,
    engine_configuration,
    environment_parameters,
    read_container,
)
from runtime.players.wire import communicator_pb2 as pb

PLACE = Place(1, 0, 4)
MINE = UUID(int=7)


def accept(hub: SideChannelHub, body: bytes) -> None:
    """What a conversation does with the side channel bytes of one message."""
    hub.deliver(hub.read(body, PLACE), PLACE)


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


def test_samplers_are_a_seed_a_kind_and_their_numbers() -> None:
    body = environment_parameters({"m": UniformDraw(min_value=0.5, max_value=2.0, seed=5)})
    assert body[20:] == bytes.fromhex("01000000 6d 01000000 05000000 00000000 0000003f 00000040")
    body = environment_parameters({"m": GaussianDraw(mean=1.0, st_dev=2.0, seed=-1)})
    assert body[20:] == bytes.fromhex("01000000 6d 01000000 ffffffff 01000000 0000803f 00000040")
    body = environment_parameters({"m": MultiRangeDraw(intervals=((0.0, 1.0), (2.0, 3.0)), seed=1)})
    numbers = bytes.fromhex("01000000 6d 01000000 01000000 02000000 04000000") + struct.pack("<4f", 0, 1, 2, 3)
    assert body[20:] == numbers


@pytest.mark.parametrize("value", [1e300, UniformDraw(min_value=0.0, max_value=1.0, seed=1 << 31)])
def test_a_parameter_that_the_wire_cannot_carry_is_refused(value: float | UniformDraw) -> None:
    with pytest.raises(UsageError, match=r"environment parameter 'size' is .*expected floats and a seed of 32 bits"):
        environment_parameters({"size": value})


@given(st.integers(0, 1000), st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_drawn_value_is_in_range_and_depends_on_seed_and_reset_alone(reset: int, seed: int) -> None:
    uniform = UniformDraw(min_value=2.0, max_value=3.0, seed=seed)
    ranges = MultiRangeDraw(intervals=((0.0, 1.0), (5.0, 5.0)), seed=seed)
    assert 2.0 <= drawn_value(uniform, reset=reset) < 3.0
    assert 0.0 <= drawn_value(ranges, reset=reset) < 1.0
    assert drawn_value(uniform, reset=reset) == drawn_value(uniform, reset=reset)
    assert drawn_value(uniform, reset=reset) != drawn_value(uniform, reset=reset + 1)
    assert drawn_value(GaussianDraw(mean=4.0, st_dev=0.0, seed=seed), reset=reset) == 4.0
    assert drawn_value(MultiRangeDraw(intervals=((5.0, 5.0),)), reset=reset) == 5.0
    assert drawn_value(7, reset=reset) == 7.0


def test_ids_of_statistics_and_analytics_are_derived_from_their_names() -> None:
    assert uuid.uuid5(uuid.NAMESPACE_URL, "com.unity.ml-agents/StatsSideChannel") == STATS
    assert uuid.uuid5(uuid.NAMESPACE_URL, "com.unity.ml-agents/TrainingAnalyticsSideChannel") == TRAINING_ANALYTICS


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=50)), max_size=5))
def test_records_come_out_as_they_went_in(records: list[tuple[uuid.UUID, bytes]]) -> None:
    body = b"".join(container(channel, payload) for channel, payload in records)
    assert list(read_container(body, PLACE)) == records


@given(st.binary(max_size=100))
def test_any_bytes_are_taken_in_or_refused_as_a_whole(body: bytes) -> None:
    inbox = SideChannelHub()
    try:
        accept(inbox, body)
    except PlayerProtocolError as error:
        assert str(error).startswith("environment 1 (incarnation 0), env step 4: ")  # noqa: PT017 - any bytes, either way
        assert (inbox.take_stats(), dict(inbox.ignored)) == ((), {})


def test_statistics_are_kept_until_taken() -> None:
    inbox = SideChannelHub()
    body = container(STATS, stat_payload("height", 1.5, 2)) + container(STATS, stat_payload("old", 2.0, None))
    accept(inbox, body)
    expected = Stat("height", 1.5, StatAggregation.SUM), Stat("old", 2.0, StatAggregation.AVERAGE)
    assert inbox.take_stats() == expected
    assert inbox.take_stats() == ()


def test_channels_that_nobody_reads_are_counted() -> None:
    inbox = SideChannelHub()
    stranger = uuid.UUID(int=7)
    accept(inbox, container(stranger, b"abc") * 2)
    assert inbox.ignored == {str(stranger): 2}


def test_a_flood_of_statistics_is_bounded() -> None:
    inbox = SideChannelHub()
    accept(inbox, container(STATS, stat_payload("x", 0.0, 0)) * 10_002)
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
        accept(SideChannelHub(), body)


def test_statistics_that_are_not_finite_are_dropped_and_counted() -> None:
    hub = SideChannelHub()
    accept(hub, container(STATS, stat_payload("x", math.nan, 0)) + container(STATS, stat_payload("y", 1.0, 1)))
    assert (hub.take_stats(), hub.stats_dropped) == ((Stat("y", 1.0, StatAggregation.MOST_RECENT),), 1)


class Echo(SideChannel):
    """Sends back what it got, as a user's channel might."""

    def on_message_received(self, msg: IncomingMessage) -> None:
        answer = OutgoingMessage()
        answer.write_string(msg.read_string() + "!")
        self.queue_message_to_send(answer)


def test_a_channel_of_the_users_hears_and_speaks() -> None:
    hub = SideChannelHub([Echo(MINE)])
    heard = OutgoingMessage()
    heard.write_string("hello")
    accept(hub, container(MINE, bytes(heard.buffer)))
    assert hub.take_outgoing() == container(MINE, struct.pack("<i", 6) + b"hello!")
    assert hub.take_outgoing() == b""
    assert hub.ignored == {}


def test_a_channel_that_fails_ends_the_environment_with_its_own_words() -> None:
    class Broken(Echo):
        def on_message_received(self, msg: IncomingMessage) -> None:
            raise KeyError("mine")

    with pytest.raises(EnvironmentFactoryError, match=r"(?s)environment 1 .*Broken .*KeyError: 'mine'.*Traceback"):
        accept(SideChannelHub([Broken(MINE)]), container(MINE, b""))


def test_an_id_belongs_to_one_channel() -> None:
    with pytest.raises(UsageError, match=f"two side channels with the id {MINE}"):
        SideChannelHub([Echo(MINE), RawBytesChannel(MINE)])


@given(
    st.booleans(),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.floats(width=32, allow_nan=False),
    st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    st.text(st.characters(max_codepoint=127), max_size=9),
)
def test_values_are_read_as_they_were_written_and_then_come_defaults(
    truth: bool,  # noqa: FBT001 - drawn
    whole: int,
    number: float,
    numbers: list[float],
    text: str,
) -> None:
    message = OutgoingMessage()
    message.write_bool(truth)
    message.write_int32(whole)
    message.write_float32(number)
    message.write_float32_list(numbers)
    message.write_string(text)
    read = IncomingMessage(bytes(message.buffer))
    assert (read.read_bool(), read.read_int32(), read.read_float32()) == (truth, whole, number)
    assert (read.read_float32_list(), read.read_string()) == (numbers, text)
    assert (read.read_bool(default_value=True), read.read_int32(5), read.read_float32(0.5)) == (True, 5, 0.5)
    assert (read.read_float32_list([1.0]), read.read_string("none")) == ([1.0], "none")


@given(st.binary(max_size=40))
def test_any_bytes_can_be_read_as_anything(body: bytes) -> None:
    for name in ("read_bool", "read_int32", "read_float32", "read_float32_list", "read_string"):
        message = IncomingMessage(body)
        for _ in range(45):
            getattr(message, name)()
        assert message.offset == len(body)


def test_what_the_wire_cannot_carry_is_refused_when_it_is_written() -> None:
    with pytest.raises(UsageError, match="not ASCII"):
        OutgoingMessage().write_string("ä")
    with pytest.raises(UsageError, match="expected 32 bits"):
        OutgoingMessage().write_int32(1 << 31)
    message = OutgoingMessage()
    message.write_int32(1)
    with pytest.raises(UsageError, match="begun with other values"):
        message.set_raw_bytes(b"x")


def test_a_queue_that_nobody_empties_is_bounded() -> None:
    channel = RawBytesChannel(MINE)
    for _ in range(10_000):
        channel.send_raw_data(b"")
    with pytest.raises(UsageError, match="10000 messages wait on side channel"):
        channel.send_raw_data(b"")


def queued(channel: SideChannel) -> list[bytes]:
    return list(channel.take_queued_messages())


def test_engine_settings_of_a_channel_are_those_of_the_run() -> None:
    channel = EngineConfigurationChannel()
    channel.set_configuration(EngineConfig(84, 84, 5, 20.0, -1, 60))
    body = b"".join(container(channel.channel_id, each) for each in queued(channel))
    assert body == engine_configuration(EngineSettings())
    with pytest.raises(UsageError, match="give both or none"):
        channel.set_configuration_parameters(width=3)


def test_parameters_of_a_channel_are_those_of_a_reset() -> None:
    channel = EnvironmentParametersChannel()
    channel.set_float_parameter("a", 1.0)
    channel.set_uniform_sampler_parameters("b", 0.0, 1.0, 2)
    channel.set_gaussian_sampler_parameters("c", 0.0, 1.0, 3)
    channel.set_multirangeuniform_sampler_parameters("d", [(0.0, 1.0)], 4)
    expected: Mapping[str, float | UniformDraw | GaussianDraw | MultiRangeDraw] = {
        "a": 1.0,
        "b": UniformDraw(min_value=0.0, max_value=1.0, seed=2),
        "c": GaussianDraw(mean=0.0, st_dev=1.0, seed=3),
        "d": MultiRangeDraw(intervals=((0.0, 1.0),), seed=4),
    }
    assert b"".join(container(channel.channel_id, e) for e in queued(channel)) == environment_parameters(expected)


def test_float_properties_go_both_ways() -> None:
    channel = FloatPropertiesChannel()
    accept(SideChannelHub([channel]), container(FLOAT_PROPERTIES, struct.pack("<i4sf", 4, b"size", 2.5)))
    channel.set_property("speed", 0.5)
    assert queued(channel) == [struct.pack("<i5sf", 5, b"speed", 0.5)]
    assert (channel.get_property("size"), channel.get_property("none")) == (2.5, None)
    assert channel.list_properties() == ["size", "speed"]
    assert channel.get_property_dict_copy() == {"size": 2.5, "speed": 0.5}


def test_raw_bytes_go_both_ways() -> None:
    channel = RawBytesChannel(MINE)
    accept(SideChannelHub([channel]), container(MINE, b"\x00one") + container(MINE, b"two"))
    assert channel.get_and_clear_received_messages() == [b"\x00one", b"two"]
    assert channel.get_and_clear_received_messages() == []
    channel.send_raw_data(b"three")
    assert queued(channel) == [b"three"]


def test_statistics_reach_the_run_and_a_channel_of_the_users() -> None:
    channel = StatsSideChannel()
    hub = SideChannelHub([channel])
    accept(hub, container(STATS, stat_payload("x", 0.5, 3)) + container(STATS, stat_payload("x", 1.5, 3)))
    kind = StatAggregation.HISTOGRAM
    assert channel.get_and_reset_stats() == {"x": [(0.5, kind), (1.5, kind)]}
    assert channel.get_and_reset_stats() == {}
    assert hub.take_stats() == (Stat("x", 0.5, kind), Stat("x", 1.5, kind))


def test_analytics_are_a_message_with_its_type() -> None:
    channel = TrainingAnalyticsSideChannel()
    channel.environment_initialized(pb.TrainingEnvironmentInitialized(mlagents_version="1"))
    channel.behavior_initialized(pb.TrainingBehaviorInitialized(behavior_name="b"))
    kinds = [b"TrainingEnvironmentInitialized", b"TrainingBehaviorInitialized"]
    for body, kind in zip(queued(channel), kinds, strict=True):
        assert b"type.googleapis.com/communicator_objects." + kind in body


@pytest.mark.parametrize(
    "channel", [EngineConfigurationChannel(), EnvironmentParametersChannel(), TrainingAnalyticsSideChannel()]
)
def test_channels_on_which_players_say_nothing_refuse_what_they_say(channel: SideChannel) -> None:
    with pytest.raises(PlayerProtocolError, match="3 bytes"):
        accept(SideChannelHub([channel]), container(channel.channel_id, b"abc"))
