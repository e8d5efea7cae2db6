"""A small writer of ONNX graphs: opset 9, IR version 4, the same bytes for the same content.

What does not change from one version of a policy to the next is written once and remembered: `_structure` and
`_header`. The rest is the constants' own bytes, put behind it: parts of a protobuf message may come in any order and in
any number of pieces, so pieces laid end to end are the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

from runtime.protobuf_bytes import varint

OPSET = 9
IR_VERSION = 4
PRODUCER = "actor-ml-runtime"
REMEMBERED_MAX = 256
FLOAT: Final = int(TensorProto.FLOAT)
VALUE: Final = "value"
# Numbers of fields, with the wire type of bytes: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
GRAPH, INITIALIZER, RAW_DATA = (bytes([number << 3 | 2]) for number in (7, 5, 9))

Dimension = int | str
Frozen = Any  # numbers, texts, bytes, and tuples of them


class _Node(NamedTuple):
    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: tuple[tuple[str, Frozen], ...] = ()


class _Value(NamedTuple):
    name: str
    kind: int
    shape: tuple[Dimension, ...]


class GraphWriter:
    """Collects nodes, constants, inputs and outputs; names count up, so nothing depends on anything but the calls."""

    def __init__(self, name: str, *, prefix: str = "") -> None:
        """prefix: of names that nodes and shared constants get, for a graph that goes on where another one ends."""
        self._name = name
        self._prefix = prefix
        self._nodes: list[_Node] = []
        self._constants: dict[str, npt.NDArray[np.float32]] = {}
        self._inputs: list[_Value] = []
        self._outputs: list[_Value] = []

    def input(self, name: str, shape: Sequence[Dimension]) -> str:
        """A float32 input."""
        self._inputs.append(_Value(name, FLOAT, tuple(shape)))
        return name

    def constant(self, name: str, values: npt.ArrayLike) -> str:
        """A float32 initializer."""
        self._constants[name] = np.ascontiguousarray(values, np.float32)
        return name

    def shared_constant(self, name: str, values: npt.ArrayLike) -> str:
        """The float32 initializer of this name, made when it is first asked for; its name here."""
        name = self._prefix + name
        return name if name in self._constants else self.constant(name, values)

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """One operator with one output, whose name it returns."""
        name = output or f"{self._prefix}{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(_Node(operator, inputs, name, _frozen(attributes)))
        return name

    def output(self, name: str, source: str, shape: Sequence[Dimension], *, is_index: bool = False) -> None:
        """Gives a tensor out under `name`: float32, or int64 for indices."""
        self._nodes.append(_Node("Identity", (source,), name))
        kind = TensorProto.INT64 if is_index else TensorProto.FLOAT
        self._outputs.append(_Value(name, int(kind), tuple(shape)))

    def constant_output(self, name: str, values: npt.ArrayLike) -> None:
        """A float32 output that never changes, made by a Constant node as exporters write it."""
        array = np.ascontiguousarray(values, np.float32)
        self._nodes.append(_Node("Constant", (), name, ((VALUE, (array.shape, array.tobytes())),)))
        self._outputs.append(_Value(name, FLOAT, array.shape))

    def graph(self) -> bytes:
        """The GraphProto: what was collected, in the form that a model holds."""
        structure = _structure(self._name, tuple(self._nodes), tuple(self._inputs), tuple(self._outputs))
        pieces = [structure]
        for name, array in self._constants.items():
            raw = array.tobytes()
            header = _header(name, array.shape)
            pieces += [INITIALIZER, varint(len(header) + len(raw)), header, raw]
        return b"".join(pieces)

    def body(self, *more: GraphWriter) -> bytes:
        """The model file. more: graphs that go on where this one ends, each a piece of its own."""
        pieces = [_model()]
        for each in (self, *more):
            graph = each.graph()
            pieces += [GRAPH, varint(len(graph)), graph]
        return b"".join(pieces)


def in_order(body: bytes) -> bytes:
    """The same model with its parts in the order in which protobuf libraries write them, for readers of their own."""
    return bytes(ModelProto.FromString(body).SerializeToString(deterministic=True))


def _frozen(attributes: dict[str, object]) -> tuple[tuple[str, Frozen], ...]:
    return tuple((name, tuple(each) if isinstance(each, list) else each) for name, each in attributes.items())


@lru_cache(REMEMBERED_MAX)
def _structure(name: str, nodes: tuple[_Node, ...], inputs: tuple[_Value, ...], outputs: tuple[_Value, ...]) -> bytes:
    """A GraphProto without its initializers."""
    described = [[helper.make_tensor_value_info(*each) for each in values] for values in (inputs, outputs)]
    graph = helper.make_graph([_node(each) for each in nodes], name, *described)
    return bytes(graph.SerializeToString(deterministic=True))


def _node(node: _Node) -> Any:  # onnx ships types that our checks do not follow
    attributes = dict(node.attributes)
    if node.operator == "Constant":
        shape, raw = attributes[VALUE]
        attributes[VALUE] = numpy_helper.from_array(np.frombuffer(raw, np.float32).reshape(shape))
    return helper.make_node(node.operator, list(node.inputs), [node.output], **attributes)


@lru_cache(REMEMBERED_MAX)
def _header(name: str, shape: tuple[int, ...]) -> bytes:
    """A TensorProto up to its numbers, little-endian float32."""
    size = 4 * int(np.prod(shape, dtype=np.int64))
    tensor = TensorProto(name=name, dims=shape, data_type=FLOAT)
    return bytes(tensor.SerializeToString(deterministic=True)) + RAW_DATA + varint(size)


@lru_cache(1)
def _model() -> bytes:
    """A ModelProto without its graph."""
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        helper.make_graph([], "", [], []), producer_name=PRODUCER, ir_version=IR_VERSION, opset_imports=[opset]
    )
    model.ClearField("graph")
    return bytes(model.SerializeToString(deterministic=True))
