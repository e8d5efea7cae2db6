"""How images enter the network: centred, and of a size that lasts through every layer of an encoder."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tensorflow as tf

from fakeunity.scenes.gridworld import CELLS, paint
from runtime.acting.graphs import ActingGraph
from trainers.encoders import ENCODERS
from trainers.export import acting_graph
from trainers.networks import NetworkShape, initial_weights, named_weights
from trainers.normalizer import Normalizer
from trainers.ppo.layers import centred, channels_last, encode_image, largest
from trainers.ppo.policy import ActorCritic

KINDS = sorted(ENCODERS)
PIXELS = {"match3": 21}
"""Side of the pictures; that encoder keeps nearly all of a picture's places, for one dense layer."""


def side_of(kind: str) -> int:
    return PIXELS.get(kind, 84)


def shape_of(kind: str) -> NetworkShape:
    return NetworkShape(
        observations=((3, side_of(kind), side_of(kind)), (2,)),
        continuous_size=0,
        branches=(5,),
        streams=1,
        hidden_units=64,
        num_layers=1,
        shared_critic=True,
        normalize=False,
        encoder=kind,
        sight_types=("uint8",),
        goals=(1,),
    )


def pictures(count: int, kind: str) -> npt.NDArray[np.uint8]:
    """uint8 (count, 3, side, side): fields with the agent, the plus and the cross on different cells."""
    rng = np.random.default_rng(0)
    cells = (rng.permutation(CELLS)[:3] for _ in range(count))
    numbers = [int((agent * CELLS + plus) * CELLS + cross) for agent, plus, cross in cells]
    step = 84 // side_of(kind)
    return np.stack([paint(each).transpose(2, 0, 1)[:, ::step, ::step] for each in numbers])


def encoded(kind: str, images: npt.NDArray[np.generic], key: str = "0") -> npt.NDArray[np.float32]:
    """What a fresh encoder makes of images (n, channels, height, width)."""
    shape = shape_of(kind)
    weights = named_weights(shape, initial_weights(shape, key))
    found = encode_image("actor.sight.0", weights, channels_last(tf.constant(images)), shape.convolutions)
    values: npt.NDArray[np.float32] = found.numpy()
    return values


@pytest.mark.parametrize(
    ("kind", "brightness"),
    # The border of zeros that a stack sees is gray: beside it nothing else is even.
    [(kind, each) for kind in KINDS for each in ([0.5] if ENCODERS[kind].stacks else [0.0, 0.5, 1.0])],
)
def test_an_even_image_is_nothing_to_a_fresh_encoder(kind: str, brightness: float) -> None:
    even = np.full((1, 3, side_of(kind), side_of(kind)), brightness, np.float32)
    np.testing.assert_allclose(encoded(kind, even), 0.0, atol=1e-5)


