"""The network up to its heads, as ONNX operators that give a row the same bits whatever else is in the batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from runtime.experience.brains import Floats
from trainers.encoders import IMAGE_SCALE, IMAGE_SHIFT, POOL_STRIDE, STACK_KERNELS, STACK_SIDE
from trainers.networks import NetworkShape
from trainers.normalizer import CLIP, Normalizer
from trainers.onnx_graph import GraphWriter

FLOAT = int(TensorProto.FLOAT)
FAR = 1e9
"""As in the TensorFlow layer."""


@dataclass(frozen=True, slots=True)
class GraphInputs:
    """Names of tensors. others, goals: vectors side by side, normalised, or "" when there are none; sights: as came."""

    shape: NetworkShape
    others: str
    goals: str
    sights: tuple[str, ...]


def graph_inputs(graph: GraphWriter, shape: NetworkShape, normalizer: Normalizer) -> GraphInputs:
    """Declares `obs_0`, `obs_1`, ..., float32 [batch, *shape], images in 0 to 1."""
    names = [graph.input(f"obs_{index}", ["batch", *each]) for index, each in enumerate(shape.observations)]

    def joined(*, goals: bool) -> str:
        chosen = [index for index in shape.vectors if shape.observations[index][0] and (index in shape.goals) == goals]
        return _vectors(graph, shape, normalizer, [names[index] for index in chosen], goals=goals) if chosen else ""

    return GraphInputs(shape, joined(goals=False), joined(goals=True), tuple(names[index] for index in shape.sights))


def _vectors(
    graph: GraphWriter,
    shape: NetworkShape,
    normalizer: Normalizer,
    names: Sequence[str],
    *,
    goals: bool,
) -> str:
    vectors = graph.node("Concat", *names, axis=1) if len(names) > 1 else names[0]
    if not shape.normalize:
        return vectors
    columns, prefix = list(shape.columns(goals=goals)), "goal_normalizer" if goals else "normalizer"
    shift, scale = (each[columns] for each in normalizer.shift_and_scale())
    moved = graph.node("Sub", vectors, graph.constant(f"{prefix}.shift", shift))
    scaled = graph.node("Mul", moved, graph.constant(f"{prefix}.scale", scale))
    return graph.node("Clip", scaled, min=-CLIP, max=CLIP)


def trunk(graph: GraphWriter, name: str, weights: Mapping[str, Floats], inputs: GraphInputs) -> str:
    """Encoders and hidden layers of the actor or the critic."""
    shape = inputs.shape
    encoded = [
        (_image if len(shape.observations[index]) == 3 else _buffer)(
            graph, f"{name}.sight.{place}", weights, inputs, place
        )
        for place, index in enumerate(shape.sights)
    ]
    hidden = _features(graph, inputs.others, [encoded[place] for place in shape.sight_places(goals=False)])
    for layer in range(shape.num_layers):
        linear = dense(graph, f"{name}.{layer}", weights, hidden)
        if shape.goals and layer == shape.num_layers - 1:
            goal = _features(graph, inputs.goals, [encoded[place] for place in shape.sight_places(goals=True)])
            goal = _swish(graph, dense(graph, f"{name}.goal", weights, goal))
            linear = graph.node("Add", linear, _generated(graph, name, weights, hidden, goal))
        hidden = _swish(graph, linear)
    return hidden


def recall(graph: GraphWriter, name: str, weights: Mapping[str, Floats], hidden: str, memory: str) -> tuple[str, str]:
    """What the memory of the actor or the critic makes of its last hidden layer, and what it is from now on."""
    kernel = weights[f"{name}.memory.recurrent.kernel"]
    cells = len(kernel)
    before, cell = (columns(graph, memory, (half * cells, (half + 1) * cells)) for half in range(2))
    recurrent = graph.node("MatMul", before, graph.constant(f"{name}.memory.recurrent.kernel", kernel))
    gates = graph.node("Add", dense(graph, f"{name}.memory", weights, hidden), recurrent)
    let_in, keep, candidate, give = (columns(graph, gates, (gate * cells, (gate + 1) * cells)) for gate in range(4))
    kept = graph.node("Mul", graph.node("Sigmoid", keep), cell)
    new = graph.node("Mul", graph.node("Sigmoid", let_in), graph.node("Tanh", candidate))
    cell = graph.node("Add", kept, new)
    given = graph.node("Mul", graph.node("Sigmoid", give), graph.node("Tanh", cell))
    return given, graph.node("Concat", given, cell, axis=1)


def columns(graph: GraphWriter, rows: str, window: tuple[int, int]) -> str:
    """Columns from the first number of `window` to before the second."""
    start, end = window
    return graph.node("Slice", rows, axes=[1], starts=[start], ends=[end])


def dense(graph: GraphWriter, name: str, weights: Mapping[str, Floats], inputs: str) -> str:
    """A linear layer."""
    kernel = graph.constant(f"{name}.kernel", weights[f"{name}.kernel"])
    bias = graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    return graph.node("Gemm", inputs, kernel, bias)


def _swish(graph: GraphWriter, linear: str) -> str:
    return graph.node("Mul", linear, graph.node("Sigmoid", linear))


def _elu(graph: GraphWriter, linear: str) -> str:
    zero, one = graph.shared_constant("zero", [0.0]), graph.shared_constant("one", [1.0])
    below = graph.node("Sub", graph.node("Exp", graph.node("Min", linear, zero)), one)
    return graph.node("Add", graph.node("Relu", linear), below)


def _features(graph: GraphWriter, vectors: str, sights: Sequence[str]) -> str:
    parts = [*([vectors] if vectors else []), *sights]
    return graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _image(graph: GraphWriter, name: str, weights: Mapping[str, Floats], inputs: GraphInputs, place: int) -> str:
    """The image centred, convolutions with ELU or stacks, then a dense layer.

    The weights are laid out for TensorFlow, channels last; the graph has channels first, as its inputs.
    """
    encoder = inputs.shape.convolutions
    scaled = graph.node("Mul", inputs.sights[place], graph.shared_constant("image_scale", [IMAGE_SCALE]))
    image = graph.node("Sub", scaled, graph.shared_constant("image_shift", [IMAGE_SHIFT]))
    for number, each in enumerate(encoder.convolutions):
        constants = _filters(graph, f"{name}.{number}", weights)
        image = _elu(graph, graph.node("Conv", image, *constants, strides=[each.stride, each.stride]))
    for stack in range(len(encoder.stacks)):
        image = _stack(graph, name, weights, image, stack * STACK_KERNELS)
    image = graph.node("Relu", image) if encoder.stacks else image
    channels, height, width = encoder.maps(inputs.shape.observations[inputs.shape.sights[place]])[-1]
    last = weights[f"{name}.dense.kernel"]
    turned = last.reshape(height, width, channels, -1).transpose(2, 0, 1, 3).reshape(last.shape)
    flat = graph.node("Flatten", image, axis=1)
    return _swish(graph, dense(graph, f"{name}.dense", {**weights, f"{name}.dense.kernel": turned}, flat))


def _filters(graph: GraphWriter, name: str, weights: Mapping[str, Floats]) -> list[str]:
    """Kernel and bias of a convolution, channels first."""
    kernel = graph.constant(f"{name}.kernel", weights[f"{name}.kernel"].transpose(3, 2, 0, 1))
    return [kernel, graph.constant(f"{name}.bias", weights[f"{name}.bias"])]


def _stack(graph: GraphWriter, name: str, weights: Mapping[str, Floats], image: str, first: int) -> str:
    """A convolution, the largest of each neighbourhood, and two blocks; first: number of the convolution."""

    def convolved(number: int, inputs: str) -> str:
        return graph.node("Conv", inputs, *_filters(graph, f"{name}.{number}", weights), pads=[1, 1, 1, 1])

    sizes, strides = [STACK_SIDE, STACK_SIDE], [POOL_STRIDE, POOL_STRIDE]
    image = graph.node("MaxPool", convolved(first, image), kernel_shape=sizes, strides=strides)
    for number in (first + 1, first + 3):
        inner = convolved(number, graph.node("Relu", image))
        image = graph.node("Add", image, convolved(number + 1, graph.node("Relu", inner)))
    return image


def _buffer(graph: GraphWriter, name: str, weights: Mapping[str, Floats], inputs: GraphInputs, place: int) -> str:
    """Attention of things to each other, then the mean of those that are there; sums are products with ones."""
    count, numbers = inputs.shape.observations[inputs.shape.sights[place]]
    things, one = inputs.sights[place], graph.shared_constant("one", [1.0])
    amount = graph.node("MatMul", graph.node("Abs", things), graph.constant(f"{name}.numbers", np.ones((numbers, 1))))
    is_there = graph.node("Cast", graph.node("Greater", amount, graph.shared_constant("zero", [0.0])), to=FLOAT)
    across = graph.node("Transpose", is_there, perm=[0, 2, 1])
    linear = _each(graph, f"{name}.thing", weights, things)
    if inputs.others:
        agent = graph.constant(f"{name}.agent.kernel", weights[f"{name}.agent.kernel"])
        told = graph.node("Unsqueeze", graph.node("MatMul", inputs.others, agent), axes=[1])
        linear = graph.node("Add", linear, told)
    known = _swish(graph, linear)
    query, key, value = (_each(graph, f"{name}.{layer}", weights, known) for layer in ("query", "key", "value"))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 2, 1]))
    scaled = graph.node("Mul", scores, graph.constant(f"{name}.scale", [1.0 / math.sqrt(inputs.shape.hidden_units)]))
    absent = graph.node("Mul", graph.node("Sub", across, one), graph.shared_constant("far", [FAR]))
    shares = graph.node("Softmax", graph.node("Add", scaled, absent), axis=2)
    together = graph.node("Add", known, _each(graph, f"{name}.attended", weights, graph.node("MatMul", shares, value)))
    there = graph.node("MatMul", across, graph.constant(f"{name}.things", np.ones((count, 1))))
    mean = graph.node("Div", graph.node("MatMul", across, together), graph.node("Max", there, one))
    return graph.node("Flatten", mean, axis=1)


def _each(graph: GraphWriter, name: str, weights: Mapping[str, Floats], rows: str) -> str:
    """A linear layer on the last axis."""
    kernel = graph.constant(f"{name}.kernel", weights[f"{name}.kernel"])
    return graph.node(
        "Add", graph.node("MatMul", rows, kernel), graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    )


def _generated(graph: GraphWriter, name: str, weights: Mapping[str, Floats], hidden: str, goal: str) -> str:
    """What the weights that a goal generates add to a layer: each product of an input and a goal number has its row."""
    products = graph.node("Mul", graph.node("Unsqueeze", hidden, axes=[2]), graph.node("Unsqueeze", goal, axes=[1]))
    kernel = graph.constant(f"{name}.generated.kernel", weights[f"{name}.generated.kernel"])
    bias = graph.constant(f"{name}.generated_bias.kernel", weights[f"{name}.generated_bias.kernel"])
    by_kernel = graph.node("MatMul", graph.node("Flatten", products, axis=1), kernel)
    return graph.node("Add", by_kernel, graph.node("MatMul", goal, bias))
