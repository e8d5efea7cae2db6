"""What players of API-8 to API-10 say becomes rows of the later generation's shape, or an error with its place."""

import io
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from runtime.errors import PlayerContentError, PlayerProtocolError, VersionMismatchError
from runtime.experience.actions import Actions
from runtime.experience.brains import ActionSpec, BrainInfo
from runtime.players.codec_gen1 import KnownGen1, decode_reply, known_gen1, parse_message
from runtime.players.dialects import generation_of
from runtime.players.guards import Guard
from runtime.players.handshake_gen1 import announced_brains, encode_answer, introduction, require_version
from runtime.players.links import PlayerReply
from runtime.players.places import Place
from runtime.players.replies_gen1 import encode_reset, encode_step
from runtime.players.wire import communicator_gen1_pb2 as pb
from tests.support.player_messages import introduction_message as introduction_gen2
from tests.support.scripted_gen1 import Listed, brain_proto, introduction_message, output_message
from tests.support.strategies_messages import floats

PLACE = Place(env_id=3, incarnation=2, step=17)
BOT = brain_proto("Bot")


def known_of(*brains: pb.BrainParametersProto, version: str = "API-9") -> KnownGen1:
    ours, watched = announced_brains(introduction(introduction_message(brains or (BOT,)), PLACE), PLACE)
    return known_gen1(ours, watched, ends_all=version != "API-10")


def decode(
    agents: Mapping[str, Sequence[Listed]],
    known: KnownGen1,
    *,
    is_first: bool = False,
    global_done: bool = False,
    watches: bool = False,
) -> tuple[PlayerReply, KnownGen1]:
    body = output_message(agents, global_done=global_done).SerializeToString()
    return decode_reply(parse_message(body, PLACE), known, Guard(PLACE), is_first=is_first, watches=watches)


def seen(agents: Sequence[Listed], known: KnownGen1 | None = None) -> KnownGen1:
    """What is known after a reset that shows these agents of `Bot`."""
    return decode({"Bot": agents}, known or known_of(), is_first=True)[1]


def at(agent: int, cell: float, **more: float) -> Listed:
    return Listed(id=agent, vector=(cell, 0.5), **more)  # type: ignore[arg-type] # rewards and flags by name


def test_done_becomes_an_end_with_the_last_observation_and_a_beginning_with_the_new_one() -> None:
    known = seen([at(-5, 1.0), at(7, 2.0)])
    reply, known = decode({"Bot": [at(7, 0.0, reward=1.0, done=True), at(-5, 3.0, reward=0.5)]}, known)
    info = reply.infos["Bot"]
    assert info.terminals.agents.tolist() == [7]
    assert info.terminals.observations[0].tolist() == [[2.0, 0.5]]
    assert info.terminals.rewards.tolist() == [1.0]
    assert info.terminals.interrupted.tolist() == [False]
    assert info.decisions.agents.tolist() == [7, -5]
    assert info.decisions.observations[0].tolist() == [[0.0, 0.5], [3.0, 0.5]]
    assert info.decisions.rewards.tolist() == [0.0, 0.5]
    reply, _ = decode({"Bot": [at(7, 9.0, done=True, max_step_reached=True)]}, known)
    assert reply.infos["Bot"].terminals.observations[0].tolist() == [[0.0, 0.5]]
    assert reply.infos["Bot"].max_reached == [True]


def test_the_reply_to_a_reset_ends_nothing() -> None:
    known = seen([at(1, 1.0)])
    reply, known = decode({"Bot": [at(1, 0.0, done=True, reward=4.0)]}, known, is_first=True)
    assert len(reply.infos["Bot"].terminals) == 0
    assert reply.infos["Bot"].decisions.rewards.tolist() == [0.0]
    reply, _ = decode({"Bot": [at(1, 2.0, done=True)]}, known)
    assert reply.infos["Bot"].terminals.observations[0].tolist() == [[0.0, 0.5]], "what came before the reset is gone"


