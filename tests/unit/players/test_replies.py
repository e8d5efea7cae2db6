"""What we send to players is what the protocol's tables say, byte for byte where it matters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ShapeError
from runtime.experience.actions import Actions
from runtime.experience.brains import ActionSpec, BrainInfo, BrainParameters, empty_rows
from runtime.players.codec import Known, decode_reply
from runtime.players.guards import Guard
from runtime.players.places import Place
from runtime.players.replies import CLOSING, encode_reset, encode_step, require_actions
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_messages import Moment, output_message, simple_agent, simple_brain
from tests.support.strategies_messages import floats


@st.composite
def action_rows(draw: st.DrawFn) -> Actions:
    """Actions of any sizes; now and then indices too long for one byte."""
    rows, continuous, branches = draw(st.integers(1, 12)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    largest = draw(st.sampled_from([3, 127, 128, 100_000]))
    numbers = draw(st.lists(floats(), min_size=rows * continuous, max_size=rows * continuous))
    indices = draw(st.lists(st.integers(0, largest), min_size=rows * branches, max_size=rows * branches))
    return Actions(
        np.array(numbers, np.float32).reshape(rows, continuous), np.array(indices, np.int32).reshape(rows, branches)
    )


def by_the_library(actions: dict[str, Actions], side_channel: bytes) -> pb.UnityMessageProto:
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    message.unity_input.rl_input.side_channel = side_channel
    for name, rows in actions.items():
        values = message.unity_input.rl_input.agent_actions[name].value
        for continuous, discrete in zip(rows.continuous.tolist(), rows.discrete.tolist(), strict=True):
            values.add(
                continuous_actions=continuous,
                discrete_actions=discrete,
                vector_actions_deprecated=[*continuous, *map(float, discrete)],
            )
    return message


@given(st.dictionaries(st.text(max_size=5), action_rows(), max_size=3), st.binary(max_size=300))
def test_a_step_says_what_the_library_would_say(actions: dict[str, Actions], side_channel: bytes) -> None:
    assert pb.UnityMessageProto.FromString(encode_step(actions, side_channel)) == by_the_library(actions, side_channel)


def test_brains_without_rows_are_left_out() -> None:
    nothing = Actions(np.zeros((0, 2), np.float32), np.zeros((0, 1), np.int32))
    message = pb.UnityMessageProto.FromString(encode_step({"Bot": nothing}))
    assert not message.unity_input.rl_input.agent_actions
    assert message.unity_input.HasField("rl_input")


def test_reset_and_end_are_the_bytes_of_the_protocol() -> None:
    assert bytes.fromhex("0a03089003") == CLOSING
    assert encode_reset() == bytes.fromhex("0a0308c801 1a04 0a02 2001")
    message = pb.UnityMessageProto.FromString(encode_reset(b"abc"))
    assert message.unity_input.rl_input.command == pb.CommandProto.RESET
    assert message.unity_input.rl_input.side_channel == b"abc"


def waiting(brain: BrainParameters, count: int) -> dict[str, BrainInfo]:
    agents = tuple(simple_agent(brain, each) for each in range(count))
    place = Place(0)
    if not agents:
        return {brain.brain_name: BrainInfo(*empty_rows(brain))}
    return dict(
        decode_reply(output_message([Moment(brain, agents)], announced=[brain]), Known(), Guard(place))[0].infos
    )


def rows(continuous: list[list[float]], discrete: list[list[int]]) -> Actions:
    return Actions(np.array(continuous, np.float32), np.array(discrete, np.int32))


HYBRID = simple_brain(actions=ActionSpec(1, (3,)))


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({}, "no actions for brain 'Bot', where 2 agents wait"),
        ({"Bot": rows([[0.0]], [[0]])}, r"shapes \(1, 1\) and \(1, 1\).*expected continuous \(2, 1\)"),
        ({"Bot": rows([[0.0], [np.nan]], [[0], [0]])}, "not finite"),
        ({"Bot": rows([[0.0], [0.0]], [[0], [3]])}, "outside its branches"),
        ({"Bot": rows([[0.0], [0.0]], [[0], [-1]])}, "outside its branches"),
        ({"Nobody": rows([[0.0]], [[0]])}, "brain 'Nobody', which this player does not have"),
    ],
)
def test_actions_that_do_not_fit_are_refused(actions: dict[str, Actions], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        require_actions(actions, waiting(HYBRID, 2), {"Bot": HYBRID})


def test_fitting_actions_pass_and_silent_brains_need_none() -> None:
    require_actions({"Bot": rows([[0.0], [1.0]], [[0], [2]])}, waiting(HYBRID, 2), {"Bot": HYBRID})
    require_actions({}, waiting(HYBRID, 0), {"Bot": HYBRID})
