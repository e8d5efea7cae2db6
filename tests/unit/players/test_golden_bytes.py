"""What our trainer says to players of 1.x, and what it makes of their calls, in bytes written out by hand."""

import numpy as np

from fakeunity.memory import open_player
from fakeunity.spec import parse_url
from runtime.experience.actions import Actions
from runtime.players.conversation import Conversation
from runtime.players.handshake import encode_answer, introduction
from runtime.players.places import Place
from runtime.players.replies import encode_step
from runtime.players.side_channels import EngineSettings
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_links import assignment

HEADER_200 = "0a0308c801"


def text(value: str) -> str:
    return value.encode().hex()


def part(tag: str, body: str) -> str:
    """A length-delimited field of less than 16384 bytes."""
    size = len(body) // 2
    return tag + (f"{size:02x}" if size < 128 else f"{size & 127 | 128:02x}{size >> 7:02x}") + body


def hello(version: str = "1.5.0") -> bytes:
    said = part("0a", text("AcademySingleton")) + part("12", text(version)) + part("3a", text("3.0.0"))
    return bytes.fromhex(HEADER_200 + part("12", part("12", said + part("42", "0801" + "2001"))))


# One agent at cell 10 of 20, as a 1.5.0 player writes it: shape, numbers, properties of the dimension, name.
SEEN = part("0a", "14") + part("22", part("0a", "00000000" * 10 + "0000803f" + "00000000" * 9)) + part("32", "01")
INFO = part("6a", SEEN + part("42", text("VectorSensor_size20")))  # the id is 0, and so is the reward
BRAIN = part("3a", text("Basic")) + "4001" + part("4a", "1001" + part("1a", "03"))
ROWS = part("12", part("0a", text("Basic")) + part("12", part("0a", INFO)))


def test_the_answer_to_a_player_is_seed_versions_capabilities_and_areas() -> None:
    capabilities = "0801" + "1001" + "1801" + "2001" + "3001" + "3801"  # all but the analytics
    said = "087b" + part("12", text("1.5.0")) + part("1a", text("1.1.0")) + part("22", capabilities) + "2801"
    answer = encode_answer(introduction(pb.UnityMessageProto.FromString(hello()), Place(0, 0)), seed=123, num_areas=1)
    assert answer.hex() == HEADER_200 + part("1a", part("12", said))


def test_a_step_has_the_actions_in_the_old_list_and_in_the_new_ones() -> None:
    """One agent, continuous 0.5 and -1, discrete 2; then the side channel is left out, and STEP is 0."""
    action = part("0a", "0000003f" + "000080bf" + "00000040") + part("32", "0000003f" + "000080bf") + part("3a", "02")
    entry = part("0a", text("Hybrid")) + part("12", part("0a", action))
    rows = Actions(np.array([[0.5, -1.0]], np.float32), np.array([[2]], np.int32))
    assert encode_step({"Hybrid": rows}).hex() == HEADER_200 + part("1a", part("0a", part("0a", entry)))


def test_rows_written_by_hand_are_understood_and_are_those_of_the_bundled_player() -> None:
    call = HEADER_200 + part("12", part("0a", ROWS) + part("12", part("2a", BRAIN)))
    talk = Conversation(assignment(port=1), EngineSettings())
    talk.open()
    player = open_player(parse_url("fake:basic"))
    player.exchange(None)
    _, answer = talk.meet(hello(), pid=0)
    talk.hear_ready(bytes.fromhex(HEADER_200))
    assert (player.exchange(answer) or b"").hex() == HEADER_200
    assert (player.exchange(talk.reset_order({}, train_mode=True)) or b"").hex() == call
    reply = talk.accept(bytes.fromhex(call))
    (brain,) = reply.brains
    rows = reply.infos["Basic"].decisions
    assert (brain.brain_name, brain.action_spec.discrete_branches) == ("Basic", (3,))
    assert (rows.agents.tolist(), rows.rewards.tolist()) == ([0], [0.0])
    assert np.flatnonzero(np.asarray(rows.observations[0])[0]).tolist() == [10]
