"""Cassettes: what is written is read again, what is cut is good up to there, what is damaged or other is told."""

import functools
import signal
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeunity.cassettes.differences import TEXT_MAX, differences, text_of
from fakeunity.cassettes.places import cassette_file, found_cassette
from fakeunity.cassettes.recorder import BLOCK_MESSAGES, Recorder
from fakeunity.cassettes.replay import DeviationError, RecordedDeathError, ReplayPlayer, TapeEndError
from fakeunity.cassettes.tape import (
    BLOCK_HEAD,
    MAGIC,
    PACKING_MAX,
    CassetteError,
    Message,
    block_bytes,
    open_cassette,
)
from fakeunity.errors import SpecError
from fakeunity.memory import MemoryPlayer, open_player
from fakeunity.spec import parse_url
from runtime.players.wire import communicator_gen1_pb2 as gen1
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Driver, closing, handshake, message, random_choice, reset

BODIES = st.binary(max_size=300) | st.binary(min_size=1, max_size=4).map(lambda seed: seed * 5000)
SPOKEN = st.lists(st.builds(Message, st.sampled_from(["player", "trainer"]), BODIES), max_size=20)


ROOT = Path(__file__).parents[3]


class Recording:
    """A player whose conversation is recorded."""

    def __init__(self, url: str, file: Path) -> None:
        self.player: MemoryPlayer = open_player(parse_url(f"fake:{url}"))
        self.recorder = Recorder(file, {"target": f"fake:{url}"})

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The player's next call; both are on the tape then."""
        if request_reply is not None:
            self.recorder.on_bytes("trainer", request_reply)
        call = self.player.exchange(request_reply)
        if call is not None:
            self.recorder.on_bytes("player", call)
        return call


class ReplayPlayerExchanges:
    """The player in a recording, as drivers call it."""

    def __init__(self, file: Path, *, tolerant: bool = False) -> None:
        self.player = ReplayPlayer(open_cassette(file), is_tolerant=tolerant)

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """Its next call."""
        return self.player.hello() if request_reply is None else self.player.reply(request_reply)


def recorded(file: Path, scene: str = "crowd?agents=3", *, steps: int = 230, seed: int = 5) -> Driver:
    """A conversation that was recorded into `file`."""
    recording = Recording(scene, file)
    driver = talked(recording, steps=steps, seed=seed)
    recording.recorder.close()
    return driver


@functools.cache
def short_recording() -> bytes:
    """The bytes of a whole file."""
    with tempfile.TemporaryDirectory() as folder:
        recorded(Path(folder) / "c", "basic", steps=20)
        return (Path(folder) / "c").read_bytes()


def talked(player: Recording | ReplayPlayerExchanges, *, steps: int, seed: int, choice: int = 1) -> Driver:
    driver = Driver(player, random_choice(choice), seed)
    driver.start()
    driver.steps(steps)
    driver.reset()
    driver.steps(2)
    driver.close()
    return driver


def written(file: Path, spoken: Sequence[Message]) -> None:
    recorder = Recorder(file, {})
    for each in spoken:
        recorder.on_bytes(each.speaker, each.body)
    recorder.close()