def test_an_agent_that_ends_before_it_was_seen_shows_its_new_observation() -> None:
    reply, _ = decode({"Bot": [at(9, 4.0, done=True, reward=2.0)]}, known_of())
    assert reply.infos["Bot"].terminals.observations[0].tolist() == [[4.0, 0.5]]


def test_an_agent_that_is_silent_for_a_while_still_ends_with_what_it_showed_last() -> None:
    known = seen([at(1, 1.0), at(2, 2.0)])
    for cell in range(3):
        _, known = decode({"Bot": [at(2, float(cell))]}, known)
    reply, _ = decode({"Bot": [at(1, 8.0, done=True)]}, known)
    assert reply.infos["Bot"].terminals.observations[0].tolist() == [[1.0, 0.5]]


def test_what_is_remembered_of_agents_that_never_return_is_bounded() -> None:
    known = known_of()
    for first in range(0, 20_000, 1000):
        _, known = decode({"Bot": [at(first + each, 0.0) for each in range(1000)]}, known)
    assert len(known.last["Bot"].ids) == 4096
    assert set(range(19_000, 20_000)) <= set(known.last["Bot"].ids.tolist())


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.booleans(), floats()), unique_by=lambda each: each[0], max_size=5),
        max_size=8,
    )
)
def test_each_end_shows_the_observation_that_a_plain_dictionary_remembers(
    messages: list[list[tuple[int, bool, float]]],
) -> None:
    known, model = known_of(), dict[int, float]()
    for message in messages:
        reply, known = decode({"Bot": [at(agent, cell, done=done) for agent, done, cell in message]}, known)
        ends = reply.infos["Bot"].terminals
        expected = [(agent, model.get(agent, cell)) for agent, done, cell in message if done]
        assert list(zip(ends.agents.tolist(), ends.observations[0][:, 0].tolist(), strict=True)) == expected
        model |= {agent: cell for agent, _, cell in message}


def test_the_end_of_all_ends_everybody_and_asks_nobody() -> None:
    known = seen([at(1, 1.0), at(2, 2.0), at(3, 3.0)])
    listed = [at(1, 0.0, reward=1.0, done=True), at(2, 0.0, done=True, max_step_reached=True)]
    reply, known = decode({"Bot": listed}, known, global_done=True)
    info = reply.infos["Bot"]
    assert reply.global_done
    assert len(info.decisions) == 0
    assert info.terminals.agents.tolist() == [1, 2, 3]
    assert info.terminals.observations[0][:, 0].tolist() == [1.0, 2.0, 3.0]
    assert info.terminals.rewards.tolist() == [1.0, 0.0, 0.0]
    assert info.max_reached == [False, True, True]
    assert not known.last


def test_the_end_of_all_means_nothing_to_api_10() -> None:
    reply, _ = decode({"Bot": [at(1, 1.0)]}, known_of(version="API-10"), global_done=True)
    assert not reply.global_done
    assert len(reply.infos["Bot"].decisions) == 1


def test_brains_of_the_players_own_are_shown_only_to_those_who_ask() -> None:
    known = known_of(BOT, brain_proto("Seen", is_training=False))
    agents = {"Bot": [at(1, 0.0)], "Seen": [at(1, 1.0)]}
    reply, _ = decode(agents, known)
    assert (list(reply.infos), dict(reply.watched)) == (["Bot"], {})
    reply, _ = decode(agents, known, watches=True)
    assert list(reply.infos) == ["Bot"]
    assert reply.watched["Seen"].vector_observations.tolist() == [[1.0, 0.5]]
    assert list(known.brains) == ["Bot"]


def test_memories_texts_and_previous_actions_are_columns() -> None:
    rows = [
        Listed(id=1, vector=(0.0, 0.0), memories=(1.0, 2.0, 3.0), previous=(1.0,), text="one"),
        Listed(id=2, vector=(0.0, 0.0), memories=(4.0,)),
    ]
    info = decode({"Bot": rows}, known_of())[0].infos["Bot"]
    assert info.memories.tolist() == [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]
    assert info.previous_vector_actions.tolist() == [[1.0], [0.0]]
    assert info.text_observations == ("one", "")
    assert decode({"Bot": []}, known_of())[0].infos["Bot"].memories.shape == (0, 0)


