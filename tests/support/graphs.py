"""Small acting graphs, written operator by operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime.experience.brains import BrainParameters
from runtime.messages import PolicyUpdate

OPSET = 15


@dataclass
class GraphWriter:
    """Collects the nodes and constants of a graph."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def acting_graph(
    brain: BrainParameters,
    *,
    hidden: tuple[int, ...] = (16, 16),
    activation: str = "Relu",
    seed: int = 0,
    streams: int = 1,
    gain: float = 1.0,
) -> bytes:
    """A random network for `brain` by the contract of acting graphs; gain scales the heads. No value for streams 0."""
    rng = np.random.default_rng(seed)
    writer = GraphWriter()
    features, width = _flatten(writer, brain)
    for number, units in enumerate(hidden):
        features = writer.add(
            activation, [_dense(writer, rng, features, (width, units), f"layer_{number}")], f"act_{number}"
        )
        width = units
    spec, outputs = brain.action_spec, []
    heads = {"mean": spec.continuous_size, "logits": spec.mask_size, "value": streams}
    for head, size in heads.items():
        if size:
            _dense(writer, rng, features, (width, size), head, gain=gain)
            outputs.append(helper.make_tensor_value_info(head, TensorProto.FLOAT, ["batch", size]))
    if spec.continuous_size:
        log_std = writer.constant("log_std_value", rng.normal(-0.5, 0.2, spec.continuous_size).astype(np.float32))
        writer.add("Identity", [log_std], "log_std")
        outputs.append(helper.make_tensor_value_info("log_std", TensorProto.FLOAT, [spec.continuous_size]))
    inputs = [
        helper.make_tensor_value_info(f"obs_{index}", TensorProto.FLOAT, ["batch", *each.shape])
        for index, each in enumerate(brain.observation_specs)
    ]
    return serialize(writer, inputs, outputs)


def constant_graph(brain: BrainParameters, *, logits: Sequence[float]) -> bytes:
    """A graph that gives every row these logits, whatever it observes (observations times zero, plus the logits)."""
    writer = GraphWriter()
    features, width = _flatten(writer, brain)
    weights = writer.constant("zeros", np.zeros((width, len(logits)), np.float32))
    bias = writer.constant("bias", np.asarray(logits, np.float32))
    writer.add("Gemm", [features, weights, bias], "logits")
    inputs = [
        helper.make_tensor_value_info(f"obs_{index}", TensorProto.FLOAT, ["batch", *each.shape])
        for index, each in enumerate(brain.observation_specs)
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(logits)])]
    return serialize(writer, inputs, outputs)


def serialize(
    writer: GraphWriter, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
) -> bytes:
    """The bytes of a checked model."""
    graph = helper.make_graph(writer.nodes, "acting", list(inputs), list(outputs), writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def onnx_update(behavior: str, version: int, body: bytes) -> PolicyUpdate:
    """A message that carries a graph."""
    return PolicyUpdate(run="test", behavior=behavior, version=version, kind="onnx", body=body)


def _flatten(writer: GraphWriter, brain: BrainParameters) -> tuple[str, int]:
    flat = [
        writer.add("Flatten", [f"obs_{index}"], f"flat_{index}", axis=1)
        for index in range(len(brain.observation_specs))
    ]
    width = sum(math.prod(each.shape) for each in brain.observation_specs)
    return writer.add("Concat", flat, "features", axis=1), width


def _dense(
    writer: GraphWriter,
    rng: np.random.Generator,
    features: str,
    shape: tuple[int, int],
    output: str,
    *,
    gain: float = 1.0,
) -> str:
    weights = rng.normal(0.0, gain / math.sqrt(shape[0]), shape).astype(np.float32)
    bias = rng.normal(0.0, 0.1, shape[1]).astype(np.float32)
    names = [writer.constant(f"{output}_weights", weights), writer.constant(f"{output}_bias", bias)]
    return writer.add("Gemm", [features, *names], output)
