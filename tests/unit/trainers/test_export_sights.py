"""ONNX files of policies that see more than vectors or are told goals: equal to TensorFlow, and as Unity expects."""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.acting.graphs import ActingGraph
from runtime.experience.brains import Floats
from runtime.experience.infos import observation_floats
from trainers.encoders import ENCODERS
from trainers.export import acting_graph, unity_graph
from trainers.networks import GOAL_UNITS, NetworkShape, named_weights
from trainers.normalizer import Normalizer
from trainers.ppo.layers import elu
from trainers.ppo.policy import ActorCritic, PolicyOutputs

MEASURED_CLEAN = {
    *("Add", "Clip", "Concat", "Conv", "Exp", "Flatten", "Gemm", "Identity", "MatMul", "Min", "Mul", "Relu"),
    *("Abs", "Cast", "Div", "Greater", "Max", "MaxPool", "Sigmoid", "Softmax", "Sub", "Transpose", "Unsqueeze"),
}
"""Operators that were measured to give a row the same bits in any batch."""

PLAIN = NetworkShape(
    observations=((3, 36, 36), (2,), (1, 40, 36)),
    continuous_size=2,
    branches=(3, 2),
    streams=1,
    hidden_units=32,
    num_layers=2,
    shared_critic=False,
    normalize=True,
    encoder="simple",
    sight_types=("uint8", "float32"),
)


def policy_of(shape: NetworkShape, seed: int = 0) -> tuple[Floats, Normalizer]:
    """Weights as training leaves them, not as it begins: biases that are not 0, heads that say something."""
    rng = np.random.default_rng(seed)
    parts = []
    for _, dimensions in shape.layout:
        spread = 1.0 / np.sqrt(max(math.prod(dimensions[:-1]), 4))
        parts.append(rng.normal(0, spread, dimensions).astype(np.float32).ravel())
    seen = rng.normal(1.0, 2.0, (50, shape.vector_size)).astype(np.float32)
    return np.concatenate(parts), Normalizer.empty(shape.vector_size).merged(seen)


def observations_of(shape: NetworkShape, rows: int, seed: int = 1) -> list[npt.NDArray[np.generic]]:
    """As a player sends them, in the order of the brain."""
    rng, types = np.random.default_rng(seed), iter(shape.sight_types)
    found: list[npt.NDArray[np.generic]] = []
    for each in shape.observations:
        if len(each) == 1:
            found.append(rng.normal(1.0, 2.0, (rows, *each)).astype(np.float32))
        elif len(each) == 2:
            assert next(types) == "float32"
            is_there = rng.random((rows, each[0], 1)) < 0.6
            found.append((rng.normal(0.0, 1.0, (rows, *each)) * is_there).astype(np.float32))
        elif next(types) == "uint8":
            found.append(rng.integers(0, 256, (rows, *each), dtype=np.uint8))
        else:
            found.append(rng.random((rows, *each), dtype=np.float32))
    return found


def by_tensorflow(shape: NetworkShape, seen: list[npt.NDArray[np.generic]], seed: int = 0) -> PolicyOutputs:
    flat, normalizer = policy_of(shape, seed)
    policy = ActorCritic(shape)
    vectors = np.concatenate(
        [np.zeros((len(seen[0]), 0), np.float32), *(seen[index] for index in shape.vectors)], axis=1
    )
    shift, scale = normalizer.shift_and_scale()
    sights = [tf.constant(seen[index]) for index in shape.sights]
    return policy.outputs(
        policy.tensors(tf.constant(flat)), policy.normalized(tf.constant(vectors), shift, scale), sights
    )


def acting(shape: NetworkShape, seed: int = 0) -> ActingGraph:
    return ActingGraph(acting_graph(shape, *policy_of(shape, seed)), name="the policy")


def floats_of(seen: list[npt.NDArray[np.generic]]) -> list[Floats]:
    return [observation_floats(each.astype(np.float32) if each.dtype != np.uint8 else each) for each in seen]  # type: ignore[arg-type]  # numpy's generic hides the two dtypes


def assert_equal_to_tensorflow(shape: NetworkShape, rows: int, seed: int = 0) -> None:
    seen = observations_of(shape, rows, seed + 1)
    expected, found = by_tensorflow(shape, seen, seed), acting(shape, seed).run(floats_of(seen))
    for name in ("mean", "logits", "value"):
        values = getattr(found, name)
        if values is not None:
            np.testing.assert_allclose(values, getattr(expected, name), rtol=0, atol=1e-4)


observation_shapes = st.lists(
    st.one_of(
        st.integers(0, 3).map(lambda size: (size,)),
        st.tuples(st.integers(1, 5), st.integers(1, 4)),
        st.tuples(st.integers(1, 4), st.integers(36, 39), st.integers(36, 39)),
    ),
    min_size=1,
    max_size=4,
).filter(lambda shapes: any(0 not in each for each in shapes))


@st.composite
def shapes(draw: st.DrawFn) -> NetworkShape:
    """Networks of vectors, buffers and images in any order, some of them goals."""
    observations = draw(observation_shapes)
    sized = [index for index, each in enumerate(observations) if 0 not in each]
    goals = draw(st.sets(st.sampled_from(sized), max_size=max(len(sized) - 1, 0)))
    types = {2: st.just("float32"), 3: st.sampled_from(["uint8", "float32"])}
    return replace(
        PLAIN,
        observations=tuple(observations),
        hidden_units=draw(st.integers(1, 9)),
        num_layers=draw(st.integers(1, 2)),
        shared_critic=draw(st.booleans()),
        normalize=draw(st.booleans()),
        encoder=draw(st.sampled_from(sorted(ENCODERS))),
        sight_types=tuple(draw(types[len(each)]) for each in observations if len(each) > 1),
        goals=tuple(sorted(goals)),
    )