def test_masks_forbid_what_they_name_and_a_wrong_one_says_nothing() -> None:
    rows = [Listed(id=1, vector=(0, 0), mask=(True, False)), Listed(id=2, vector=(0, 0), mask=(True,))]
    masks = decode({"Bot": rows}, known_of())[0].infos["Bot"].action_masks
    assert masks is not None
    assert masks.tolist() == [[False, True], [True, True]]
    with pytest.raises(PlayerContentError, match="agent 1: all actions of branch 0 are masked"):
        decode({"Bot": [Listed(id=1, vector=(0, 0), mask=(True, True))]}, known_of())


def png(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def test_pictures_are_bytes_with_their_channels_first_gray_or_not() -> None:
    proto = brain_proto("Bot", vector=0)
    proto.camera_resolutions.add(width=6, height=4, gray_scale=True)
    proto.camera_resolutions.add(width=2, height=3)
    pixels = [
        np.random.default_rng(each).integers(0, 256, (h, w, 3), np.uint8)
        for each, (h, w) in enumerate([(4, 6), (3, 2)])
    ]
    known = known_of(proto)
    (brain,) = known.brains.values()
    assert [(each.shape, each.dtype) for each in brain.observation_specs] == [
        ((1, 4, 6), "uint8"),
        ((3, 3, 2), "uint8"),
    ]
    agent = Listed(id=1, images=tuple(png(each) for each in pixels))
    gray, colour = decode({"Bot": [agent]}, known)[0].infos["Bot"].observations
    assert np.abs(gray[0, 0] - pixels[0].mean(axis=2)).max() <= 0.5
    assert np.array_equal(colour[0], pixels[1].transpose(2, 0, 1))
    with pytest.raises(PlayerContentError, match="agent 1: 1 visual observations, expected 2"):
        decode({"Bot": [Listed(id=1, images=(b"",))]}, known)
    with pytest.raises(PlayerContentError, match="agent 1: visual_observation_0: a picture of 2×3 pixels"):
        decode({"Bot": [Listed(id=1, images=(png(pixels[1]), png(pixels[1])))]}, known)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_c20_numbers_that_are_not_finite_are_named_or_become_zero(bad: float) -> None:
    listed = [at(1, 0.0), Listed(id=4, vector=(0.0, bad), reward=1.0)]
    with pytest.raises(PlayerContentError) as caught:
        decode({"Bot": listed}, known_of())
    for part in ("environment 3 (incarnation 2)", "env step 17", "'Bot'", "agent 4", "observation 0", "index 1"):
        assert part in str(caught.value)
    with pytest.raises(PlayerContentError, match="agent 4: reward is"):
        decode({"Bot": [Listed(id=4, vector=(0, 0), reward=bad)]}, known_of())
    message = output_message({"Bot": [*listed, Listed(id=5, vector=(0, 0), reward=bad, memories=(bad,))]})
    reply, _ = decode_reply(message, known_of(), Guard(PLACE, "zero"), is_first=False)
    assert reply.infos["Bot"].vector_observations.tolist() == [[0.0, 0.5], [0.0, 0.0], [0.0, 0.0]]
    assert reply.infos["Bot"].rewards.tolist() == [0.0, 1.0, 0.0]
    assert reply.replaced_numbers == 3


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ({"Bot": [Listed(id=1, vector=(1.0,))]}, "agent 1: 1 vector observations, expected 2"),
        ({"Bot": [at(1, 0.0), at(1, 0.0)]}, "agent 1 asks for two decisions"),
        ({"Who": [at(1, 0.0)]}, "brain 'Who', which was not announced.*'Bot'"),
        ({"Bot": [Listed(id=1, vector=(0, 0), images=(b"x",))]}, "1 visual observations, expected 0"),
        ({"Bot": [Listed(id=1, vector=(0, 0), memories=(0.0,) * ((1 << 20) + 1))]}, "at most 1048576"),
    ],
)
def test_content_that_does_not_fit_is_refused(agents: dict[str, list[Listed]], words: str) -> None:
    with pytest.raises(PlayerProtocolError, match=words):
        decode(agents, known_of())


