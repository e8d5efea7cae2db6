"""How images enter the network: centred, and of a size that lasts through every layer of an encoder."""

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tensorflow as tf

from fakeunity.scenes.gridworld import CELLS, paint
from trainers.encoders import ENCODERS
from trainers.export import acting_graph
from trainers.networks import NetworkShape, initial_weights, named_weights
from trainers.normalizer import Normalizer
from trainers.ppo.layers import centred, channels_last, encode_image
from trainers.ppo.policy import ActorCritic

KINDS = sorted(ENCODERS)


def shape_of(kind: str) -> NetworkShape:
    return NetworkShape(
        observations=((3, 84, 84), (2,)),
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


def pictures(count: int) -> npt.NDArray[np.uint8]:
    """uint8 (count, 3, 84, 84): fields with the agent, the plus and the cross on different cells."""
    rng = np.random.default_rng(0)
    cells = (rng.permutation(CELLS)[:3] for _ in range(count))
    numbers = [int((agent * CELLS + plus) * CELLS + cross) for agent, plus, cross in cells]
    return np.stack([paint(each).transpose(2, 0, 1) for each in numbers])


def encoded(kind: str, images: npt.NDArray[np.generic], key: str = "0") -> npt.NDArray[np.float32]:
    """What a fresh encoder makes of images (n, channels, height, width)."""
    shape = shape_of(kind)
    weights = named_weights(shape, initial_weights(shape, key))
    found = encode_image("actor.sight.0", weights, channels_last(tf.constant(images)), shape.convolutions)
    values: npt.NDArray[np.float32] = found.numpy()
    return values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("brightness", [0.0, 0.5, 1.0])
def test_an_even_image_is_nothing_to_a_fresh_encoder(kind: str, brightness: float) -> None:
    even = np.full((1, 3, 84, 84), brightness, np.float32)
    np.testing.assert_allclose(encoded(kind, even), 0.0, atol=1e-5)


def test_black_and_white_are_equally_far_from_gray() -> None:
    extremes = tf.constant([0, 255], tf.uint8)[:, None, None, None]
    np.testing.assert_array_equal(centred(channels_last(extremes)).numpy().ravel(), [-2.0, 2.0])


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_encoders_are_as_large_as_their_layers_take_away(kind: str) -> None:
    shape = shape_of(kind)
    weights = named_weights(shape, initial_weights(shape, "0"))
    names = [name for name in weights if name.startswith("actor.sight") and name.endswith("kernel")]
    assert len(names) == len(shape.convolutions.convolutions) + 1
    for name in names:
        inputs = np.prod(weights[name].shape[:-1])
        assert weights[name].std() == pytest.approx(np.sqrt(2.0 / inputs), rel=0.1), name
    assert weights["actor.0.kernel"].std() == pytest.approx(np.sqrt(1.0 / 64), rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_differ_about_as_much_after_a_fresh_encoder_as_before(kind: str) -> None:
    seen = pictures(64)
    before = (seen / 255.0 * 4.0 - 2.0).std(axis=0).mean()
    after = np.mean([encoded(kind, seen, str(key)).std(axis=0).mean() for key in range(3)])
    assert 0.6 * before < after < 1.6 * before


@pytest.mark.parametrize("kind", KINDS)
def test_the_acting_graph_sees_a_picture_as_the_learning_network_does(kind: str) -> None:
    shape = shape_of(kind)
    flat = initial_weights(shape, "3") + np.float32(0.01)
    images, goals = pictures(16), np.eye(2, dtype=np.float32)[np.arange(16) % 2]
    session = onnxruntime.InferenceSession(acting_graph(shape, flat, Normalizer.empty(2)))
    feed = {"obs_0": images.astype(np.float32) / np.float32(255), "obs_1": goals}
    logits, value = session.run(["logits", "value"], feed)
    policy = ActorCritic(shape)
    outputs = policy.outputs(policy.tensors(tf.constant(flat)), tf.constant(goals), [tf.constant(images)])
    np.testing.assert_allclose(logits, outputs.logits.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, outputs.value.numpy(), rtol=1e-4, atol=1e-5)
