"""Demonstration files are written as loaders expect them, and read back or refused with the byte where the fault is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import DemonstrationError, UsageError
from runtime.experience.actions import Actions
from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    Observation,
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.experience.demonstrations import ActionAlignment, Demonstration, demonstrated_steps, spec_differences
from runtime.players.demonstration_bytes import HEADER_BYTES
from runtime.players.demonstration_recorder import DemonstrationRecorder, free_path, header_bytes
from runtime.players.demonstrations import read_demonstration, read_demonstrations
from runtime.players.factories import MemoryPlayerFactory
from runtime.players.links import LinkLimits
from runtime.players.wire import communicator_pb2 as pb2
from runtime.protobuf_bytes import varint
from tests.support.player_links import Driver, assignment

IMAGE = ObservationSpec((3, 4, 6), (1, 2, 2), 0, "eye", "uint8")
BRAIN = BrainParameters(BrainName("Bot?team=1"), (ObservationSpec((2,), (1,), 0, "v"), IMAGE), ActionSpec(0, (3, 2)))
BOTH: Sequence[Literal[1, 2]] = (1, 2)


def eye(value: int) -> Observation:
    return np.random.default_rng(value).integers(0, 256, (1, 3, 4, 6), np.uint8)


def waiting(cell: float, *, reward: float = 0.0, masked: bool = False) -> DecisionRows:
    mask = np.array([[True, False, True, True, True]]) if masked else None
    one, ids = np.ones(1, np.int32), np.array([5])
    return DecisionRows(ids, _seen(cell), np.array([reward], np.float32), mask, one, np.zeros(1, np.float32))


def over(cell: float, reward: float, *, cut: bool) -> TerminalRows:
    one, ids = np.ones(1, np.int32), np.array([5])
    nothing = np.zeros(1, np.float32)
    return TerminalRows(ids, _seen(cell), np.array([reward], np.float32), np.array([cut]), one, nothing)


def _seen(cell: float) -> tuple[Observation, ...]:
    return np.array([[cell, 0.5]], np.float32), eye(int(cell))


def does(first: int, second: int) -> Actions:
    return Actions(np.zeros((1, 0), np.float32), np.array([[first, second]], np.int32))


def record_two_episodes(path: Path, generation: Literal[1, 2]) -> Path:
    """Cells 0, 1, then the end (reward 1) in cell 2; then cell 10, and the recording stops in cell 11."""
    none, no_end = empty_rows(BRAIN)
    with DemonstrationRecorder(path, BRAIN, generation=generation) as recorder:
        recorder.follow(BrainInfo(waiting(0.0), no_end), does(0, 1))
        recorder.follow(BrainInfo(waiting(1.0, reward=0.25, masked=True), no_end), does(2, 0))
        recorder.follow(BrainInfo(none, over(2.0, 1.0, cut=True)), _nobody())
        recorder.follow(BrainInfo(waiting(10.0), no_end), does(1, 1))
        recorder.follow(BrainInfo(waiting(11.0, reward=0.5), no_end), None)
    return recorder.close()


def _nobody() -> Actions:
    return Actions(np.zeros((0, 0), np.float32), np.zeros((0, 2), np.int32))


@pytest.mark.parametrize("generation", BOTH)
def test_what_was_recorded_is_read_as_samples(tmp_path: Path, generation: Literal[1, 2]) -> None:
    path = record_two_episodes(tmp_path / "Two", generation)
    demonstration = read_demonstration(path)
    assert (demonstration.generation, demonstration.meta.name) == (generation, "Two")
    assert demonstration.meta.episodes == 2
    assert demonstration.meta.mean_reward == pytest.approx(1.75 / 2)
    steps = demonstrated_steps(demonstration)
    assert steps.observations[0][:, 0].tolist() == [0.0, 1.0, 10.0]
    assert np.array_equal(steps.observations[1][2], eye(10)[0])
    assert steps.discrete.tolist() == [[0, 1], [2, 0], [1, 1]]
    assert steps.rewards.tolist() == [0.25, 1.0, 0.5]
    assert steps.done.tolist() == [False, True, False]
    assert steps.interrupted.tolist() == [False, True, False]
    assert steps.masks is not None
    assert steps.masks[:, 1].tolist() == [True, False, True]
    assert set(demonstration.agents.tolist()) == {5}
    assert not spec_differences(demonstration.brain, BRAIN)


def test_files_that_hold_the_action_before_are_read_with_a_shift(tmp_path: Path) -> None:
    demonstration = read_demonstration(record_two_episodes(tmp_path / "Two", 2))
    assert demonstration.discrete.tolist() == [[0, 1], [2, 0], [0, 0], [1, 1], [0, 0]]
    shifted = demonstrated_steps(demonstration, ActionAlignment.NEXT_RECORD)
    assert shifted.discrete.tolist() == [[2, 0], [0, 0], [0, 0]]
    assert shifted.records.tolist() == [0, 1, 3]


def test_the_header_is_the_bytes_of_the_protocol() -> None:
    assert header_bytes("T", 2, 1, 0.0) == bytes.fromhex("09 0801 120154 1802 2001")


@given(st.text(max_size=40), st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1), st.floats(width=32, allow_nan=False))
def test_a_header_never_reaches_the_brain(name: str, steps: int, episodes: int, reward: float) -> None:
    header = header_bytes(name, steps, episodes, reward)
    assert len(header) <= HEADER_BYTES
    meta = pb2.DemonstrationMetaProto.FromString(header[1:])
    assert (meta.number_steps, meta.number_episodes) == (steps, episodes)


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "Run.demo").touch()
    (tmp_path / "Run_0.demo").touch()
    assert free_path(tmp_path / "Run.demo") == free_path(tmp_path / "Run") == tmp_path / "Run_1.demo"


def test_a_recording_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    recorder = DemonstrationRecorder(tmp_path / "Run", BRAIN)
    recorder.follow(BrainInfo(waiting(0.0), empty_rows(BRAIN)[1]), does(0, 0))
    assert [each.name for each in tmp_path.iterdir()] == ["Run.demo.part"]
    assert recorder.steps == 1
    assert recorder.close() == recorder.close() == tmp_path / "Run.demo"
    assert [each.name for each in tmp_path.iterdir()] == ["Run.demo"]
    with pytest.raises(UsageError, match="is closed"):
        recorder.follow(BrainInfo(waiting(0.0), empty_rows(BRAIN)[1]), does(0, 0))


def test_a_wrong_number_of_actions_is_refused(tmp_path: Path) -> None:
    with DemonstrationRecorder(tmp_path / "Run", BRAIN) as recorder, pytest.raises(UsageError, match="0 actions for 1"):
        recorder.follow(BrainInfo(waiting(0.0), empty_rows(BRAIN)[1]), _nobody())


@pytest.mark.parametrize(
    "brain",
    [
        replace(BRAIN, action_spec=ActionSpec(1, (2,))),
        replace(BRAIN, observation_specs=(ObservationSpec((4, 2)),)),
        replace(BRAIN, observation_specs=(replace(IMAGE, shape=(4, 4, 6)),)),
    ],
)
def test_the_older_format_refuses_what_it_cannot_hold(tmp_path: Path, brain: BrainParameters) -> None:
    with pytest.raises(UsageError, match="cannot be recorded in the older format"):
        DemonstrationRecorder(tmp_path / "Run", brain, generation=1)
    assert not list(tmp_path.iterdir())


def pieces(*, meta: pb2.DemonstrationMetaProto | None = None, records: int = 3) -> bytes:
    """A file of the newer generation with one number and one branch of 2, as Unity writes it."""
    told = meta or pb2.DemonstrationMetaProto(api_version=1, demonstration_name="T", number_steps=records)
    header = (varint(told.ByteSize()) + told.SerializeToString()).ljust(HEADER_BYTES, b"\0")
    brain = pb2.BrainParametersProto(
        brain_name="B", action_spec=pb2.ActionSpecProto(num_discrete_actions=1, discrete_branch_sizes=[2])
    )
    body = varint(brain.ByteSize()) + brain.SerializeToString()
    for each in range(records):
        pair = pb2.AgentInfoActionPairProto(agent_info=pb2.AgentInfoProto(id=1, reward=0.5))
        pair.agent_info.observations.add(shape=[1], name="v").float_data.data.append(float(each))
        pair.action_info.discrete_actions.append(each % 2)
        body += varint(pair.ByteSize()) + pair.SerializeToString()
    return header + body


def written(folder: Path, body: bytes) -> Path:
    path = folder / "file.demo"
    path.write_bytes(body)
    return path


def test_what_follows_the_records_is_not_looked_at(tmp_path: Path) -> None:
    trailing = bytes.fromhex("0801120154 ffffff")
    assert len(read_demonstration(written(tmp_path, pieces() + trailing))) == 3


def damaged(change: Callable[[bytearray], None]) -> bytes:
    body = bytearray(pieces())
    change(body)
    return bytes(body)


LONG = pb2.DemonstrationMetaProto(
    api_version=1, demonstration_name="A name of 16 cha", number_steps=300_000, number_episodes=70_000, mean_reward=1.0
)


@pytest.mark.parametrize(
    ("body", "offset", "words"),
    [
        (b"", 0, "the file ends where the header should be"),
        (b"\x09\x08", 0, "the header announces 9 bytes, of which 1 are there"),
        (b"\xff" * 40, 0, "the header has no length"),
        (b"\x03\xff\xff\xff".ljust(40, b"\0"), 0, "the header cannot be read"),
        (b"\x02\x08\x07".ljust(40, b"\0"), 0, "API version 7; expected 1"),
        (pieces(meta=pb2.DemonstrationMetaProto(api_version=1, number_steps=-1)), 0, "counts -1 steps"),
        (pieces()[:33], 33, "ends where the brain's description should be"),
        (pieces()[:36], 33, "of which 2 are there; it is cut short"),
        (pieces(meta=LONG), 33, r"takes 34 bytes of 33, so that it overwrote .* by 1; .*shorter name than 'A name"),
        (pieces()[:-1], 106, "record 2 of 3 announces 30 bytes, of which 29 are there"),
        (pieces(meta=pb2.DemonstrationMetaProto(number_steps=4)), 137, "ends where record 3 of 4 should be"),
        (pieces(meta=pb2.DemonstrationMetaProto()), 0, "not ended properly"),
        (pieces(meta=pb2.DemonstrationMetaProto(number_steps=2), records=0), 44, "ends where record 0 of 2"),
        (damaged(lambda body: body.__setitem__(slice(34, 36), b"\xff\xff")), 33, "description cannot be read"),
        (damaged(lambda body: body.__setitem__(slice(76, 78), b"\xff\xff")), 75, "record 1 cannot be read"),
    ],
)
def test_a_bad_file_is_refused_with_the_byte_where_the_fault_is(
    tmp_path: Path, body: bytes, offset: int, words: str
) -> None:
    path = written(tmp_path, body)
    with pytest.raises(DemonstrationError, match=words) as caught:
        read_demonstration(path)
    assert str(caught.value).startswith(f"{path}, byte ")
    assert caught.value.offset == offset
    assert caught.value.exit_code == 2


def bad_records(change: Callable[[pb2.AgentInfoActionPairProto], None]) -> bytes:
    body = pieces(records=1)
    pair = pb2.AgentInfoActionPairProto(agent_info=pb2.AgentInfoProto(id=7))
    pair.agent_info.observations.add(shape=[1], name="v").float_data.data.append(0.0)
    change(pair)
    meta = pb2.DemonstrationMetaProto(api_version=1, number_steps=2)
    header = (varint(meta.ByteSize()) + meta.SerializeToString()).ljust(HEADER_BYTES, b"\0")
    return header + body[HEADER_BYTES:] + varint(pair.ByteSize()) + pair.SerializeToString()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.agent_info.__setattr__("reward", float("nan")), "reward is nan"),
        (lambda p: p.agent_info.observations[0].float_data.data.__setitem__(0, float("inf")), "at index 0 is inf"),
        (lambda p: p.agent_info.observations.add(), "2 observations, expected 1"),
        (lambda p: p.action_info.discrete_actions.extend([2]), "action 2.0 in branch 0, which has 2 choices"),
        (lambda p: p.action_info.discrete_actions.extend([0, 0]), "an action of 2 numbers, expected 1"),
        (lambda p: p.action_info.vector_actions_deprecated.extend([float("nan")]), "action nan in branch 0"),
    ],
)
def test_bad_content_is_named_with_record_byte_and_field(
    tmp_path: Path, change: Callable[[pb2.AgentInfoActionPairProto], None], words: str
) -> None:
    with pytest.raises(DemonstrationError, match=rf"byte 75: record 1: .*brain 'B', agent 7: .*{words}"):
        read_demonstration(written(tmp_path, bad_records(change)))


def test_an_unfinished_recording_is_read_on_request_as_far_as_it_is_whole(tmp_path: Path) -> None:
    body = pieces(meta=pb2.DemonstrationMetaProto(api_version=1))
    assert len(read_demonstration(written(tmp_path, body), accepts_unfinished=True)) == 3
    assert len(read_demonstration(written(tmp_path, body[:-1]), accepts_unfinished=True)) == 2


def test_memory_is_bounded_by_what_was_allowed(tmp_path: Path) -> None:
    with pytest.raises(DemonstrationError, match="take more than 8 bytes of memory"):
        read_demonstration(written(tmp_path, pieces()), decoded_bytes_max=8)


def test_a_length_that_lies_costs_no_memory(tmp_path: Path) -> None:
    body = pieces(records=0)[:HEADER_BYTES] + b"\xff\xff\xff\xff\x07"
    with pytest.raises(DemonstrationError, match="announces 2147483647 bytes, of which 0 are there"):
        read_demonstration(written(tmp_path, body))


def test_old_actions_are_read_from_the_deprecated_field(tmp_path: Path) -> None:
    body = bad_records(lambda pair: pair.action_info.vector_actions_deprecated.append(1.0))
    assert read_demonstration(written(tmp_path, body)).discrete.tolist() == [[0], [1]]


def test_files_of_the_older_generation_are_known_by_their_brain_even_without_vectors(tmp_path: Path) -> None:
    brain = replace(BRAIN, observation_specs=(IMAGE,))
    none = empty_rows(brain)[1]
    with DemonstrationRecorder(tmp_path / "Old", brain, generation=1) as recorder:
        rows = replace(waiting(0.0), observations=(eye(0),))
        recorder.follow(BrainInfo(rows, none), does(0, 0))
    demonstration = read_demonstration(recorder.close())
    assert demonstration.generation == 1
    assert demonstration.brain.observation_specs[0].shape == (3, 4, 6)


@pytest.mark.parametrize(
    ("path", "words"),
    [("none", "holds no .demo file"), ("a.txt", "is no .demo file"), ("x.demo", "not exist"), ("x", "not exist")],
)
def test_paths_that_hold_no_demonstration_are_named(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "a.txt").touch()
    with pytest.raises(DemonstrationError, match=words):
        read_demonstrations(tmp_path / path)


def test_a_folder_is_all_its_files_if_they_fit(tmp_path: Path) -> None:
    (tmp_path / "a.demo").write_bytes(pieces())
    (tmp_path / "b.demo").write_bytes(pieces(records=2))
    (tmp_path / "notes.txt").touch()
    assert [len(each) for each in read_demonstrations(tmp_path)] == [3, 2]
    record_two_episodes(tmp_path / "c", 2)
    with pytest.raises(
        DemonstrationError,
        match=r"c\.demo does not fit .*a\.demo: 2 observations .*, a\.demo has .*branches of \(3, 2\), a\.demo has",
    ):
        read_demonstrations(tmp_path)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(BRAIN, observation_specs=BRAIN.observation_specs[:1]), "2 observations of"),
        (replace(BRAIN, observation_specs=(ObservationSpec((3,)), IMAGE)), "observation 0 ('v') of shape (2,)"),
        (replace(BRAIN, observation_specs=(ObservationSpec((2,), (), 1), IMAGE)), "observation 0 ('v') of type 0"),
        (replace(BRAIN, action_spec=ActionSpec(1, (3, 2))), "0 continuous actions, the brain has 1"),
        (replace(BRAIN, action_spec=ActionSpec(0, (3,))), "branches of (3, 2), the brain has (3,)"),
    ],
)
def test_a_brain_that_differs_is_told_field_by_field(other: BrainParameters, words: str) -> None:
    (difference,) = spec_differences(BRAIN, other)
    assert words in difference


@given(st.binary(max_size=120), st.integers(0, 60))
def test_any_bytes_are_a_demonstration_or_refused(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, kept: int
) -> None:
    path = written(tmp_path_factory.mktemp("any"), pieces()[:kept] + body)
    try:
        demonstration = read_demonstration(path, accepts_unfinished=True, decoded_bytes_max=1 << 20)
    except DemonstrationError as error:
        assert str(error).startswith(f"{path}, byte ")  # noqa: PT017 - any bytes, either way
    else:
        assert len(demonstration) > 0


@given(st.data())
def test_a_damaged_file_is_a_demonstration_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    body = bytearray(pieces())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        demonstration = read_demonstration(written(folder, bytes(body)), decoded_bytes_max=1 << 20)
    except DemonstrationError:
        return
    assert np.isfinite(demonstration.rewards).all()
    assert demonstrated_steps(demonstration).records.max(initial=-1) < len(demonstration) - 1


async def play_and_record(target: str, path: Path, generation: Literal[1, 2], steps: int) -> None:
    link = MemoryPlayerFactory(target=target).open_link(assignment(0, seed=4, port=0), LinkLimits())
    driver = Driver(link)
    reply = await driver.begin()
    (name,) = reply.infos
    brain = driver.brains[name]
    with DemonstrationRecorder(path, brain, generation=generation) as recorder:
        for _ in range(steps):
            count = len(reply.infos[name].decisions)
            zeros = Actions(
                np.zeros((count, brain.action_spec.continuous_size), np.float32),
                np.full((count, brain.action_spec.discrete_size), 2, np.int32),
            )
            recorder.follow(reply.infos[name], zeros)
            reply = await link.step({name: zeros} if count else {})
        recorder.follow(reply.infos[name], None)
    await link.close()


@pytest.mark.parametrize(("protocol", "generation"), [("1.5.0", 2), ("API-9", 1), ("1.5.0", 1), ("API-9", 2)])
def test_a_player_of_either_generation_is_recorded_in_either_format_with_the_same_samples(
    tmp_path: Path, protocol: str, generation: Literal[1, 2]
) -> None:
    path = tmp_path / "Play"
    asyncio.run(play_and_record(f"fake:basic?protocol={protocol}", path, generation, 20))
    steps = demonstrated_steps(read_demonstration(path.with_suffix(".demo")))
    cells = steps.observations[0].argmax(axis=1).tolist()
    ends = np.flatnonzero(steps.done).tolist()
    assert cells[: ends[0] + 1] == list(range(10, 17))
    assert steps.rewards[ends[0]] == pytest.approx(0.99)
    assert set(steps.discrete.ravel().tolist()) == {2}
    assert cells[ends[0] + 1] == 10


def test_lengths_are_those_of_the_columns(tmp_path: Path) -> None:
    demonstration: Demonstration = read_demonstration(written(tmp_path, pieces()))
    assert len(demonstration) == len(demonstration.agents) == 3
    assert demonstration.discrete.tolist() == [[0], [1], [0]]
    assert demonstration.observations[0].tolist() == [[0.0], [1.0], [2.0]]
