"""The player's phases and refusals: every legal reply moves it on, every other ends it with a sentence."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.errors import TrainerMistakeError
from fakeunity.player import Phase, Player
from fakeunity.side_channels import ENGINE_CONFIGURATION, ENVIRONMENT_PARAMETERS, Sampler
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import closing, handshake, message, reset
from tests.support.scripted import actions
from tests.unit.fakeunity.opening import opened, started


def step(**rows: list[pb.AgentActionProto]) -> bytes:
    answer = message()
    answer.unity_input.rl_input.command = pb.STEP
    for name, sent in rows.items():
        answer.unity_input.rl_input.agent_actions[name].value.extend(sent)
    return answer.SerializeToString()


def running(scene: str, agents: int) -> Player:
    player = Player(scene, agents=agents)
    player.hello()
    player.reply(handshake())
    player.reply(reset())
    return player


def test_calls_follow_the_sequence_of_the_protocol() -> None:
    player = Player("basic", agents=2)
    hello = pb.UnityMessageProto.FromString(player.hello() or b"")
    assert hello.unity_output.rl_initialization_output.communication_version == "1.5.0"
    assert player.reply(handshake()) == bytes.fromhex("0a0308c801")
    first = pb.UnityMessageProto.FromString(player.reply(reset()) or b"")
    assert [p.brain_name for p in first.unity_output.rl_initialization_output.brain_parameters] == ["Basic"]
    assert len(first.unity_output.rl_output.agentInfos["Basic"].value) == 2
    second = pb.UnityMessageProto.FromString(player.reply(step(Basic=[actions(discrete=[2])] * 2)) or b"")
    assert not second.unity_output.HasField("rl_initialization_output")


def test_a_player_says_hello_once_and_never_after_its_end() -> None:
    player = running("basic", agents=1)
    with pytest.raises(ValueError, match="said hello already"):
        player.hello()
    player.close()
    assert player.hello() is None
    memory = opened("basic")
    memory.close()
    assert memory.exchange(None) is None


def quitting() -> bytes:
    answer = message()
    answer.unity_input.rl_input.command = pb.QUIT
    return answer.SerializeToString()


@pytest.mark.parametrize("goodbye", [closing(), quitting(), message(500).SerializeToString(), b""])
@pytest.mark.parametrize("phase", list(Phase))
def test_goodbyes_end_the_player_in_every_phase(goodbye: bytes, phase: Phase) -> None:
    player = Player("basic", agents=1)
    player.hello()
    for reply in {Phase.GREETING: [], Phase.READY: [handshake()]}.get(phase, [handshake(), reset()]):
        player.reply(reply)
    if phase is Phase.ENDED:
        player.close()
    assert player.reply(goodbye) is None
    assert player.phase is Phase.ENDED
    assert player.reply(reset()) is None


def test_a_step_before_any_reset_is_taken_for_one_and_not_counted() -> None:
    player = Player("basic", agents=1)
    player.reply(handshake())
    assert b"Basic" in (player.reply(step()) or b"")
    assert player.counters.env_steps == 0


@pytest.mark.parametrize("version", ["0.15.0", "2.0.0", "", "x"])
def test_another_major_version_is_refused_naming_both(version: str) -> None:
    with pytest.raises(TrainerMistakeError, match=f"communicator '{version}', this player '1.5.0'"):
        Player("basic", agents=1).reply(handshake(version=version))


@pytest.mark.parametrize("version", ["1.0.0", "1.4.0", "1.9.0"])
def test_another_minor_version_is_welcome(version: str) -> None:
    assert Player("basic", agents=1).reply(handshake(version=version)) is not None


def test_a_first_reply_without_handshake_is_refused() -> None:
    with pytest.raises(TrainerMistakeError, match="no rl_initialization_input"):
        Player("basic", agents=1).reply(reset())


@pytest.mark.parametrize(
    ("scene", "reply", "words"),
    [
        ("basic", step(Basic=[actions(discrete=[2])]), "'Basic': 1 action rows arrived for 2 waiting agents"),
        ("basic", step(Basic=[actions(discrete=[2])] * 3), "3 action rows arrived for 2 waiting"),
        ("basic", step(Nobody=[actions(discrete=[2])]), "behavior 'Nobody'; announced are"),
        ("basic", step(Basic=[actions(discrete=[3])] * 2), "agent 0, branch 0: action 3 is not in 0..2"),
        ("basic", step(Basic=[actions(discrete=[0]), actions(discrete=[-1])]), "agent 1, branch 0: action -1 is not"),
        ("basic", step(Basic=[actions(discrete=[0, 0])] * 2), "row of 2 discrete actions arrived, expected 1"),
        (
            "basic",
            step(Basic=[actions(discrete=[0], continuous=[1.0])] * 2),
            "1 continuous actions arrived, expected 0",
        ),
        ("balance", step(Balance=[actions(continuous=[0.0])] * 2), "row of 1 continuous actions arrived, expected 2"),
        (
            "balance",
            step(Balance=[actions(continuous=[0, 0]), actions(continuous=[0, float("nan")])]),
            "agent 1: continuous action 1 is nan",
        ),
        ("hybrid", step(Hybrid=[actions(continuous=[0, float("inf")], discrete=[0, 0])] * 2), "action 1 is inf"),
        ("basic", b"\xff\xff", "2 bytes arrived that are no UnityMessageProto"),
    ],
)
def test_actions_no_world_accepts_end_the_player_and_say_why(scene: str, reply: bytes, words: str) -> None:
    player = running(scene, agents=2)
    with pytest.raises(TrainerMistakeError) as caught:
        player.reply(reply)
    assert words in str(caught.value)
    assert player.phase is Phase.ENDED


def test_a_masked_action_is_refused_naming_agent_branch_and_action() -> None:
    driver = started("masked?agents=2", lambda _p, info: actions(discrete=[list(info.action_mask).index(True), 0]))
    with pytest.raises(TrainerMistakeError, match=r"'Masked', agent 0, branch 0: action \d+ is masked"):
        driver.step()


@pytest.mark.parametrize("scene", ["basic", "balance", "hybrid", "masked", "crowd"])
def test_agents_nobody_decided_for_do_the_default_and_count_no_decision(scene: str) -> None:
    player = running(scene, agents=3)
    for _ in range(30):
        assert player.reply(step()) is not None
    assert (player.counters.env_steps, player.counters.decisions, player.counters.agent_steps) == (30, 0, 0)


def channel(uuid_bytes: bytes, payload: bytes) -> bytes:
    return uuid_bytes + struct.pack("<i", len(payload)) + payload


def parameter(key: str, rest: bytes) -> bytes:
    payload = struct.pack("<i", len(key)) + key.encode() + rest
    return channel(ENVIRONMENT_PARAMETERS.bytes_le, payload)


def test_environment_parameters_are_remembered_and_other_channels_pass() -> None:
    player = opened("basic")
    player.exchange(None)
    player.exchange(handshake())
    engine = channel(ENGINE_CONFIGURATION.bytes_le, struct.pack("<if", 2, 20.0))
    unknown = channel(bytes(range(16)), b"whatever")
    gravity = parameter("gravity", struct.pack("<if", 0, 9.5))
    player.exchange(reset(engine + gravity + unknown + parameter("m", struct.pack("<iiiff", 1, 5, 0, 0.5, 2.0))))
    assert player.parameters == {"gravity": 9.5, "m": Sampler("uniform", 5, (0.5, 2.0))}
    player.exchange(reset(parameter("gravity", struct.pack("<if", 0, 1.5))))
    assert player.parameters["gravity"] == 1.5


def test_a_side_channel_cut_short_is_the_trainers_mistake() -> None:
    player = opened("basic")
    player.exchange(None)
    player.exchange(handshake())
    with pytest.raises(TrainerMistakeError, match="side channel"):
        player.exchange(reset(b"too short"))


@given(st.binary(max_size=60))
def test_any_bytes_are_answered_or_refused_and_nothing_else(garbage: bytes) -> None:
    player = running("basic", agents=1)
    try:
        player.reply(garbage)
    except TrainerMistakeError:
        assert player.phase is Phase.ENDED