def spec_of(**fields: object) -> ActionSpec:
    proto = brain_proto()
    for name in fields:
        proto.ClearField(name)
    proto.MergeFrom(pb.BrainParametersProto(**fields))  # type: ignore[arg-type] # fields by name
    return next(iter(known_of(proto).brains.values())).action_spec


def test_action_sizes_are_floats_or_branches() -> None:
    assert spec_of(vector_action_size=[3], vector_action_space_type=pb.SpaceTypeProto.continuous) == ActionSpec(3)
    assert spec_of(vector_action_size=[3, 2]) == ActionSpec(0, (3, 2))


def test_stacked_frames_are_one_vector() -> None:
    proto = brain_proto(vector=3)
    proto.num_stacked_vector_observations = 4
    (brain,) = known_of(proto).brains.values()
    assert brain.vector_observation_space_size == 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"brain_name": ""}, "without a name"),
        ({"vector_observation_size": -1}, "impossible observations"),
        ({"num_stacked_vector_observations": -1}, "impossible observations"),
        ({"vector_observation_size": 1 << 30}, "at most 67108864 numbers"),
        ({"vector_action_size": [0]}, "impossible action sizes"),
        ({"camera_resolutions": [pb.ResolutionProto(width=1 << 20, height=1 << 20)]}, "at most 67108864 numbers"),
        ({"camera_resolutions": [pb.ResolutionProto(width=0, height=3)]}, "impossible observations"),
    ],
)
def test_impossible_brains_are_refused(change: dict[str, object], words: str) -> None:
    proto = brain_proto()
    for name, value in change.items():
        proto.ClearField(name)
        proto.MergeFrom(pb.BrainParametersProto(**{name: value}))  # type: ignore[arg-type] # a field by name
    with pytest.raises(PlayerProtocolError, match=words):
        known_of(proto)


def test_a_brain_that_is_announced_twice_and_a_flood_of_brains_are_refused() -> None:
    with pytest.raises(PlayerProtocolError, match="'Bot' is announced twice"):
        known_of(BOT, BOT)
    with pytest.raises(PlayerProtocolError, match="more than 1000 brains"):
        known_of(*(brain_proto(f"Bot{each}") for each in range(1001)))


@pytest.mark.parametrize("version", ["API-8", "API-9", "API-10"])
def test_the_three_versions_are_accepted_and_known_by_their_bytes(version: str) -> None:
    message = introduction_message((BOT,), version=version)
    require_version(introduction(message, PLACE), PLACE)
    assert generation_of(message.SerializeToString(), PLACE) == 1
    assert generation_of(introduction_gen2().SerializeToString(), PLACE) == 2


@pytest.mark.parametrize("version", ["API-7", "API-11", "1.5.0", ""])
def test_other_versions_on_the_old_service_are_refused_with_both(version: str) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        require_version(introduction(introduction_message(version=version), PLACE), PLACE)
    for part in (repr(version), "API-8, API-9, API-10", "1.5.0", "environment 3 (incarnation 2)", "Release 1"):
        assert part in str(caught.value)
    assert not caught.value.is_restartable


def test_a_first_message_that_introduces_nobody_is_refused() -> None:
    with pytest.raises(PlayerProtocolError, match="does not introduce it"):
        introduction(output_message({}), PLACE)


def test_the_answer_and_the_orders_are_the_bytes_of_the_protocol() -> None:
    assert encode_answer(seed=0) == bytes.fromhex("0a0308c801 1a02 1200")
    assert encode_answer(seed=1) == bytes.fromhex("0a0308c801 1a04 1202 0801")
    assert encode_reset({}, train_mode=True) == bytes.fromhex("0a0308c801 1a08 0a06 1200 1801 2001")
    assert encode_step({}) == bytes.fromhex("0a0308c801 1a02 0a00")
    one = Actions(np.zeros((1, 0), np.float32), np.array([[2]], np.int32))
    step = "0a0308c801 1a13 0a11 0a0f 0a03 426f74 1208 0a06 0a04 00000040"
    assert encode_step({"Bot": one}) == bytes.fromhex(step)
    message = pb.UnityMessage.FromString(encode_reset({"size": 2.0}, train_mode=False))
    assert dict(message.unity_input.rl_input.environment_parameters.float_parameters) == {"size": 2.0}
    assert not message.unity_input.rl_input.is_training