@given(SPOKEN)
def test_any_messages_are_read_again_and_equal_ones_make_equal_files(spoken: Sequence[Message]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("a", "b")]
        for file in files:
            written(file, spoken)
        cassette = open_cassette(files[0])
        assert cassette.is_whole
        assert list(cassette.messages()) == list(spoken)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_the_text_tells_versions_generation_and_behaviors(tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    text = (tmp_path / "c").read_bytes().partition(b"\n\n")[0].decode()
    assert text.splitlines() == [
        "fakeunity cassette 1",
        "generation: 2",
        'player: {"communication_version": "1.5.0", "package_version": "3.0.0"}',
        'trainer: {"communication_version": "1.5.0", "package_version": "1.1.0"}',
        'behaviors: ["Crowd"]',
        'target: "fake:crowd?agents=3"',
    ]
    assert open_cassette(tmp_path / "c").summary.endswith('"fake:crowd?agents=3"}')


def test_the_body_is_compact(tmp_path: Path) -> None:
    driver = recorded(tmp_path / "c")
    assert (tmp_path / "c").stat().st_size < sum(map(len, driver.calls)) / 4


def test_a_file_cut_anywhere_is_good_up_to_its_last_whole_block(tmp_path: Path) -> None:
    recorded(tmp_path / "whole", "basic", steps=2 * BLOCK_MESSAGES)
    whole = (tmp_path / "whole").read_bytes()
    spoken = list(open_cassette(tmp_path / "whole").messages())
    counts = set()
    for size in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:size])
        try:
            cassette = open_cassette(tmp_path / "cut")
        except CassetteError:
            assert b"\n\n" not in whole[:size]
            continue
        assert not cassette.is_whole
        assert "cut short, good up to byte" in cassette.summary
        read = list(cassette.messages())
        assert read == spoken[: len(read)]
        counts.add(len(read))
    assert len(counts) >= 5


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_is_found(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "c"
        content = bytearray(short_recording())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        try:
            cassette = open_cassette(file)
        except CassetteError:
            return
        assert not cassette.is_whole


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no cassette; it begins with b''"),
        (b"%PDF-1.4\n", "no cassette; it begins with b'%PDF-1.4"),
        (MAGIC, "cut short before its player was reset"),
        (MAGIC + b"generation: ", "byte 21: the text at the beginning has no end"),
        (MAGIC + b"generation 2\n\n", "byte 21: expected `name: JSON`, not b'generation 2"),
        (MAGIC + b"\nWHAT", r"byte 22: b'WHAT', expected a block or the end"),
        (MAGIC + b"\n" + BLOCK_HEAD.pack(b"BLK1", PACKING_MAX * 9, 8, 0) + b"12345678", "8 bytes packed out of"),
        (MAGIC + b"\n" + BLOCK_HEAD.pack(b"BLK1", 9, 8, 0) + b"12345678", "its checksum is wrong"),
        (MAGIC + b"\n" + block_bytes(b"\x07\0\0\0\0"), "a message of 0 bytes by speaker 7"),
        (MAGIC + b"\n" + block_bytes(b"\0\xff\0\0\0"), "a message of 255 bytes by speaker 0"),
        (MAGIC + b"\n" + block_bytes(b"\0\0"), "its last message has no beginning"),
        (MAGIC + b"\n" + b"END1" + bytes(36), "the checksum of 0 messages is wrong"),
    ],
)
def test_what_is_no_cassette_is_refused_with_the_byte(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CassetteError, match=words):
        open_cassette(tmp_path / "c")


def test_a_block_that_announces_a_gibibyte_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(MAGIC + b"\n" + BLOCK_HEAD.pack(b"BLK1", 1 << 30, 1 << 30, 0) + b"1234")
    tracemalloc.start()
    try:
        assert not open_cassette(tmp_path / "c").is_whole
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "c").touch()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "c", {})


def test_what_is_on_disk_is_good_while_it_is_recorded(tmp_path: Path) -> None:
    recording = Recording("basic", tmp_path / "c")
    driver = Driver(recording, random_choice(0))
    driver.start()
    assert len(list(open_cassette(tmp_path / "c").messages())) == 5
    driver.steps(BLOCK_MESSAGES)
    assert len(list(open_cassette(tmp_path / "c").messages())) >= 5 + BLOCK_MESSAGES
    recording.recorder.close()
    recording.recorder.close()
    assert open_cassette(tmp_path / "c").is_whole


