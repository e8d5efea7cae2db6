"""The fast writer of rows agrees with protobuf objects filled field by field, which write the same bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fakeunity import wire
from fakeunity.row_writer import RowWriter
from fakeunity.rows import BehaviorSpec, ObservationSpec, Rows, empty_rows
from fakeunity.sensors import varint
from runtime.players.wire import communicator_pb2 as pb
from tests.support import fake_rows


def slow_bytes(spec: BehaviorSpec, rows: Rows) -> bytes:
    """The same rows, through protobuf objects."""
    infos = pb.UnityRLOutputProto.ListAgentInfoProto()
    for n, agent_id in enumerate(rows.ids.tolist()):
        info = infos.value.add(
            id=agent_id,
            reward=float(rows.rewards[n]),
            done=bool(rows.done[n]),
            max_step_reached=bool(rows.interrupted[n]),
            action_mask=[] if rows.mask is None else rows.mask[n].tolist(),
            group_id=0 if rows.group_ids is None else int(rows.group_ids[n]),
            group_reward=0.0 if rows.group_rewards is None else float(rows.group_rewards[n]),
        )
        for sensor, values in zip(spec.observations, rows.observations, strict=True):
            info.observations.add(
                name=sensor.name,
                shape=sensor.shape,
                dimension_properties=[4, 1] if sensor.rows else [1],
                observation_type=pb.GOAL_SIGNAL if sensor.is_goal else pb.DEFAULT,
                float_data=pb.ObservationProto.FloatData(data=values[n].tolist()),
            )
    return infos.SerializeToString(deterministic=True)


@given(fake_rows.specs_and_rows())
def test_rows_are_written_as_protobuf_would_write_them(case: tuple[BehaviorSpec, Rows]) -> None:
    spec, rows = case
    assert RowWriter(spec).write(rows) == slow_bytes(spec, rows)


@given(fake_rows.specs_and_rows(), st.integers(0, 2**32 - 1))
def test_rows_that_come_again_with_other_numbers_are_written_as_protobuf_would(
    case: tuple[BehaviorSpec, Rows], seed: int
) -> None:
    spec, rows = case
    writer, rng = RowWriter(spec), np.random.default_rng(seed)
    for _ in range(4):
        assert writer.write(rows) == slow_bytes(spec, rows)
        rows = other_numbers(rows, rng)


def other_numbers(rows: Rows, rng: np.random.Generator) -> Rows:
    """The same agents, ends, and rewards that are or are not 0; all else differs."""

    def others(rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(rewards != 0, rng.uniform(1, 2, rewards.shape), 0).astype(np.float32)

    return replace(
        rows,
        rewards=others(rows.rewards),
        observations=tuple(rng.normal(size=seen.shape).astype(np.float32) for seen in rows.observations),
        mask=None if rows.mask is None else rng.random(rows.mask.shape) < 0.5,
        group_rewards=None if rows.group_rewards is None else others(rows.group_rewards),
    )


def test_rows_of_many_kinds_are_remembered_up_to_a_limit() -> None:
    spec = BehaviorSpec("B", (ObservationSpec("s", 2),))
    writer = RowWriter(spec)
    for start in (*range(300), *range(300)):
        rows = Rows(
            np.array([start]),
            np.ones(1, np.float32),
            np.zeros(1, np.bool_),
            np.zeros(1, np.bool_),
            (np.full((1, 2), start, np.float32),),
        )
        for _ in range(3):
            assert writer.write(rows) == slow_bytes(spec, rows)


@given(case=fake_rows.specs_and_rows(), is_new=st.booleans())
def test_a_message_reads_back_as_what_was_written(*, case: tuple[BehaviorSpec, Rows], is_new: bool) -> None:
    spec, rows = case
    data = wire.output_bytes({spec.name: RowWriter(spec).write(rows)}, [spec] if is_new else [])
    message = pb.UnityMessageProto.FromString(data)
    assert message.SerializeToString(deterministic=True) == data
    assert message.header.status == 200
    infos = message.unity_output.rl_output.agentInfos[spec.name].value
    assert [info.id for info in infos] == rows.ids.tolist()
    announced = message.unity_output.rl_initialization_output.brain_parameters
    assert [parameters.brain_name for parameters in announced] == ([spec.name] if is_new else [])


def test_a_writer_used_twice_forgets_nothing_of_its_layout() -> None:
    spec = BehaviorSpec("B", (ObservationSpec("s", 2),))
    writer = RowWriter(spec)
    for reward in (0.0, 1.0, 0.0, 2.0):
        rows = Rows(
            np.array([0, 1, 300]),
            np.array([reward, 0, reward], np.float32),
            np.zeros(3, np.bool_),
            np.zeros(3, np.bool_),
            (np.full((3, 2), reward, np.float32),),
        )
        assert writer.write(rows) == slow_bytes(spec, rows)


def test_no_rows_are_an_empty_list_under_their_key() -> None:
    spec = BehaviorSpec("B", (ObservationSpec("s", 2),))
    data = wire.output_bytes({"B": RowWriter(spec).write(empty_rows(spec))}, [])
    assert dict(pb.UnityMessageProto.FromString(data).unity_output.rl_output.agentInfos)["B"].value == []


def test_the_second_call_and_the_goodbye_are_the_known_bytes() -> None:
    assert wire.header_bytes().hex() == "0a0308c801"
    assert wire.closing_bytes().hex() == "0a03089003"
    assert wire.refusing_bytes().hex() == "0a0308a603"


def test_the_first_call_says_who_we_are_and_announces_nothing() -> None:
    output = pb.UnityMessageProto.FromString(wire.hello_bytes()).unity_output
    hello = output.rl_initialization_output
    assert not output.HasField("rl_output")
    assert (hello.name, hello.communication_version, hello.package_version) == ("AcademySingleton", "1.5.0", "3.0.0")
    assert len(hello.capabilities.ListFields()) == 7
    assert not hello.brain_parameters


@pytest.mark.parametrize(("number", "expected"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")])
def test_varints_have_their_lowest_digits_first(number: int, expected: str) -> None:
    assert varint(number).hex() == expected
