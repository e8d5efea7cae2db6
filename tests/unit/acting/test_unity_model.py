"""What `runtime.inspect` says of models: good ones, each breach of Unity's contract, and files that are no models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from runtime.acting.unity_model import contract_faults, read_model, try_model
from runtime.errors import UsageError
from runtime.inspect import main
from tests.unit.trainers.test_export import random_policy, shape_of
from trainers.export import unity_graph


def exported(*, continuous: int = 0, branches: tuple[int, ...] = ()) -> bytes:
    shape = shape_of(continuous=continuous, branches=branches, observations=(3, 2))
    return unity_graph(shape, *random_policy(shape))


def changed(body: bytes, change: Callable[[onnx.ModelProto], None]) -> bytes:
    model = onnx.load_model_from_string(body)
    change(model)
    return bytes(model.SerializeToString())


def faults_of(body: bytes) -> list[str]:
    return list(contract_faults(read_model(body, "m.onnx")))


@pytest.mark.parametrize("branches", [(), (3,), (3, 2)])
@pytest.mark.parametrize("continuous", [0, 2])
def test_exported_models_fit_and_run_without_a_fault(continuous: int, branches: tuple[int, ...]) -> None:
    if not continuous and not branches:
        return
    model = read_model(exported(continuous=continuous, branches=branches), "m.onnx")
    assert contract_faults(model) == ()
    assert (model.version, model.memory_size, model.continuous_size, model.branches) == (3, 0, continuous, branches)
    assert [each.shape for each in model.observations] == [("batch", 3), ("batch", 2)]
    for rows in (1, 5):
        assert try_model(model, rows=rows, seed=1).faults == ()


def rename(side: str, old: str, new: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        for value in getattr(model.graph, side):
            if value.name == old:
                value.name = new
        for node in model.graph.node:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    if name == old:
                        names[place] = new
        for each in model.graph.initializer:
            if each.name == old:
                each.name = new

    return change


def leave_out(name: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        (value,) = [each for each in model.graph.output if each.name == name]
        model.graph.output.remove(value)

    return change


def set_constant(name: str, value: np.ndarray) -> Callable[[onnx.ModelProto], None]:
    """Replaces an output by a constant of this value."""

    def change(model: onnx.ModelProto) -> None:
        rename("input", name, f"old_{name}")(model)
        for each in model.graph.output:
            if each.name == name:
                dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
                each.CopyFrom(helper.make_tensor_value_info(name, dtype, list(value.shape)))
        node = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        model.graph.node.append(node)

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (leave_out("version_number"), "there is no constant output version_number"),
        (set_constant("version_number", np.array([7.0], np.float32)), "version_number is 7; expected 2 or 3"),
        (leave_out("memory_size"), "there is no constant output memory_size"),
        (
            leave_out("discrete_actions"),
            "output discrete_actions is missing; expected discrete_actions int64 [batch, 2]",
        ),
        (rename("input", "action_masks", "masks"), "input action_masks is missing"),
        (rename("input", "obs_0", "obs_4"), "observations are obs_1, obs_4; expected obs_0, obs_1 and so on"),
        (set_constant("memory_size", np.array([3.0], np.float32)), "memory_size is 3; expected an even number"),
        (set_constant("memory_size", np.array([4.0], np.float32)), "input recurrent_in is missing"),
        (
            set_constant("discrete_action_output_shape", np.array([[3.0, 4.0]], np.float32)),
            "input action_masks float32 [batch, 5]; expected action_masks float32 [batch, 7]",
        ),
    ],
)
def test_each_breach_of_the_contract_is_named(change: Callable[[onnx.ModelProto], None], fault: str) -> None:
    faults = faults_of(changed(exported(branches=(3, 2)), change))
    assert any(each.startswith(fault) for each in faults), faults


def ignore_masks(model: onnx.ModelProto) -> None:
    """All actions are 0, whatever is allowed."""
    rename("output", "deterministic_discrete_actions", "unused")(model)
    model.graph.output[-1].name = "deterministic_discrete_actions"
    model.graph.node.append(helper.make_node("Sub", ["unused", "unused"], ["deterministic_discrete_actions"]))


def test_a_model_that_takes_forbidden_actions_is_found_by_running_it() -> None:
    model = read_model(changed(exported(branches=(3, 2)), ignore_masks), "m.onnx")
    assert contract_faults(model) == ()
    assert try_model(model, rows=3, seed=0).faults == (
        "deterministic_discrete_actions holds actions that action_masks forbids",
    )


def test_actions_beyond_1_are_found_by_running_it() -> None:
    def loud(model: onnx.ModelProto) -> None:
        rename("output", "deterministic_continuous_actions", "unused")(model)
        model.graph.output[-1].name = "deterministic_continuous_actions"
        model.graph.initializer.append(numpy_helper.from_array(np.array(50.0, np.float32), "fifty"))
        model.graph.node.append(helper.make_node("Add", ["unused", "fifty"], ["deterministic_continuous_actions"]))

    model = read_model(changed(exported(continuous=2), loud), "m.onnx")
    assert "deterministic_continuous_actions is outside of -1 to 1" in try_model(model, rows=2, seed=0).faults


def test_an_acting_graph_is_told_to_be_none_for_unity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["obs_0"], ["mean"])],
        "acting",
        [value("obs_0", TensorProto.FLOAT, ["batch", 2])],
        [value("mean", TensorProto.FLOAT, ["batch", 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    path = tmp_path / "acting.onnx"
    path.write_bytes(model.SerializeToString())
    assert main([str(path)]) == 1
    text = capsys.readouterr().out
    assert "version: none" in text
    assert "Unity would not take it: 1 fault\n  there is no constant output version_number (outputs: mean)" in text


def test_the_command_shows_what_unity_sees_and_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "Bot.onnx"
    path.write_bytes(exported(continuous=1, branches=(4,)))
    assert main([str(path), "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:6] == [
        "version: 3 (MLAgents 2.0)",
        "observation: obs_0 float32 [batch, 3] (a vector)",
        "observation: obs_1 float32 [batch, 2] (a vector)",
        "memory: none",
        "continuous actions: 1",
    ]
    assert "discrete actions: 1 branch, of 4" in lines
    assert "Unity takes it: names, types, shapes and version are those that it expects" in lines
    assert "run on random input for 4 agents:" in lines


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("a.onnx", b"", "a.onnx is empty"),
        ("a.onnx", b"behaviors:\n  Bot: {}\n", "a.onnx is no ONNX model"),
        ("a.onnx", exported(continuous=1)[:-40], "a.onnx is no"),
        ("a.nn", b"x", "a model of Barracuda"),
        ("a.pt", b"x", "a checkpoint of PyTorch"),
    ],
)
def test_a_file_that_is_no_model_is_told_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, body: bytes, text: str
) -> None:
    (tmp_path / name).write_bytes(body)
    assert main([str(tmp_path / name)]) == 2
    assert text in capsys.readouterr().err


def test_a_negative_seed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["any.onnx", "--seed", "-1"]) == 2
    assert "--seed -1 is negative; expected a whole number from 0 on" in capsys.readouterr().err


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "no.onnx")]) == 2
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "Bot.onnx").write_bytes(b"")
    assert main([str(tmp_path)]) == 2
    assert "is a folder; expected an ONNX model; models in it: Bot.onnx." in capsys.readouterr().err


def test_a_model_whose_operators_nobody_knows_cannot_be_opened() -> None:
    def odd(model: onnx.ModelProto) -> None:
        model.opset_import.append(helper.make_opsetid("far.away", 1))
        model.graph.node.append(helper.make_node("Unheard", ["obs_0"], ["x"], domain="far.away"))

    with pytest.raises(UsageError, match="cannot be run by onnxruntime"):
        read_model(changed(exported(continuous=1), odd), "m.onnx")


@given(at=st.integers(0, 10**6), new=st.binary(max_size=8), gone=st.integers(0, 30))
def test_a_damaged_file_is_a_model_or_is_refused(at: int, new: bytes, gone: int) -> None:
    body = exported(branches=(3,))
    at %= len(body)
    with contextlib.suppress(UsageError):
        model = read_model(body[:at] + new + body[at + gone :], "m.onnx")
        contract_faults(model)
        try_model(model, rows=2, seed=0)
