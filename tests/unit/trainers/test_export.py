"""The ONNX files: equal to the TensorFlow policy, and what Unity expects, run in a bare onnxruntime."""

import time

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.experience.brains import Floats
from runtime.graph_pieces import acting_piece
from tests.support.experience_streams import small_brain, small_learner, small_settings, walkers
from trainers.export import acting_graph, unity_graph
from trainers.networks import NetworkShape
from trainers.normalizer import Normalizer
from trainers.ppo.policy import ActorCritic, PolicyOutputs

ROW_EXACT_OPERATORS = {"Concat", "Sub", "Mul", "Clip", "Gemm", "Sigmoid", "Identity"}
shapes = st.builds(
    NetworkShape,
    observations=st.lists(st.integers(0, 4), min_size=1, max_size=3)
    .filter(sum)
    .map(lambda sizes: tuple((size,) for size in sizes)),
    continuous_size=st.integers(0, 3),
    branches=st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple),
    streams=st.just(1),
    hidden_units=st.integers(1, 9),
    num_layers=st.integers(0, 2),
    shared_critic=st.booleans(),
    normalize=st.booleans(),
).filter(lambda shape: shape.continuous_size or shape.branches)


def shape_of(
    *, continuous: int = 0, branches: tuple[int, ...] = (), observations: tuple[int, ...] = (3,)
) -> NetworkShape:
    vectors = tuple((size,) for size in observations)
    return NetworkShape(vectors, continuous, branches, 1, 8, 1, shared_critic=False, normalize=False)


def random_policy(shape: NetworkShape, seed: int = 0) -> tuple[Floats, Normalizer]:
    rng = np.random.default_rng(seed)
    flat = rng.normal(0, 0.7, shape.size).astype(np.float32)
    seen = rng.normal(1.0, 2.0, (50, shape.vector_size)).astype(np.float32)
    return flat, Normalizer.empty(shape.vector_size).merged(seen)


def observations_of(shape: NetworkShape, rows: int, seed: int = 1) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    return {
        f"obs_{index}": rng.normal(1.0, 2.0, (rows, *each)).astype(np.float32)
        for index, each in enumerate(shape.observations)
    }


def run(body: bytes, feed: dict[str, Floats]) -> dict[str, npt.NDArray[np.float32]]:
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def by_tensorflow(shape: NetworkShape, flat: Floats, normalizer: Normalizer, feed: dict[str, Floats]) -> PolicyOutputs:
    policy = ActorCritic(shape)
    joined = tf.constant(np.concatenate(list(feed.values()), axis=1))
    shift, scale = normalizer.shift_and_scale()
    return policy.outputs(policy.tensors(tf.constant(flat)), policy.normalized(joined, shift, scale))


@settings(max_examples=25)
@given(shape=shapes, seed=st.integers(0, 1000))
def test_the_acting_graph_equals_the_tensorflow_policy(shape: NetworkShape, seed: int) -> None:
    flat, normalizer = random_policy(shape, seed)
    body = acting_graph(shape, flat, normalizer)
    for rows in (1, 7):
        feed = observations_of(shape, rows, seed)
        expected = by_tensorflow(shape, flat, normalizer, feed)
        found = run(body, feed)
        names = ["mean", "log_std"] if shape.continuous_size else []
        names += ["logits"] if shape.branches else []
        assert list(found) == [*names, "value"]
        for name, values in found.items():
            np.testing.assert_allclose(values, getattr(expected, name), rtol=1e-5, atol=1e-5)


@settings(max_examples=25)
@given(shape=shapes, seed=st.integers(0, 1000))
def test_the_first_piece_acts_with_the_same_bits_and_without_the_critic(shape: NetworkShape, seed: int) -> None:
    body = acting_graph(shape, *random_policy(shape, seed))
    onnx.checker.check_model(onnx.load_from_string(body), full_check=True)
    piece = acting_piece(body)
    onnx.checker.check_model(onnx.load_from_string(piece), full_check=True)
    feed = observations_of(shape, 5)
    whole, acting = run(body, feed), run(piece, feed)
    assert acting.keys() == (whole.keys() if shape.shared_critic else whole.keys() - {"value"})
    for name, values in acting.items():
        assert values.tobytes() == whole[name].tobytes()
    assert b"critic" not in piece


