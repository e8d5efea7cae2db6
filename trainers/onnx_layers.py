"""The network up to its heads, as ONNX operators that give a row the same bits whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.experience.brains import Floats
from trainers.networks import NetworkShape
from trainers.normalizer import CLIP, Normalizer
from trainers.onnx_graph import GraphWriter


@dataclass(frozen=True, slots=True)
class GraphInputs:
    """Names of tensors. others, goals: vectors side by side, normalised, or "" when there are none; images: as came."""

    shape: NetworkShape
    others: str
    goals: str
    images: tuple[str, ...]


def graph_inputs(graph: GraphWriter, shape: NetworkShape, normalizer: Normalizer) -> GraphInputs:
    """Declares `obs_0`, `obs_1`, ..., float32 [batch, *shape], images in 0 to 1."""
    names = [graph.input(f"obs_{index}", ["batch", *each]) for index, each in enumerate(shape.observations)]

    def joined(*, goals: bool) -> str:
        chosen = [index for index in shape.vectors if shape.observations[index][0] and (index in shape.goals) == goals]
        return _vectors(graph, shape, normalizer, [names[index] for index in chosen], goals=goals) if chosen else ""

    return GraphInputs(shape, joined(goals=False), joined(goals=True), tuple(names[index] for index in shape.images))


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
    encoded = [_image(graph, f"{name}.image.{place}", weights, inputs, place) for place in range(len(shape.images))]
    hidden = _features(graph, inputs.others, [encoded[place] for place in shape.image_places(goals=False)])
    for layer in range(shape.num_layers):
        linear = dense(graph, f"{name}.{layer}", weights, hidden)
        if shape.goals and layer == shape.num_layers - 1:
            goal = _features(graph, inputs.goals, [encoded[place] for place in shape.image_places(goals=True)])
            goal = _swish(graph, dense(graph, f"{name}.goal", weights, goal))
            linear = graph.node("Add", linear, _generated(graph, name, weights, hidden, goal))
        hidden = _swish(graph, linear)
    return hidden


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


def _features(graph: GraphWriter, vectors: str, images: Sequence[str]) -> str:
    parts = [*([vectors] if vectors else []), *images]
    return graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _image(graph: GraphWriter, name: str, weights: Mapping[str, Floats], inputs: GraphInputs, place: int) -> str:
    """Convolutions with ELU, then a dense layer.

    The weights are laid out for TensorFlow, channels last; the graph has channels first, as its inputs.
    """
    image, encoder = inputs.images[place], inputs.shape.convolutions
    for number, each in enumerate(encoder.convolutions):
        kernel = weights[f"{name}.{number}.kernel"].transpose(3, 2, 0, 1)
        constants = [
            graph.constant(f"{name}.{number}.kernel", kernel),
            graph.constant(f"{name}.{number}.bias", weights[f"{name}.{number}.bias"]),
        ]
        image = _elu(graph, graph.node("Conv", image, *constants, strides=[each.stride, each.stride]))
    channels, height, width = encoder.maps(inputs.shape.observations[inputs.shape.images[place]])[-1]
    last = weights[f"{name}.dense.kernel"]
    turned = last.reshape(height, width, channels, -1).transpose(2, 0, 1, 3).reshape(last.shape)
    flat = graph.node("Flatten", image, axis=1)
    return _swish(graph, dense(graph, f"{name}.dense", {**weights, f"{name}.dense.kernel": turned}, flat))


def _generated(graph: GraphWriter, name: str, weights: Mapping[str, Floats], hidden: str, goal: str) -> str:
    """What the weights that a goal generates add to a layer: each product of an input and a goal number has its row."""
    products = graph.node("Mul", graph.node("Unsqueeze", hidden, axes=[2]), graph.node("Unsqueeze", goal, axes=[1]))
    kernel = graph.constant(f"{name}.generated.kernel", weights[f"{name}.generated.kernel"])
    bias = graph.constant(f"{name}.generated_bias.kernel", weights[f"{name}.generated_bias.kernel"])
    by_kernel = graph.node("MatMul", graph.node("Flatten", products, axis=1), kernel)
    return graph.node("Add", by_kernel, graph.node("MatMul", goal, bias))
