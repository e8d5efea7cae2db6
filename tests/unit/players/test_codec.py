"""What players say becomes rows, exactly, or an error that names the place; nothing in between."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import PlayerContentError, PlayerProtocolError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.codec import Known, decode_reply, parse_message
from runtime.players.guards import Guard
from runtime.players.links import PlayerReply
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_messages import (
    Agent,
    Moment,
    by_done,
    numbers_of,
    output_message,
    parameters_proto,
    simple_agent,
    simple_brain,
)
from tests.support.strategies_messages import moments

PLACE = Place(env_id=3, incarnation=2, step=17)


def decode(message: pb.UnityMessageProto, known: Known | None = None) -> tuple[PlayerReply, Known]:
    return decode_reply(parse_message(message.SerializeToString(), PLACE), known or Known(), Guard(PLACE))


def known_of(*brains: BrainParameters) -> Known:
    return decode(output_message([Moment(b, (simple_agent(b),)) for b in brains], announced=brains))[1]


def allowed_by_hand(agents: list[Agent], spec: ActionSpec) -> list[list[bool]] | None:
    size = spec.mask_size
    rows = [[not each for each in a.mask] if size and len(a.mask) == size else [True] * size for a in agents]
    return rows if any(False in row for row in rows) else None


@given(moments())
def test_rows_hold_what_the_wire_holds(moment: Moment) -> None:
    reply, known = decode(output_message([moment], announced=[moment.brain]))
    if not moment.agents:
        assert not reply.infos
        assert not reply.brains
        return
    assert known.brains == {"Bot": reply.brains[0]}
    assert [spec.shape for spec in reply.brains[0].observation_specs] == [
        s.shape for s in moment.brain.observation_specs
    ]
    assert reply.brains[0].action_spec == moment.brain.action_spec
    info = reply.infos["Bot"]
    split = by_done(moment.agents)
    for rows, agents in ((info.decisions, split[False]), (info.terminals, split[True])):
        assert rows.agents.tolist() == numbers_of(agents, "id")
        assert rows.rewards.tolist() == numbers_of(agents, "reward")
        assert rows.group_ids.tolist() == numbers_of(agents, "group_id")
        assert rows.group_rewards.tolist() == numbers_of(agents, "group_reward")
        for index, spec in enumerate(moment.brain.observation_specs):
            assert rows.observations[index].shape == (len(agents), *spec.shape)
            assert rows.observations[index].dtype == np.float32
            expected = [struct.pack(f"<{len(a.observations[index])}f", *a.observations[index]) for a in agents]
            assert rows.observations[index].tobytes() == b"".join(expected)
    assert info.terminals.interrupted.tolist() == numbers_of(split[True], "max_step_reached")
    masks = info.decisions.action_masks
    assert (None if masks is None else masks.tolist()) == allowed_by_hand(split[False], moment.brain.action_spec)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3), st.booleans())
def test_unpacked_numbers_and_unknown_fields_are_read(numbers: list[float], has_unknown: bool) -> None:  # noqa: FBT001
    brain = simple_brain(sizes=(3,))
    body = b"".join(b"\x0d" + struct.pack("<f", each) for each in numbers) + (b"\x7a\x01x" if has_unknown else b"")
    agent = simple_agent(brain)
    message = output_message([Moment(brain, (agent,))], announced=[brain])
    observation = message.unity_output.rl_output.agentInfos["Bot"].value[0].observations[0]
    observation.float_data.ParseFromString(body)
    observation.MergeFromString(b"\xfa\x01\x02hi")
    reply, _ = decode(message)
    assert reply.infos["Bot"].decisions.observations[0].tolist() == [numbers]


def test_silent_brains_have_empty_rows_of_the_right_shapes() -> None:
    bot, other = simple_brain("Bot", sizes=(2, 5)), simple_brain("Other?team=1")
    known = known_of(bot, other)
    reply, _ = decode(output_message([Moment(other, (simple_agent(other, 4),))]), known)
    assert list(reply.infos) == ["Bot", "Other?team=1"]
    assert [each.shape for each in reply.infos["Bot"].observations] == [(0, 2), (0, 5)]
    assert reply.infos["Other?team=1"].agents == ["$3-4"]
    assert reply.brains == ()


def test_a_brain_announced_without_agents_is_remembered_until_they_come() -> None:
    late = simple_brain("Late")
    reply, known = decode(output_message(announced=[late]))
    assert (reply.brains, dict(reply.infos)) == ((), {})
    reply, known = decode(output_message(), known)
    assert reply.brains == ()
    reply, _ = decode(output_message([Moment(late, (simple_agent(late),))]), known)
    assert [each.brain_name for each in reply.brains] == ["Late"]
    assert len(reply.infos["Late"].decisions) == 1


def test_an_agent_may_end_and_wait_in_one_message() -> None:
    brain = simple_brain()
    end = Agent(id=7, observations=((1.0, 2.0),), reward=1.0, done=True, max_step_reached=True)
    reply, _ = decode(output_message([Moment(brain, (end, simple_agent(brain, 7)))], announced=[brain]))
    assert reply.infos["Bot"].terminals.agents.tolist() == reply.infos["Bot"].decisions.agents.tolist() == [7]
    assert reply.infos["Bot"].max_reached == [True]


@pytest.mark.parametrize(
    ("proto", "spec"),
    [
        (
            pb.BrainParametersProto(
                vector_action_size_deprecated=[4], vector_action_space_type_deprecated=pb.SpaceTypeProto.continuous
            ),
            ActionSpec(4),
        ),
        (pb.BrainParametersProto(vector_action_size_deprecated=[3, 2]), ActionSpec(0, (3, 2))),
    ],
)
def test_old_action_fields_are_used_when_the_new_ones_say_nothing(
    proto: pb.BrainParametersProto, spec: ActionSpec
) -> None:
    brain = simple_brain(actions=ActionSpec(9))
    message = output_message([Moment(brain, (simple_agent(brain),))])
    proto.brain_name, proto.is_training = "Bot", True
    message.unity_output.rl_initialization_output.brain_parameters.append(proto)
    reply, _ = decode(message)
    assert reply.brains[0].action_spec == spec


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_c20_a_number_that_is_not_finite_is_named_with_its_place(bad: float) -> None:
    brain = simple_brain(sizes=(1, 2))
    known = known_of(brain)
    agents = (simple_agent(brain, 2), Agent(id=3, observations=((0.0,), (0.0, bad))))
    with pytest.raises(PlayerContentError) as caught:
        decode(output_message([Moment(brain, agents)]), known)
    text = str(caught.value)
    for part in ("environment 3 (incarnation 2)", "env step 17", "brain 'Bot'", "agent 3", "observation 1", "index 1"):
        assert part in text
    assert (caught.value.env_id, caught.value.incarnation) == (3, 2)


@pytest.mark.parametrize("field", ["reward", "group_reward"])
@pytest.mark.parametrize("done", [False, True])
def test_c20_a_reward_that_is_not_finite_is_named(field: str, done: bool) -> None:  # noqa: FBT001
    brain = simple_brain()
    bad = replace(Agent(id=5, observations=((0.0, 0.0),), done=done), **{field: float("nan")})  # type: ignore[arg-type] # one of two
    with pytest.raises(PlayerContentError, match=rf"step 17: brain 'Bot', agent 5: {field} is nan"):
        decode(output_message([Moment(brain, (bad,))], announced=[brain]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_c20_on_request_numbers_that_are_not_finite_become_zero_and_are_counted(bad: float) -> None:
    brain = simple_brain(sizes=(1, 2))
    good = Agent(id=2, observations=((1.0,), (2.0, 3.0)), reward=4.0)
    odd = Agent(id=3, observations=((bad,), (5.0, bad)), reward=bad, group_reward=bad)
    message = output_message([Moment(brain, (good, odd, replace(odd, id=4, done=True)))])
    reply, _ = decode_reply(message, known_of(brain), Guard(PLACE, "zero"))
    info = reply.infos["Bot"]
    assert info.vector_observations.tolist() == [[1.0, 2.0, 3.0], [0.0, 5.0, 0.0]]
    assert info.rewards.tolist() == [4.0, 0.0]
    assert info.decisions.group_rewards.tolist() == [0.0, 0.0]
    assert info.terminals.observations[1].tolist() == [[5.0, 0.0]]
    assert reply.replaced_numbers == 8
    assert "env step 17: brain 'Bot', agent 3: " in reply.replaced_first


def test_a_brain_that_the_player_controls_is_not_ours_unless_all_are_played() -> None:
    ours, theirs = simple_brain("Bot"), simple_brain("Own")
    moments_of = [Moment(each, (simple_agent(each),)) for each in (ours, theirs)]
    first = output_message(moments_of, announced=[ours, theirs])
    first.unity_output.rl_initialization_output.brain_parameters[1].is_training = False
    reply, known = decode(first)
    assert (list(reply.infos), reply.new_watched, list(known.brains)) == (["Bot"], ("Own",), ["Bot"])
    again, after = decode(output_message(moments_of), known)
    assert (list(again.infos), again.new_watched, after) == (["Bot"], (), known)
    played, _ = decode_reply(first, Known(), Guard(PLACE), plays_all=True)
    assert (sorted(played.infos), played.new_watched) == (["Bot", "Own"], ())


def test_a_player_that_never_says_is_training_is_trained_as_the_released_clients_would() -> None:
    brains = simple_brain("One"), simple_brain("Two")
    moments_of = [Moment(each, (simple_agent(each),)) for each in brains]
    message = output_message(moments_of, announced=list(brains))
    for proto in message.unity_output.rl_initialization_output.brain_parameters:
        proto.is_training = False
    reply, known = decode(message)
    assert (list(reply.infos), reply.new_watched) == (["One", "Two"], ())
    late = simple_brain("Late")
    second, _ = decode(output_message([*moments_of, Moment(late, (simple_agent(late),))], announced=[late]), known)
    assert (sorted(second.infos), second.new_watched) == (["Late", "One", "Two"], ())


def test_goals_and_buffers_keep_their_type_and_properties() -> None:
    specs = ObservationSpec((3,), (1,), 1, "goal"), ObservationSpec((4, 2), (4, 1), 0, "buffer")
    brain = BrainParameters(BrainName("Bot"), specs, ActionSpec(1))
    agent = Agent(id=1, observations=((1.0, 0.0, 0.0), (1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0)))
    message = output_message([Moment(brain, (agent,))], announced=[brain])
    observations = message.unity_output.rl_output.agentInfos["Bot"].value[0].observations
    observations[0].observation_type = pb.ObservationTypeProto.GOAL_SIGNAL
    reply, _ = decode(message)
    assert reply.brains[0].observation_specs == specs
    assert reply.infos["Bot"].observations[1].tolist() == [[[1, 2], [3, 4], [0, 0], [0, 0]]]


def test_two_decisions_of_one_agent_are_refused() -> None:
    brain = simple_brain()
    agents = tuple(simple_agent(brain, each) for each in (1, 7, 7))
    with pytest.raises(PlayerProtocolError, match="brain 'Bot': agent 7 asks for two decisions"):
        decode(output_message([Moment(brain, agents)], announced=[brain]))


def test_a_mask_that_forbids_a_whole_branch_is_refused() -> None:
    brain = simple_brain(actions=ActionSpec(0, (2, 3)))
    agent = Agent(id=6, observations=((0.0, 0.0),), mask=(False, True, True, True, True))
    with pytest.raises(PlayerContentError, match=r"environment 3 .*agent 6: all actions of branch 1 are masked"):
        decode(output_message([Moment(brain, (agent,))], announced=[brain]))


@pytest.mark.parametrize(
    ("observations", "words"),
    [(((0.0,), (0.0,)), "2 observations, expected 1"), (((0.0, 0.0, 0.0),), r"has shape \(3,\), expected \(2,\)")],
)
def test_observations_of_another_number_or_shape_are_refused(
    observations: tuple[tuple[float, ...], ...], words: str
) -> None:
    brain = simple_brain()
    other = simple_brain(sizes=[len(each) for each in observations])
    message = output_message([Moment(other, (Agent(id=9, observations=observations),))])
    with pytest.raises(PlayerContentError, match=f"agent 9: .*{words}"):
        decode(message, known_of(brain))


def test_fewer_numbers_than_the_shape_says_are_refused() -> None:
    brain = simple_brain(sizes=(3,))
    message = output_message([Moment(brain, (Agent(id=9, observations=((0.0, 1.0),)),))])
    with pytest.raises(PlayerContentError, match=r"agent 9: observation 0 .* has 2 numbers, expected 3"):
        decode(message, known_of(brain))


@pytest.mark.parametrize(
    "again", [simple_brain(sizes=(3,)), simple_brain(actions=ActionSpec(2)), simple_brain(sizes=(2, 2))]
)
def test_a_brain_that_changes_its_shapes_is_refused(again: BrainParameters) -> None:
    with pytest.raises(PlayerProtocolError, match="brain 'Bot' is redefined"):
        decode(output_message([Moment(again, (simple_agent(again),))], announced=[again]), known_of(simple_brain()))


def test_the_same_announcement_again_changes_nothing() -> None:
    brain = simple_brain()
    known = known_of(brain)
    reply, after = decode(output_message([Moment(brain, (simple_agent(brain),))], announced=[brain]), known)
    assert reply.brains == ()
    assert after.brains == known.brains


def test_agents_of_a_brain_never_announced_are_refused() -> None:
    stranger = simple_brain("Stranger")
    with pytest.raises(PlayerProtocolError, match=r"brain 'Stranger', which was never announced.*Known: 'Bot'"):
        decode(output_message([Moment(stranger, (simple_agent(stranger),))]), known_of(simple_brain()))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (pb.ActionSpecProto(num_continuous_actions=-1), "impossible action sizes"),
        (pb.ActionSpecProto(num_discrete_actions=1, discrete_branch_sizes=[0]), "impossible action sizes"),
        (
            pb.ActionSpecProto(num_discrete_actions=2, discrete_branch_sizes=[3]),
            "2 discrete branches and 1 branch sizes",
        ),
        (pb.ActionSpecProto(num_continuous_actions=1 << 30), "at most 1048576"),
    ],
)
def test_impossible_action_sizes_are_refused(spec: pb.ActionSpecProto, words: str) -> None:
    message = output_message()
    proto = parameters_proto(simple_brain())
    proto.action_spec.CopyFrom(spec)
    message.unity_output.rl_initialization_output.brain_parameters.append(proto)
    with pytest.raises(PlayerProtocolError, match=words):
        decode(message)


@pytest.mark.parametrize("shape", [(), (0,), (-1,), (1, 2, 3, 4), (1 << 30, 1 << 30)])
def test_impossible_shapes_are_refused(shape: tuple[int, ...]) -> None:
    brain = BrainParameters(BrainName("Bot"), (ObservationSpec(shape),), ActionSpec(1))
    agent = Agent(id=0, observations=((1.0,),))
    with pytest.raises(PlayerProtocolError, match="brain 'Bot' announces observation 0"):
        decode(output_message([Moment(brain, (agent,))], announced=[brain]))


def test_a_flood_of_announcements_is_refused() -> None:
    with pytest.raises(PlayerProtocolError, match="more than 1000 brains"):
        decode(output_message(announced=[simple_brain(f"Bot{each}") for each in range(1001)]))


def test_a_brain_without_a_name_is_refused() -> None:
    with pytest.raises(PlayerProtocolError, match="without a name"):
        decode(output_message(announced=[simple_brain("")]))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_protocol_error(body: bytes) -> None:
    try:
        decode_reply(parse_message(body, PLACE), Known(), Guard(PLACE))
    except PlayerProtocolError as error:
        assert str(error).startswith("environment 3 (incarnation 2), env step 17: ")  # noqa: PT017 - any bytes, either way


@given(moments(), st.data())
def test_a_damaged_message_gives_rows_or_a_protocol_error_and_changes_nothing(
    moment: Moment, data: st.DataObject
) -> None:
    body = bytearray(output_message([moment], announced=[moment.brain]).SerializeToString())
    position = data.draw(st.integers(0, len(body) - 1), label="position")
    body[position] = data.draw(st.integers(0, 255), label="byte")
    cut = data.draw(st.integers(0, len(body)), label="cut")
    known = known_of(simple_brain("Before"))
    before = dict(known.brains)
    try:
        _, after = decode_reply(parse_message(bytes(body[:cut]), PLACE), known, Guard(PLACE))
    except PlayerProtocolError:
        assert known.brains == before
    else:
        assert set(before) <= set(after.brains)
