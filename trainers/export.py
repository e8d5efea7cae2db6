"""Policies as ONNX: the graph that acts in EnvWorkers, and the file that Unity loads.

Both hold the same trunk (`onnx_layers`). The acting graph uses only operators that give a row the same bits in any
batch: no Log, Softplus, Sin, Elu or ReduceSum. Unity's samples inside, so it may use Log.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from runtime.experience.brains import Floats
from trainers.networks import NetworkShape, named_weights
from trainers.normalizer import Normalizer
from trainers.onnx_graph import GraphWriter, in_order
from trainers.onnx_layers import columns, dense, graph_inputs, recall, trunk

VERSION_NUMBER = 3.0
ACTION_CLIP = 3.0
FORBIDDEN = -3e38
"""Below every finite logit, and still finite when noise is added."""
UNIFORM_LOW, UNIFORM_HIGH = 1e-7, 1.0 - 1e-7
"""Both logarithms of the Gumbel noise stay finite, so it is in -3 .. 17 and no forbidden action can win."""


def acting_graph(shape: NetworkShape, flat: Floats, normalizer: Normalizer, *, sequence_length: int = 0) -> bytes:
    """The graph that acts; its contract is in `runtime/acting`. sequence_length: of a policy with memory.

    Values are a piece of their own at the end, without which it still acts, unless critic and actor are one, or the
    critic remembers.
    """
    graph, weights = GraphWriter("acting"), named_weights(shape, flat)
    inputs = graph_inputs(graph, shape, normalizer)
    size = shape.memory_size
    memory = graph.input("memory_in", ["batch", shape.memory_width]) if size else ""
    actor, after = trunk(graph, "actor", weights, inputs), ""
    if size:
        own = memory if shape.shared_critic else columns(graph, memory, (0, size))
        actor, after = recall(graph, "actor", weights, actor, own)
    if shape.continuous_size:
        graph.output("mean", dense(graph, "mean", weights, actor), ["batch", shape.continuous_size])
        graph.output("log_std", graph.constant("log_std_weight", weights["log_std"]), [shape.continuous_size])
    if shape.mask_size:
        graph.output("logits", dense(graph, "logits", weights, actor), ["batch", shape.mask_size])
    is_apart = not size and not shape.shared_critic
    values, critic = GraphWriter("acting", prefix="values_") if is_apart else graph, actor
    if not shape.shared_critic:
        critic = trunk(values, "critic", weights, inputs)
        if size:
            critic, its_memory = recall(graph, "critic", weights, critic, columns(graph, memory, (size, 2 * size)))
            after = graph.node("Concat", after, its_memory, axis=1)
    values.output("value", dense(values, "value", weights, critic), ["batch", shape.streams])
    if size:
        graph.output("memory", after, ["batch", shape.memory_width])
        graph.constant_output("sequence_length", [float(sequence_length)])
    return graph.body(values) if is_apart else graph.body()


def unity_graph(shape: NetworkShape, flat: Floats, normalizer: Normalizer) -> bytes:
    """The file that Unity loads: version 3, with inputs and outputs named, ordered and typed as it expects them."""
    graph, weights = GraphWriter("policy"), named_weights(shape, flat)
    inputs = graph_inputs(graph, shape, normalizer)
    masks = graph.input("action_masks", ["batch", shape.mask_size]) if shape.mask_size else ""
    actor, after = trunk(graph, "actor", weights, inputs), ""
    if shape.memory_size:
        memory = graph.node("Squeeze", graph.input("recurrent_in", ["batch", 1, shape.memory_size]), axes=[1])
        actor, after = recall(graph, "actor", weights, actor, memory)
    graph.constant_output("version_number", [VERSION_NUMBER])
    graph.constant_output("memory_size", [float(shape.memory_size)])
    if shape.continuous_size:
        _continuous_outputs(graph, shape, weights, actor)
    if shape.mask_size:
        _discrete_outputs(graph, shape, dense(graph, "logits", weights, actor), masks)
    if after:
        graph.output("recurrent_out", graph.node("Unsqueeze", after, axes=[1]), ["batch", 1, shape.memory_size])
    return in_order(graph.body())


def _continuous_outputs(graph: GraphWriter, shape: NetworkShape, weights: Mapping[str, Floats], actor: str) -> None:
    size = shape.continuous_size
    mean = dense(graph, "mean", weights, actor)
    deviation = graph.constant("deviation", np.exp(weights["log_std"]))
    sample = graph.node("Add", mean, graph.node("Mul", graph.node("RandomNormalLike", mean), deviation))
    limit = graph.constant("action_clip", [ACTION_CLIP])
    for name, raw in (("continuous_actions", sample), ("deterministic_continuous_actions", mean)):
        clipped = graph.node("Clip", raw, min=-ACTION_CLIP, max=ACTION_CLIP)
        graph.output(name, graph.node("Div", clipped, limit), ["batch", size])
        if name == "continuous_actions":
            graph.constant_output("continuous_action_output_shape", [float(size)])


def _discrete_outputs(graph: GraphWriter, shape: NetworkShape, logits: str, masks: str) -> None:
    count = len(shape.branches)
    is_allowed = graph.node("Greater", masks, graph.constant("half", [0.5]))
    allowed = graph.node("Where", is_allowed, logits, graph.constant("forbidden", [FORBIDDEN]))
    uniform = graph.node("RandomUniformLike", logits, low=UNIFORM_LOW, high=UNIFORM_HIGH)
    # Rounding may carry a draw to the upper end; the clip makes sure of both.
    inside = graph.node("Clip", uniform, min=UNIFORM_LOW, max=UNIFORM_HIGH)
    exponential = graph.node("Neg", graph.node("Log", inside))
    gumbel = graph.node("Neg", graph.node("Log", exponential))
    noisy = graph.node("Add", allowed, gumbel)
    for name, scores in (("discrete_actions", noisy), ("deterministic_discrete_actions", allowed)):
        graph.output(name, _argmax_per_branch(graph, shape, scores), ["batch", count], is_index=True)
        if name == "discrete_actions":
            graph.constant_output("discrete_action_output_shape", [[float(size) for size in shape.branches]])


def _argmax_per_branch(graph: GraphWriter, shape: NetworkShape, scores: str) -> str:
    ends = list(accumulate(shape.branches))
    parts = []
    for end, size in zip(ends, shape.branches, strict=True):
        branch = graph.node("Slice", scores, axes=[1], starts=[end - size], ends=[end])
        parts.append(graph.node("ArgMax", branch, axis=1, keepdims=1))
    return graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