def test_a_recording_whose_writer_was_killed_is_good_but_for_its_last_messages(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom tests.unit.fakeunity import test_cassettes as t\n"
        "driver = t.Driver(t.Recording('basic', Path(sys.argv[1])), t.random_choice(1), 5)\n"
        "driver.start()\ndriver.steps(300)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "c")], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    cassette = open_cassette(tmp_path / "c")
    assert not cassette.is_whole
    count = len(list(cassette.messages()))
    assert 605 - BLOCK_MESSAGES < count <= 605
    with pytest.raises(TapeEndError, match=f"exchange {(count + 1) // 2}: .* cut short"):
        talked(ReplayPlayerExchanges(tmp_path / "c"), steps=300, seed=5)


@pytest.mark.parametrize("scene", ["basic", "crowd?agents=5", "hybrid", "masked", "gridworld?agents=2"])
def test_the_same_trainer_gets_the_same_calls(scene: str, tmp_path: Path) -> None:
    then = recorded(tmp_path / "c", scene)
    now = talked(ReplayPlayerExchanges(tmp_path / "c"), steps=230, seed=5)
    assert now.calls == then.calls


def test_another_seed_is_the_first_difference(tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    with pytest.raises(DeviationError) as caught:
        talked(ReplayPlayerExchanges(tmp_path / "c"), steps=230, seed=6)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"exchange 1: the trainer deviates from {tmp_path / 'c'}"
    assert lines[-1] == "  unity_input.rl_initialization_input.seed: recorded 5, the trainer says 6"
    assert lines.count("    seed: 5") == lines.count("    seed: 6") == 1


def test_another_action_is_the_first_difference_unless_it_is_tolerated(tmp_path: Path) -> None:
    recorded(tmp_path / "c", "hybrid", steps=5)
    with pytest.raises(DeviationError, match=r"exchange 3: (.|\n)*agent_actions\['Hybrid'\].value\[0\].continuous_act"):
        talked(ReplayPlayerExchanges(tmp_path / "c"), steps=5, seed=5, choice=2)
    talked(ReplayPlayerExchanges(tmp_path / "c", tolerant=True), steps=5, seed=6, choice=2)


def test_another_shape_is_never_tolerated(tmp_path: Path) -> None:
    recorded(tmp_path / "c", "hybrid", steps=5)
    player = ReplayPlayerExchanges(tmp_path / "c", tolerant=True)
    driver = Driver(player, random_choice(2))
    driver.start()
    driver.waiting["Hybrid"].pop()
    with pytest.raises(DeviationError, match=r"recorded 4 of them, the trainer says 3"):
        driver.step()
    assert player.exchange(reset()) is None


def test_a_trainer_that_goes_on_after_the_end_is_told(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "died", {})
    player = open_player(parse_url("fake:basic"))
    recorder.on_bytes("player", player.exchange(None) or b"")
    recorder.on_bytes("trainer", handshake(5))
    recorder.close()
    died = ReplayPlayerExchanges(tmp_path / "died")
    died.exchange(None)
    with pytest.raises(RecordedDeathError, match=r"exchange 1: .* ends here: the recorded player did not answer"):
        died.exchange(handshake(5))
    recorded(tmp_path / "c", "basic", steps=300)
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-60])
    with pytest.raises(TapeEndError, match="ends here: the file was cut short after byte"):
        talked(ReplayPlayerExchanges(tmp_path / "c"), steps=300, seed=5)


def test_a_trainer_that_leaves_early_deviates(tmp_path: Path) -> None:
    recorded(tmp_path / "c", "basic", steps=5)
    player = ReplayPlayerExchanges(tmp_path / "c")
    Driver(player, random_choice(1), 5).start()
    with pytest.raises(DeviationError, match=r"header\.status: recorded 200, the trainer says 400"):
        player.exchange(closing())


def gen1_step(*numbers: float) -> bytes:
    order = gen1.UnityMessage(header=gen1.Header(status=200))
    order.unity_input.rl_input.agent_actions["B"].value.add(vector_actions=numbers, memories=[1.0], text_actions="t")
    return order.SerializeToString()


def gen2_reset(container: bytes) -> bytes:
    order = message()
    order.unity_input.rl_input.side_channel = container
    return order.SerializeToString()


DIFFERENT: list[tuple[bytes, bytes, int, str, bool]] = [
    (gen1_step(1.0, 2.0), gen1_step(1.0, 3.0), 1, "vector_actions[1]: recorded 2.0, the trainer says 3.0", True),
    (gen1_step(1.0, 2.0), gen1_step(1.0), 1, "vector_actions: recorded 2 of them, the trainer says 1", False),
    (handshake(1), handshake(2), 2, "seed: recorded 1, the trainer says 2", True),
    (handshake(1), handshake(1, package="2.0"), 2, "package_version: recorded '1.1.0', the trainer says '2.0'", False),
    (handshake(1), reset(), 2, "rl_initialization_input: the trainer leaves it out", False),
    (reset(), gen2_reset(b""), 2, "command: recorded 1, the trainer says 0", False),
    (reset(), b"\xff", 2, "the bytes differ, and one of them is no UnityMessageProto", False),
    (gen2_reset(b""), gen2_reset(b"x"), 2, "side_channel: the bytes differ, and one of them cannot be read", False),
    (gen2_reset(b""), gen2_reset(bytes(20)), 2, "side_channel: recorded 0 messages, the trainer says 1", False),
]


