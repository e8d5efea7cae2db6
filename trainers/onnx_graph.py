"""A small writer of ONNX graphs: opset 9, IR version 4, the same bytes for the same content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

OPSET = 9
IR_VERSION = 4
PRODUCER = "actor-ml-runtime"

Dimension = int | str


class GraphWriter:
    """Collects nodes, constants, inputs and outputs; names count up, so nothing depends on anything but the calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Any] = []  # onnx ships types that our checks do not follow
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Sequence[Dimension]) -> str:
        """A float32 input."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def constant(self, name: str, values: npt.ArrayLike) -> str:
        """A float32 initializer."""
        array = np.ascontiguousarray(values, np.float32)
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def shared_constant(self, name: str, values: npt.ArrayLike) -> str:
        """The float32 initializer of this name, made when it is first asked for."""
        if all(each.name != name for each in self._constants):
            self.constant(name, values)
        return name

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """One operator with one output, whose name it returns."""
        name = output or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def output(self, name: str, source: str, shape: Sequence[Dimension], *, is_index: bool = False) -> None:
        """Gives a tensor out under `name`: float32, or int64 for indices."""
        self._nodes.append(helper.make_node("Identity", [source], [name]))
        kind = TensorProto.INT64 if is_index else TensorProto.FLOAT
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def constant_output(self, name: str, values: npt.ArrayLike) -> None:
        """A float32 output that never changes, made by a Constant node as exporters write it."""
        array = np.ascontiguousarray(values, np.float32)
        self._nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(array.shape)))

    def body(self) -> bytes:
        """The model file."""
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(
            graph,
            producer_name=PRODUCER,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )
        return bytes(model.SerializeToString(deterministic=True))