@st.composite
def action_rows(draw: st.DrawFn) -> Actions:
    """Actions of any sizes, now and then with what old players keep."""
    rows, continuous, branches = draw(st.integers(1, 8)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    numbers = draw(st.lists(floats(), min_size=rows * continuous, max_size=rows * continuous))
    indices = draw(st.lists(st.integers(0, 1000), min_size=rows * branches, max_size=rows * branches))
    keeps = draw(st.booleans())
    return Actions(
        np.array(numbers, np.float32).reshape(rows, continuous),
        np.array(indices, np.int32).reshape(rows, branches),
        memories=np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) if keeps else None,
        texts=tuple(draw(st.lists(st.text(max_size=4), min_size=rows, max_size=rows))) if keeps else (),
        values=np.ones(rows, np.float32) if keeps else None,
    )


def by_the_library(actions: Mapping[str, Actions]) -> pb.UnityMessage:
    message = pb.UnityMessage(header=pb.Header(status=200))
    message.unity_input.rl_input.SetInParent()
    for name, rows in actions.items():
        values = message.unity_input.rl_input.agent_actions[name].value
        for row, numbers in enumerate(rows.to_array().tolist()):
            action = values.add(vector_actions=numbers)
            if rows.memories is not None and rows.values is not None:
                action.memories.extend(rows.memories[row].tolist())
                action.text_actions = rows.texts[row]
                action.value = rows.values[row]
    return message


@given(st.dictionaries(st.text(max_size=5), action_rows(), max_size=3))
def test_a_step_says_what_the_library_would_say(actions: dict[str, Actions]) -> None:
    assert pb.UnityMessage.FromString(encode_step(actions)) == by_the_library(actions)


@given(st.binary(max_size=200))
def test_any_bytes_give_rows_or_a_protocol_error(body: bytes) -> None:
    try:
        message = parse_message(body, PLACE)
        decode_reply(message, known_of(), Guard(PLACE), is_first=False)
        known_gen1(*announced_brains(introduction(message, PLACE), PLACE), ends_all=True)
    except PlayerProtocolError as error:
        assert str(error).startswith("environment 3 (incarnation 2), env step 17: ")  # noqa: PT017 - any bytes, either way


@given(st.data())
def test_a_damaged_message_gives_rows_or_a_protocol_error_and_changes_nothing(data: st.DataObject) -> None:
    known = seen([at(1, 1.0), at(2, 2.0)])
    body = bytearray(output_message({"Bot": [at(1, 1.0, done=True), at(2, 3.0, reward=1.0)]}).SerializeToString())
    position = data.draw(st.integers(0, len(body) - 1), label="position")
    body[position] = data.draw(st.integers(0, 255), label="byte")
    cut = data.draw(st.integers(0, len(body)), label="cut")
    try:
        reply, _ = decode_reply(parse_message(bytes(body[:cut]), PLACE), known, Guard(PLACE), is_first=False)
    except PlayerProtocolError:
        pass
    else:
        assert isinstance(reply.infos["Bot"], BrainInfo)
        assert np.isfinite(reply.infos["Bot"].vector_observations).all()
    assert known.last["Bot"].observations[0].tolist() == [[1.0, 0.5], [2.0, 0.5]]


def test_unpacked_numbers_are_read() -> None:
    agent = Listed(id=1)
    message = output_message({"Bot": [agent]})
    body = b"".join(b"\x0d" + struct.pack("<f", each) for each in (1.0, 2.0))
    message.unity_output.rl_output.agentInfos["Bot"].value[0].MergeFromString(body)
    parsed = parse_message(message.SerializeToString(), PLACE)
    reply, _ = decode_reply(parsed, known_of(), Guard(PLACE), is_first=False)
    assert reply.infos["Bot"].vector_observations.tolist() == [[1.0, 2.0]]