@pytest.mark.parametrize(("then", "now", "generation", "words", "is_tolerated"), DIFFERENT)
def test_differences_are_named_field_by_field(
    then: bytes,
    now: bytes,
    generation: int,
    words: str,
    is_tolerated: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert words in "\n".join(differences(then, now, generation=generation))
    assert (not differences(then, now, generation=generation, is_tolerant=True)) == is_tolerated


def sampler(seed: int, high: float) -> bytes:
    payload = b"\x01\0\0\0k" + b"\x01\0\0\0" + seed.to_bytes(4, "little") + bytes(4)
    payload += struct.pack("<ff", 0.0, high)
    channel = bytes.fromhex("1e894c530f81ea11a9d0822485860400")
    return gen2_reset(channel + len(payload).to_bytes(4, "little") + payload)


def test_environment_parameters_are_compared_as_such() -> None:
    (line,) = differences(sampler(1, 2.0), sampler(2, 2.0), generation=2)
    assert "environment parameter 'k'" in line
    assert differences(sampler(1, 2.0), sampler(2, 2.0), generation=2, is_tolerant=True) == []
    assert differences(sampler(1, 2.0), sampler(2, 3.0), generation=2, is_tolerant=True)


def test_the_same_message_in_other_bytes_is_no_difference() -> None:
    order = pb.UnityMessageProto()
    order.header.status = 200
    first = order.SerializeToString()
    assert differences(first + first, first, generation=2) == []


def test_long_messages_are_cut_and_bytes_that_are_none_are_shown() -> None:
    assert text_of(b"\xff\x01", generation=2) == "2 bytes: ff 01"
    long = text_of(gen1_step(*range(2000)), generation=1)
    assert TEXT_MAX < len(long) < TEXT_MAX + 50
    assert long.endswith("characters more")


def test_lives_and_environments_have_files_of_their_own(tmp_path: Path) -> None:
    def name(env_id: int, life: int, environments: int) -> str:
        return cassette_file(Path("d/run.cassette"), env_id=env_id, life=life, environments=environments).as_posix()

    assert [name(0, 0, 1), name(0, 2, 1)] == ["d/run.cassette", "d/run.2.cassette"]
    assert [name(3, 0, 4), name(3, 2, 4)] == ["d/run-3.cassette", "d/run-3.2.cassette"]
    (tmp_path / "run-1").touch()
    assert found_cassette(tmp_path / "run", env_id=1, life=0) == tmp_path / "run-1"
    assert found_cassette(tmp_path / "run", env_id=0, life=1) == tmp_path / "run.1"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "which recording?"),
        ("?file=absent", "there is no such recording"),
        ("?file=", "file='': expected a recording"),
        ("?file=x&agents=3", "a recorded player takes delay_ms, file, link, tolerant, not 'agents'"),
        ("?file=x&tolerant=maybe", "unknown answer to tolerant 'maybe'"),
        ("?fault=crash@close", "not 'fault'"),
    ],
)
def test_a_bad_replay_url_is_refused(query: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_url(f"fake:replay{query}")
    assert words in str(caught.value)


def test_recordings_are_not_for_scenes_and_a_good_url_survives(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="file and tolerant are for recordings"):
        parse_url("fake:basic?tolerant=yes")
    recorded(tmp_path / "c", "basic", steps=1)
    spec = parse_url(f"fake:replay?file={tmp_path / 'c'}&tolerant=yes&link=memory")
    assert parse_url(spec.url()) == spec
    player = open_player(spec)
    assert player.exchange(None)
    assert (player.parameters, player.train_mode) == ({}, None)
    player.close()