def test_the_acting_graph_holds_only_operators_that_keep_a_rows_bits() -> None:
    shape = NetworkShape(((3,), (2,)), 2, (3, 2), 1, 16, 2, shared_critic=False, normalize=True)
    flat, normalizer = random_policy(shape)
    body = acting_graph(shape, flat, normalizer)
    model = onnx.load_from_string(body)
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= ROW_EXACT_OPERATORS
    together = run(body, observations_of(shape, 33))
    for row in (0, 7, 32):
        alone = run(body, {name: values[row : row + 1] for name, values in observations_of(shape, 33).items()})
        for name in ("mean", "logits", "value"):
            assert alone[name][0].tobytes() == together[name][row].tobytes()


def test_the_file_for_unity_has_its_parts_in_the_order_in_which_libraries_write_them() -> None:
    shape = shape_of(continuous=2, branches=(3,))
    body = unity_graph(shape, *random_policy(shape))
    assert onnx.load_from_string(body).SerializeToString(deterministic=True) == body


def test_graphs_are_built_fast_and_byte_for_byte_again() -> None:
    shape = NetworkShape(((8,),), 2, (3,), 1, 128, 2, shared_critic=False, normalize=True)
    flat, normalizer = random_policy(shape)
    bodies, times = set(), []
    for _ in range(20):
        started = time.process_time()
        bodies.add(acting_graph(shape, flat, normalizer))
        times.append(time.process_time() - started)
    assert len(bodies) == 1
    assert min(times) < 0.005
    assert len({unity_graph(shape, flat, normalizer) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("continuous", "branches", "outputs"),
    [
        pytest.param(
            2,
            (),
            [
                ("continuous_actions", 1, ["batch", 2]),
                ("continuous_action_output_shape", 1, [1]),
                ("deterministic_continuous_actions", 1, ["batch", 2]),
            ],
            id="continuous",
        ),
        pytest.param(
            0,
            (3, 2),
            [
                ("discrete_actions", 7, ["batch", 2]),
                ("discrete_action_output_shape", 1, [1, 2]),
                ("deterministic_discrete_actions", 7, ["batch", 2]),
            ],
            id="discrete",
        ),
        pytest.param(
            1,
            (4,),
            [
                ("continuous_actions", 1, ["batch", 1]),
                ("continuous_action_output_shape", 1, [1]),
                ("deterministic_continuous_actions", 1, ["batch", 1]),
                ("discrete_actions", 7, ["batch", 1]),
                ("discrete_action_output_shape", 1, [1, 1]),
                ("deterministic_discrete_actions", 7, ["batch", 1]),
            ],
            id="hybrid",
        ),
    ],
)
def test_unitys_file_has_the_names_orders_types_and_shapes_that_unity_expects(
    continuous: int,
    branches: tuple[int, ...],
    outputs: list[tuple[str, int, list[object]]],
) -> None:
    shape = shape_of(continuous=continuous, branches=branches, observations=(3, 2))
    model = onnx.load_from_string(unity_graph(shape, *random_policy(shape)))
    onnx.checker.check_model(model, full_check=True)
    assert [each.version for each in model.opset_import] == [9]
    assert model.ir_version == 4
    inputs = [("obs_0", 1, ["batch", 3]), ("obs_1", 1, ["batch", 2])]
    inputs += [("action_masks", 1, ["batch", sum(branches)])] if branches else []
    assert [_described(each) for each in model.graph.input] == inputs
    constants = [("version_number", 1, [1]), ("memory_size", 1, [1])]
    assert [_described(each) for each in model.graph.output] == [*constants, *outputs]
    feed = observations_of(shape, 2)
    if branches:
        feed["action_masks"] = np.ones((2, sum(branches)), np.float32)
    found = run(model.SerializeToString(), feed)
    assert found["version_number"].tolist() == [3.0]
    assert found["memory_size"].tolist() == [0.0]
    if branches:
        assert found["discrete_action_output_shape"].tolist() == [[float(each) for each in branches]]
    if continuous:
        assert found["continuous_action_output_shape"].tolist() == [float(continuous)]


def _described(value: onnx.ValueInfoProto) -> tuple[str, int, list[object]]:
    tensor = value.type.tensor_type
    return value.name, tensor.elem_type, [each.dim_param or each.dim_value for each in tensor.shape.dim]


@settings(max_examples=25)
@given(shape=shapes, seed=st.integers(0, 1000), rows=st.sampled_from([1, 7]))
def test_unitys_deterministic_outputs_are_the_policys_means_and_best_allowed_branches(
    shape: NetworkShape,
    seed: int,
    rows: int,
) -> None:
    flat, normalizer = random_policy(shape, seed)
    feed = observations_of(shape, rows, seed)
    expected = by_tensorflow(shape, flat, normalizer, feed)
    masks = np.random.default_rng(seed).random((rows, shape.mask_size)) < 0.7
    start = 0
    for size in shape.branches:
        masks[:, start] |= ~masks[:, start : start + size].any(axis=1)
        start += size
    if shape.branches:
        feed["action_masks"] = masks.astype(np.float32)
    found = run(unity_graph(shape, flat, normalizer), feed)
    if shape.continuous_size:
        means = np.clip(np.asarray(expected.mean), -3, 3) / 3
        np.testing.assert_allclose(found["deterministic_continuous_actions"], means, rtol=1e-5, atol=1e-5)
        assert np.abs(found["continuous_actions"]).max() <= 1.0
    logits, start = np.where(masks, np.asarray(expected.logits), -np.inf), 0
    for branch, size in enumerate(shape.branches):
        part = logits[:, start : start + size]
        chosen = found["deterministic_discrete_actions"][:, branch].astype(np.int64)
        assert (np.take_along_axis(part, chosen[:, None], axis=1)[:, 0] >= part.max(axis=1) - 1e-5).all()
        sampled = found["discrete_actions"][:, branch].astype(np.int64)
        assert np.take_along_axis(masks[:, start : start + size], sampled[:, None], axis=1).all()
        start += size


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
def test_masked_actions_are_never_sampled_however_the_logits_saturate(scale: float) -> None:
    shape = shape_of(branches=(210,))
    flat, normalizer = random_policy(shape)
    flat = flat * np.float32(1.0)
    kernel = np.zeros(210, np.float32)
    kernel[:] = np.linspace(-scale, scale, 210)
    start = dict_starts(shape)["logits.bias"]
    flat[start : start + 210] = kernel
    allowed = [0, 1, 100]
    masks = np.zeros((2000, 210), np.float32)
    masks[:, allowed] = 1.0
    feed = {**observations_of(shape, 2000), "action_masks": masks}
    found = run(unity_graph(shape, flat, normalizer), feed)
    for name in ("discrete_actions", "deterministic_discrete_actions"):
        assert set(found[name][:, 0].astype(int).tolist()) <= set(allowed)


def dict_starts(shape: NetworkShape) -> dict[str, int]:
    starts, start = {}, 0
    for name, dimensions in shape.layout:
        starts[name] = start
        start += int(np.prod(dimensions))
    return starts


def test_unitys_samples_follow_the_policys_distribution() -> None:
    shape = shape_of(continuous=1, branches=(3,))
    flat = np.zeros(shape.size, np.float32)
    starts = dict_starts(shape)
    flat[starts["logits.bias"] : starts["logits.bias"] + 3] = [0.0, 1.0, -1.0]
    flat[starts["mean.bias"]], flat[starts["log_std"]] = 0.3, -1.0
    rows = 40_000
    feed = {**observations_of(shape, rows), "action_masks": np.tile(np.asarray([1, 1, 1], np.float32), (rows, 1))}
    found = run(unity_graph(shape, flat, Normalizer.empty(3)), feed)
    softmax = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    frequencies = np.bincount(found["discrete_actions"][:, 0].astype(int), minlength=3) / rows
    np.testing.assert_allclose(frequencies, softmax, atol=0.015)
    raw = found["continuous_actions"][:, 0] * 3
    assert raw.mean() == pytest.approx(0.3, abs=0.01)
    assert raw.std() == pytest.approx(np.exp(-1.0), abs=0.01)
    masked = {**feed, "action_masks": np.tile(np.asarray([1, 0, 1], np.float32), (rows, 1))}
    frequencies = (
        np.bincount(
            run(unity_graph(shape, flat, Normalizer.empty(3)), masked)["discrete_actions"][:, 0].astype(int),
            minlength=3,
        )
        / rows
    )
    np.testing.assert_allclose(frequencies, [1 / (1 + np.exp(-1)), 0.0, 1 / (1 + np.e)], atol=0.015)


def test_the_learner_gives_both_files_of_the_policy_it_has() -> None:
    brain = small_brain()
    learner = small_learner(small_settings(normalize=True), brains=[brain])
    first = learner.unity_model("Walker")
    walkers(learner, brain)
    release = learner.finish_update(learner.begin_update("Walker")())
    assert release.version == 1
    assert learner.unity_model("Walker") != first
    feed = {"obs_0": np.ones((2, 3), np.float32), "obs_1": np.ones((2, 2), np.float32)}
    acting = run(release.body, feed)
    unity = run(learner.unity_model("Walker"), {**feed, "action_masks": np.ones((2, 5), np.float32)})
    np.testing.assert_array_equal(
        unity["deterministic_continuous_actions"], np.clip(acting["mean"], -3, 3) / np.float32(3)
    )
