"""The bytes of the protocol's own examples, written out by hand: what a player sends, and what it makes of them."""

import pytest

from fakeunity.side_channels import Sampler
from runtime.players.wire import communicator_gen1_pb2 as old
from runtime.players.wire import communicator_pb2 as new
from tests.unit.fakeunity.opening import opened

HEADER_200 = "0a0308c801"
HEADER_400 = "0a03089003"


def text(value: str) -> str:
    return value.encode().hex()


def test_a_player_of_api_9_says_hello_in_these_bytes() -> None:
    """Basic: name, version, brain (20 numbers, 1 frame, branch of 3, discrete, Basic, trained), no reset parameters."""
    brain = "0814" + "1001" + "1a0103" + "3a05" + text("Basic") + "4001"
    said = "0a07" + text("Academy") + "1205" + text("API-9") + f"2a{len(brain) // 2:02x}" + brain + "3200"
    output = f"12{len(said) // 2:02x}" + said
    assert (
        opened("basic?protocol=API-9").exchange(None) or b""
    ).hex() == HEADER_200 + f"12{len(output) // 2:02x}" + output


def test_a_player_of_1_0_says_hello_in_these_bytes() -> None:
    said = "0a10" + text("AcademySingleton") + "1205" + text("1.0.0") + "3a0d" + text("1.3.0-preview") + "42020801"
    output = f"12{len(said) // 2:02x}" + said
    assert (
        opened("basic?protocol=1.0.0").exchange(None) or b""
    ).hex() == HEADER_200 + f"12{len(output) // 2:02x}" + output


def test_a_player_of_1_5_tells_all_seven_capabilities() -> None:
    capabilities = "0801" + "1001" + "1801" + "2001" + "2801" + "3001" + "3801"
    said = "0a10" + text("AcademySingleton") + "1205" + text("1.5.0") + "3a05" + text("3.0.0") + "420e" + capabilities
    output = f"12{len(said) // 2:02x}" + said
    assert (opened("basic").exchange(None) or b"").hex() == HEADER_200 + f"12{len(output) // 2:02x}" + output


@pytest.mark.parametrize("protocol", ["API-8", "API-9", "API-10", "1.0.0", "1.5.0"])
def test_the_second_call_is_a_header_and_status_400_ends_the_player(protocol: str) -> None:
    """The reply to the handshake is there and empty when the seed is 0; 1.x needs the version besides."""
    handshake = "1200" if protocol.startswith("API") else "12071205" + text("1.5.0")
    player = opened(f"basic?protocol={protocol}")
    player.exchange(None)
    reply = bytes.fromhex(HEADER_200 + f"1a{len(handshake) // 2:02x}" + handshake)
    assert (player.exchange(reply) or b"").hex() == HEADER_200
    assert player.exchange(bytes.fromhex(HEADER_400)) is None


def test_the_first_reset_of_2019_and_the_rows_that_follow_it() -> None:
    """RESET with empty parameters in training mode; one agent at cell 10 that has done nothing, under id -1."""
    player = opened("basic?protocol=API-8")
    player.exchange(None)
    player.exchange(bytes.fromhex(HEADER_200 + "1a021200"))
    call = player.exchange(bytes.fromhex(HEADER_200 + "1a080a06" + "1200" + "1801" + "2001"))
    vector = "0a50" + "00000000" * 10 + "0000803f" + "00000000" * 9
    info = vector + "220400000000" + "50" + "ff" * 9 + "01"
    rows = f"0a{len(info) // 2:02x}" + info
    entry = "0a05" + text("Basic") + f"12{len(rows) // 2:02x}" + rows
    output = f"12{len(entry) // 2:02x}" + entry
    outer = f"0a{len(output) // 2:02x}" + output
    assert (call or b"").hex() == HEADER_200 + f"12{len(outer) // 2:02x}" + outer


def test_a_step_of_2019_carries_actions_and_nothing_else() -> None:
    player = opened("basic?protocol=API-8")
    player.exchange(None)
    player.exchange(bytes.fromhex(HEADER_200 + "1a021200"))
    player.exchange(bytes.fromhex(HEADER_200 + "1a080a06" + "1200" + "1801" + "2001"))
    action = "0a04" + "00000040"  # vector_actions [2.0]: right
    rows = "0a06" + action
    entry = "0a05" + text("Basic") + "1208" + rows
    rl_input = f"0a{len(entry) // 2:02x}" + entry
    unity_input = f"0a{len(rl_input) // 2:02x}" + rl_input
    call = player.exchange(bytes.fromhex(HEADER_200 + f"1a{len(unity_input) // 2:02x}" + unity_input))
    (info,) = old.UnityMessage.FromString(call or b"").unity_output.rl_output.agentInfos["Basic"].value
    assert list(info.stacked_vector_observation).index(1.0) == 11
    assert list(info.stored_vector_actions) == [2.0]
    assert info.reward == pytest.approx(-0.01)


ENGINE_TIME_SCALE_20 = "2c3451e97e4fea11b238784f4387d1f7" + "08000000" + "02000000" + "0000a041"
PARAMETERS = "1e894c530f81ea11a9d0822485860400"
GRAVITY = "07000000" + "67726176697479" + "00000000" + "cdcc1c41"
UNIFORM_M = "01000000" + "6d" + "01000000" + "05000000" + "00000000" + "0000003f" + "00000040"


def test_the_side_channel_examples_are_read_as_written() -> None:
    player = opened("basic")
    player.exchange(None)
    player.exchange(bytes.fromhex(HEADER_200 + "1a0912071205" + text("1.5.0")))
    blob = ENGINE_TIME_SCALE_20
    for payload in (GRAVITY, UNIFORM_M):
        blob += PARAMETERS + f"{len(payload) // 2:02x}000000" + payload
    answer = new.UnityMessageProto.FromString(bytes.fromhex(HEADER_200))
    answer.unity_input.rl_input.command = new.RESET
    answer.unity_input.rl_input.side_channel = bytes.fromhex(blob)
    assert player.exchange(answer.SerializeToString()) is not None
    assert player.parameters["gravity"] == pytest.approx(9.8)
    assert player.parameters["m"] == Sampler("uniform", 5, (0.5, 2.0))


def test_numbers_in_lists_may_come_one_by_one_instead_of_packed() -> None:
    """Each number with its own tag, as a writer without packing sends them."""
    unpacked = old.AgentActionProto.FromString(bytes.fromhex("0d00000040" + "0d0000803f"))
    assert list(unpacked.vector_actions) == [2.0, 1.0]
    assert list(new.AgentActionProto.FromString(bytes.fromhex("3801" + "3802")).discrete_actions) == [1, 2]


def test_the_head_of_a_demonstration_is_the_same_in_both_generations() -> None:
    known = bytes.fromhex("0801" + "120154" + "1802" + "2001")
    for package in (old, new):
        meta = package.DemonstrationMetaProto(api_version=1, demonstration_name="T", number_steps=2, number_episodes=1)
        assert meta.SerializeToString() == known


def test_the_envelope_is_the_same_in_both_generations() -> None:
    for status in (200, 400):
        first = old.UnityMessage(header=old.Header(status=status)).SerializeToString()
        assert first == new.UnityMessageProto(header=new.HeaderProto(status=status)).SerializeToString()
        assert first.hex() == (HEADER_200 if status == 200 else HEADER_400)