@settings(max_examples=15)
@given(shape=shapes(), seed=st.integers(0, 1000))
def test_the_acting_graph_equals_the_tensorflow_policy(shape: NetworkShape, seed: int) -> None:
    for rows in (1, 5):
        assert_equal_to_tensorflow(shape, rows, seed)


@pytest.mark.parametrize(
    ("kind", "side"),
    [(kind, side) for kind in sorted(ENCODERS) for side in ([5, 12] if kind == "match3" else [36, 84])],
)
@pytest.mark.parametrize("goals", [(), (1,)])
def test_a_row_has_the_same_bits_in_any_batch(kind: str, side: int, goals: tuple[int, ...]) -> None:
    shape = replace(
        PLAIN,
        observations=((3, side, side), (2,), (1, side, side), (20, 7)),
        hidden_units=64,
        encoder=kind,
        sight_types=("uint8", "float32", "float32"),
        goals=goals,
    )
    graph = acting(shape)
    assert graph.is_row_independent()
    seen = floats_of(observations_of(shape, 33))
    together = graph.run(seen)
    alone = graph.run_row_by_row(seen)
    for name in ("mean", "logits", "value"):
        assert getattr(alone, name).tobytes() == getattr(together, name).tobytes()
    assert_equal_to_tensorflow(shape, 6)


def test_the_acting_graph_holds_only_operators_that_were_measured() -> None:
    shape = replace(
        PLAIN, observations=(*PLAIN.observations, (4, 3)), sight_types=("uint8", "float32", "float32"), goals=(1, 2)
    )
    model = onnx.load_from_string(acting_graph(shape, *policy_of(shape)))
    onnx.checker.check_model(model, full_check=True)
    used = {node.op_type for node in model.graph.node}
    assert used <= MEASURED_CLEAN
    assert {"Conv", "Exp", "Softmax", "Unsqueeze"} <= used


def test_our_elu_is_elu() -> None:
    x = np.linspace(-20, 5, 1001, dtype=np.float32)
    np.testing.assert_allclose(elu(tf.constant(x)), tf.nn.elu(x), rtol=0, atol=1e-6)
    with tf.GradientTape() as tape:
        at = tf.constant([-1.0, 0.0, 2.0])
        tape.watch(at)
        total = tf.reduce_sum(elu(at))
    np.testing.assert_allclose(tape.gradient(total, at), [np.exp(-1.0), 1.0, 1.0], rtol=1e-6)


def test_unitys_file_takes_images_channels_first_as_floats() -> None:
    shape = replace(PLAIN, observations=((3, 36, 40), (2,), (1, 40, 36)), goals=(1,))
    model = onnx.load_from_string(unity_graph(shape, *policy_of(shape)))
    onnx.checker.check_model(model, full_check=True)
    described = []
    for each in model.graph.input:
        tensor = each.type.tensor_type
        described.append((each.name, tensor.elem_type, [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]))
    float32 = onnx.TensorProto.FLOAT
    assert described == [
        ("obs_0", float32, ["batch", 3, 36, 40]),
        ("obs_1", float32, ["batch", 2]),
        ("obs_2", float32, ["batch", 1, 40, 36]),
        ("action_masks", float32, ["batch", 5]),
    ]
    seen = observations_of(shape, 4)
    feed = {f"obs_{index}": each for index, each in enumerate(floats_of(seen))}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    masks = np.ones((4, 5), np.float32)
    (found,) = session.run(["deterministic_continuous_actions"], {**feed, "action_masks": masks})
    means = np.clip(np.asarray(by_tensorflow(shape, seen).mean), -3, 3) / 3
    np.testing.assert_allclose(found, means, rtol=0, atol=1e-4)


def test_files_are_byte_for_byte_the_same_again() -> None:
    shape = replace(PLAIN, goals=(1,))
    for build in (acting_graph, unity_graph):
        assert len({build(shape, *policy_of(shape)) for _ in range(3)}) == 1


def test_a_goal_generates_the_weights_of_the_last_hidden_layer() -> None:
    """Against the definition: a kernel and a bias per row, linear in the goal's code, written out in numpy."""
    shape = NetworkShape(((3,), (2,)), 0, (4,), 1, 5, 1, shared_critic=True, normalize=False, goals=(1,))
    flat, normalizer = policy_of(shape)
    weights = {name: each.astype(np.float64) for name, each in named_weights(shape, flat).items()}
    seen = observations_of(shape, 6)
    x, goal = (each.astype(np.float64) for each in seen)

    def swish(linear: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return linear / (1.0 + np.exp(-linear))

    code = swish(goal @ weights["actor.goal.kernel"] + weights["actor.goal.bias"])
    assert code.shape == (6, GOAL_UNITS)
    generated = weights["actor.generated.kernel"].reshape(3, GOAL_UNITS, 5)
    expected = []
    for row in range(6):
        kernel = weights["actor.0.kernel"] + np.einsum("ieh,e->ih", generated, code[row])
        bias = weights["actor.0.bias"] + code[row] @ weights["actor.generated_bias.kernel"]
        hidden = swish(x[row] @ kernel + bias)
        expected.append(hidden @ weights["logits.kernel"] + weights["logits.bias"])
    found = ActingGraph(acting_graph(shape, flat, normalizer), name="the policy").run(floats_of(seen)).logits
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
