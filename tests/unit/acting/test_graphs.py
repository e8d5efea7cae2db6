"""Graphs that are no acting graphs are refused, and rows that depend on their batch are noticed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from runtime.acting.graphs import ActingGraph
from runtime.errors import InternalError, ShapeError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.graph_pieces import acting_piece
from tests.support.graphs import GraphWriter, acting_graph, serialize
from tests.support.strategies_experience import brain_parameters

BOT = BrainParameters(BrainName("Bot"), (ObservationSpec((8,)), ObservationSpec((2, 3))), ActionSpec(2, (3, 2)))


def _info(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> object:
    return helper.make_tensor_value_info(name, kind, shape)


def _graph(outputs: dict[str, tuple[str, list[int | str]]], *, source: str = "obs_0", width: int | str = 3) -> bytes:
    """A graph whose outputs are one operator each on its only input, or on a constant of three for log_std."""
    writer = GraphWriter()
    writer.constant("three", np.zeros(3, np.float32))
    for name, (operator, _) in outputs.items():
        writer.add(operator, ["three" if name == "log_std" else source], name)
    infos = [_info(name, shape) for name, (_, shape) in outputs.items()]
    return serialize(writer, [_info(source, ["batch", width])], infos)


@given(brain=brain_parameters(), streams=st.integers(0, 2))
def test_shapes_are_read_from_the_graph(brain: BrainParameters, streams: int) -> None:
    graph = ActingGraph(acting_graph(brain, hidden=(4,), streams=streams), name="the policy")
    assert graph.shape.observations == tuple(each.shape for each in brain.observation_specs)
    assert graph.shape.continuous_size == brain.action_spec.continuous_size
    assert graph.shape.logits_size == brain.action_spec.mask_size
    assert graph.shape.streams == streams
    assert graph.is_row_independent()
    graph.check_fits(brain)


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid"])
def test_rows_of_good_operators_have_the_same_bits_in_any_batch(activation: str) -> None:
    body = acting_graph(BOT, hidden=(64, 64), activation=activation)
    graph = ActingGraph(body, name="the policy")
    assert graph.is_row_independent()
    rng = np.random.default_rng(1)
    observations = [rng.standard_normal((50, 8)).astype(np.float32), rng.standard_normal((50, 2, 3)).astype(np.float32)]
    whole, single = graph.run(observations), graph.run_row_by_row(observations)
    for name in ("mean", "logits", "value"):
        assert getattr(whole, name).tobytes() == getattr(single, name).tobytes(), name


def test_a_row_that_sees_the_others_is_noticed() -> None:
    writer = GraphWriter()
    axes = writer.constant("axes", np.array([0], np.int64))
    writer.add("ReduceSum", ["obs_0", axes], "total", keepdims=1)
    writer.add("Add", ["obs_0", "total"], "logits")
    infos = [_info("obs_0", ["batch", 3])], [_info("logits", ["batch", 3])]
    body = serialize(writer, *infos)
    assert not ActingGraph(body, name="the policy").is_row_independent()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (_graph({"logits": ("Relu", ["batch", 3])}, source="vector"), r"inputs \['vector'\]"),
        (_graph({"actions": ("Relu", ["batch", 3])}), r"outputs \['actions'\]"),
        (_graph({"value": ("Relu", ["batch", 3])}), "expected inputs obs_0, obs_1, … and outputs mean"),
        (_graph({"mean": ("Relu", ["batch", 3])}), "expected inputs obs_0"),
        (
            _graph({"logits": ("Relu", ["batch", 3]), "log_std": ("Relu", [3])}),
            "expected inputs obs_0",
        ),
        (
            _graph({"mean": ("Relu", ["batch", 2]), "log_std": ("Relu", [3])}, width="w"),
            "obs_0 of the policy is tensor\\(float\\) with shape",
        ),
    ],
)
def test_a_graph_with_other_inputs_or_outputs_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(ShapeError, match=complaint):
        ActingGraph(body, name="the policy")


def test_a_head_with_too_many_axes_is_refused() -> None:
    writer = GraphWriter()
    axes = writer.constant("axes", np.array([2], np.int64))
    writer.add("Unsqueeze", ["obs_0", axes], "logits")
    body = serialize(writer, [_info("obs_0", ["batch", 3])], [_info("logits", ["batch", 3, 1])])
    with pytest.raises(ShapeError, match=r"output logits of the policy has shape \['batch', 3, 1\]; expected 2 axes"):
        ActingGraph(body, name="the policy")


def test_a_mean_and_a_log_std_of_different_sizes_are_refused() -> None:
    body = _graph({"mean": ("Relu", ["batch", 2]), "log_std": ("Identity", [3])}, width=2)
    with pytest.raises(ShapeError, match="a mean of 2 numbers and a log_std of 3"):
        ActingGraph(body, name="the policy")


@pytest.mark.parametrize("body", [b"", b"not a graph", acting_graph(BOT)[:-200]])
def test_bytes_that_are_no_graph_are_refused(body: bytes) -> None:
    with pytest.raises(InternalError, match=r"the policy is no graph that onnxruntime [\d.]+ loads"):
        ActingGraph(body, name="the policy")


@given(body=st.binary(max_size=60) | st.integers(0, 400).map(lambda size: acting_graph(BOT)[:size]))
def test_what_has_no_second_piece_is_left_as_it_is(body: bytes) -> None:
    graph_key = bytes([0x3A])
    if body.count(graph_key) < 2:
        assert acting_piece(body) == body
    assert len(acting_piece(body)) <= len(body)


def test_a_model_of_one_piece_is_left_as_it_is() -> None:
    assert acting_piece(acting_graph(BOT)) == acting_graph(BOT)


def test_a_log_std_that_is_not_finite_is_refused() -> None:
    writer = GraphWriter()
    writer.constant("bad", np.array([0.0, np.nan], np.float32))
    writer.add("Identity", ["bad"], "log_std")
    writer.add("Relu", ["obs_0"], "mean")
    outputs = [_info("mean", ["batch", 2]), _info("log_std", [2])]
    body = serialize(writer, [_info("obs_0", ["batch", 2])], outputs)
    with pytest.raises(InternalError, match="log_std that is not finite"):
        ActingGraph(body, name="the policy")


def test_importing_the_replica_does_not_import_onnxruntime_tensorflow_or_grpc() -> None:
    code = (
        "import sys, runtime.acting.replica, runtime.experience.blocks; "
        "found = {'onnxruntime', 'onnx', 'tensorflow', 'grpc', 'thespian'} & set(sys.modules); "
        "sys.exit(', '.join(found) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