def test_black_and_white_are_equally_far_from_gray() -> None:
    extremes = tf.constant([0, 255], tf.uint8)[:, None, None, None]
    np.testing.assert_array_equal(centred(channels_last(extremes)).numpy().ravel(), [-2.0, 2.0])


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_encoders_are_as_large_as_their_layers_take_away(kind: str) -> None:
    shape = shape_of(kind)
    weights = named_weights(shape, initial_weights(shape, "0"))
    names = [name for name in weights if name.startswith("actor.sight") and name.endswith("kernel")]
    assert len(names) == len(shape.convolutions.kernels(3)) + 1
    for number, name in enumerate(names):
        inputs = np.prod(weights[name].shape[:-1])
        gain = np.sqrt(2.0)
        if ENCODERS[kind].stacks and number < len(names) - 1:
            gain = (1.0, gain, 0.25, gain, 0.25)[number % 5]
        assert weights[name].std() == pytest.approx(gain / np.sqrt(inputs), rel=0.1), name
    assert weights["actor.0.kernel"].std() == pytest.approx(np.sqrt(1.0 / 64), rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_differ_about_as_much_after_a_fresh_encoder_as_before(kind: str) -> None:
    seen = pictures(64, kind)
    before = (seen / 255.0 * 4.0 - 2.0).std(axis=0).mean()
    after = np.mean([encoded(kind, seen, str(key)).std(axis=0).mean() for key in range(3)])
    assert 0.6 * before < after < 1.6 * before


@pytest.mark.parametrize("kind", KINDS)
def test_the_acting_graph_sees_a_picture_as_the_learning_network_does(kind: str) -> None:
    shape = shape_of(kind)
    flat = initial_weights(shape, "3") + np.float32(0.01)
    images, goals = pictures(16, kind), np.eye(2, dtype=np.float32)[np.arange(16) % 2]
    session = onnxruntime.InferenceSession(acting_graph(shape, flat, Normalizer.empty(2)))
    feed = {"obs_0": images.astype(np.float32) / np.float32(255), "obs_1": goals}
    logits, value = session.run(["logits", "value"], feed)
    policy = ActorCritic(shape)
    outputs = policy.outputs(policy.tensors(tf.constant(flat)), tf.constant(goals), [tf.constant(images)])
    np.testing.assert_allclose(logits, outputs.logits.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, outputs.value.numpy(), rtol=1e-4, atol=1e-5)


def test_the_largest_of_slices_is_what_a_pool_gives_and_so_is_its_gradient() -> None:
    rng = np.random.default_rng(1)
    for height, width in ((3, 3), (15, 16), (8, 21)):
        image = tf.constant(rng.standard_normal((2, height, width, 3)), tf.float32)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(image)
            ours, pool = largest(image), tf.nn.max_pool2d(image, 3, 2, "VALID")
        np.testing.assert_array_equal(ours, pool)
        np.testing.assert_array_equal(tape.gradient(ours, image), tape.gradient(pool, image))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cameras", [1, 3])
def test_several_cameras_of_any_size_from_the_smallest_have_encoders_of_their_own(kind: str, cameras: int) -> None:
    side = ENCODERS[kind].side_min
    sizes = tuple((channels, side + channels, side) for channels in range(1, cameras + 1))
    shape = replace(shape_of(kind), observations=(*sizes, (2,)), sight_types=("float32",) * cameras, goals=(cameras,))
    flat = initial_weights(shape, "5") + np.float32(0.01)
    rng = np.random.default_rng(2)
    images = [rng.random((6, *each), np.float32) for each in sizes]
    goals = np.eye(2, dtype=np.float32)[np.arange(6) % 2]
    graph = ActingGraph(acting_graph(shape, flat, Normalizer.empty(2)), name="the policy")
    assert graph.is_row_independent()
    logits = graph.run([*images, goals]).logits
    assert logits is not None
    policy = ActorCritic(shape)
    tensors = [tf.constant(each) for each in images]
    outputs = policy.outputs(policy.tensors(tf.constant(flat)), tf.constant(goals), tensors)
    np.testing.assert_allclose(logits, outputs.logits.numpy(), rtol=1e-4, atol=1e-5)
    for place in range(cameras):
        dark = [each * (number != place) for number, each in enumerate(images)]
        found = graph.run([*dark, goals]).logits
        assert found is not None
        assert np.abs(found - logits).max() > 0.0


def test_a_block_of_resnet_adds_to_what_comes_in() -> None:
    """Against the definition, written out in numpy for the smallest image."""
    kind = "resnet"
    shape = replace(shape_of(kind), observations=((1, 15, 15), (2,)))
    rng = np.random.default_rng(3)
    noise = rng.normal(0.0, 0.02, shape.size).astype(np.float32)
    weights = named_weights(shape, initial_weights(shape, "7") + noise)
    image = rng.random((15, 15, 1), np.float32)
    found = encode_image("actor.sight.0", weights, tf.constant(image[None]), shape.convolutions)

    def convolved(number: int, seen: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        kernel = weights[f"actor.sight.0.{number}.kernel"]
        padded = np.pad(seen, ((1, 1), (1, 1), (0, 0)))
        height, width, _ = seen.shape
        parts = [
            padded[y : y + height, x : x + width] @ kernel[y, x].astype(np.float64) for y in range(3) for x in range(3)
        ]
        result: npt.NDArray[np.float64] = np.sum(parts, axis=0) + weights[f"actor.sight.0.{number}.bias"]
        return result

    def pooled(seen: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        count = (len(seen) - 3) // 2 + 1
        rows = [
            [seen[2 * y : 2 * y + 3, 2 * x : 2 * x + 3].max(axis=(0, 1)) for x in range(count)] for y in range(count)
        ]
        return np.array(rows)

    seen = image.astype(np.float64) * 4.0 - 2.0
    for stack in range(3):
        seen = pooled(convolved(5 * stack, seen))
        for block in (1, 3):
            inner = np.maximum(convolved(5 * stack + block, np.maximum(seen, 0.0)), 0.0)
            seen = seen + convolved(5 * stack + block + 1, inner)
    assert seen.shape == (1, 1, 32)
    linear = np.maximum(seen, 0.0).ravel() @ weights["actor.sight.0.dense.kernel"] + weights["actor.sight.0.dense.bias"]
    np.testing.assert_allclose(found[0], linear / (1.0 + np.exp(-linear)), rtol=1e-4, atol=1e-5)
