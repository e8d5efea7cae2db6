"""Orders read by a template mean what the library reads in them, to the last bit, or are left to it."""

import struct

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.orders import LENGTHS_MAX, LikeOrders, OrderTemplate
from runtime.players.wire import communicator_pb2 as pb

FLOATS = st.floats(width=32)
INDICES = st.integers(0, 127)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, tuple[int, int, int]]:
    """Rows, floats and branches of one to three behaviors, with an action at least."""
    sizes = st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 3)).filter(
        lambda each: each[1] + each[2] > 0
    )
    return draw(st.dictionaries(st.text(min_size=1, max_size=6), sizes, min_size=1, max_size=3))


@st.composite
def orders(draw: st.DrawFn, shape: dict[str, tuple[int, int, int]]) -> pb.UnityMessageProto:
    """An order to step of that shape."""
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    told = message.unity_input.rl_input.agent_actions
    for name, (rows, floats, branches) in shape.items():
        for _ in range(rows):
            told[name].value.add(
                vector_actions_deprecated=draw(
                    st.lists(FLOATS, min_size=floats + branches, max_size=floats + branches)
                ),
                continuous_actions=draw(st.lists(FLOATS, min_size=floats, max_size=floats)),
                discrete_actions=draw(st.lists(INDICES, min_size=branches, max_size=branches)),
            )
    return message


def written(message: pb.UnityMessageProto) -> bytes:
    return message.SerializeToString(deterministic=True)


def quiet(floats: npt.ArrayLike) -> bytes:
    """The bytes of float32 numbers; a signaling NaN is a quiet one, as the library tells floats as doubles."""
    bits = np.asarray(floats, "<f4").view("<u4")
    return np.where(bits & 0x7FFF_FFFF > 0x7F80_0000, bits | 0x0040_0000, bits).tobytes()


def assert_read(template: OrderTemplate, message: bytes) -> None:
    """It says what the library says, or nothing."""
    told = template.read(message)
    if told is None:
        return
    parsed = pb.UnityMessageProto.FromString(message)
    expected = parsed.unity_input.rl_input.agent_actions
    assert told.keys() == expected.keys()
    for name, lists in told.items():
        rows = expected[name].value
        continuous = np.array([list(row.continuous_actions) for row in rows], "<f4").reshape(len(rows), -1)
        assert quiet(lists.continuous) == quiet(continuous)
        assert np.asarray(lists.discrete).tolist() == [list(row.discrete_actions) for row in rows]
    for name in expected:
        for row in expected[name].value:
            row.ClearField("continuous_actions")
            row.ClearField("discrete_actions")
            row.ClearField("vector_actions_deprecated")
            assert not row.ListFields()
    assert parsed.header.status == 200
    assert not parsed.unity_input.rl_input.side_channel


@given(st.data())
def test_another_order_of_the_same_shape_is_read_as_the_library_reads_it(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    first, second = data.draw(orders(shape)), data.draw(orders(shape))
    template = OrderTemplate(written(first), first)
    for each in (first, second):
        assert template.read(written(each)) is not None
        assert_read(template, written(each))


@given(st.data())
def test_an_order_in_which_bytes_were_changed_is_never_misread(data: st.DataObject) -> None:
    order = data.draw(orders(data.draw(shapes())))
    message = bytearray(written(order))
    template = OrderTemplate(bytes(message), order)
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    assert_read(template, bytes(message))


def order_of(*indices: int, value: float = 0.0) -> pb.UnityMessageProto:
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    rows = message.unity_input.rl_input.agent_actions["B"].value
    for index in indices:
        rows.add(discrete_actions=[index], value=value)
    return message


def test_a_signaling_nan_is_told_to_the_bit() -> None:
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    message.unity_input.rl_input.agent_actions["B"].value.add(continuous_actions=[1.0])
    template = OrderTemplate(written(message), message)
    told = template.read(written(message).replace(struct.pack("<f", 1.0), b"\x01\x00\x80\x7f"))
    assert told is not None
    assert np.asarray(told["B"].continuous).tobytes() == b"\x01\x00\x80\x7f"


def test_long_indices_and_uneven_rows_are_left_to_the_library() -> None:
    uneven = order_of(1, 2)
    uneven.unity_input.rl_input.agent_actions["B"].value[0].discrete_actions.append(1)
    for refused in (order_of(128), order_of(-1), uneven, order_of()):
        with pytest.raises(ValueError, match=r"byte|width"):
            OrderTemplate(written(refused), refused)
    with pytest.raises(ValueError, match="another way"):
        OrderTemplate(written(order_of(1)) + b"\x0a\x00", order_of(1))


def test_an_order_is_a_template_from_its_second_coming_on() -> None:
    like, first, second = LikeOrders(), order_of(1, 2), order_of(0, 1)
    for order in (first, second):
        assert like.read(written(order)) is None
        like.learn(written(order), order)
    told = like.read(written(first))
    assert told is not None
    assert np.asarray(told["B"].discrete).tolist() == [[1], [2]]


def test_orders_that_never_look_alike_are_not_learnt_again_and_again() -> None:
    made: list[bytes] = []

    def make(message: bytes, parsed: pb.UnityMessageProto) -> OrderTemplate:
        made.append(message)
        return OrderTemplate(message, parsed)

    like = LikeOrders(make)
    for number in range(40):
        order = order_of(1, value=1.0 + number)
        like.learn(written(order), order)
    assert len(made) == 3


def test_no_more_lengths_are_kept_than_a_few() -> None:
    like = LikeOrders()
    for count in range(2 * LENGTHS_MAX):
        order = order_of(*[1] * (count + 1))
        for _ in range(2):
            like.learn(written(order), order)
    assert like.read(written(order)) is not None
    assert like.read(written(order_of(1))) is None
