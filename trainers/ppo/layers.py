"""Layers in TensorFlow, operator by operator as the exported graphs have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainers.encoders import IMAGE_SCALE, IMAGE_SHIFT, POOL_STRIDE, STACK_KERNELS, STACK_SIDE, Encoder

Tensor = Any  # TensorFlow ships no usable types.

BYTE_MAX = 255.0
FAR = 1e9
"""Taken from the score of a thing that is not there: its share of the attention is 0 exactly."""


def dense(name: str, weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """A linear layer, on the last axis."""
    return tf.matmul(inputs, weights[f"{name}.kernel"]) + weights[f"{name}.bias"]


def swish(linear: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return linear * tf.sigmoid(linear)


def elu(linear: Tensor) -> Tensor:
    """x where it is positive, exp(x) - 1 where it is not.

    Written with operators that give a row the same bits in any batch when onnxruntime runs the exported graph; its own
    Elu does not.
    """
    return tf.nn.relu(linear) + (tf.exp(tf.minimum(linear, 0.0)) - 1.0)


def channels_last(image: Tensor) -> Tensor:
    """float32 (n, height, width, channels) of an image (n, channels, height, width); bytes are scaled to [0, 1].

    TensorFlow convolves nothing else on a CPU.
    """
    moved = tf.transpose(image, [0, 2, 3, 1])
    return tf.cast(moved, tf.float32) / BYTE_MAX if moved.dtype == tf.uint8 else moved


def centred(image: Tensor) -> Tensor:
    """An image of [0, 1] in [-2, 2]."""
    return image * IMAGE_SCALE - IMAGE_SHIFT


def encode_image(name: str, weights: Mapping[str, Tensor], image: Tensor, encoder: Encoder) -> Tensor:
    """(n, hidden units) of an image (n, height, width, channels): centred, convolutions with ELU, a dense layer.

    Stacks in place of the convolutions, where the encoder has them.
    """
    image = centred(image)
    for stack in range(len(encoder.stacks)):
        image = _stack(name, weights, image, stack * STACK_KERNELS)
    image = tf.nn.relu(image) if encoder.stacks else image
    for number, each in enumerate(encoder.convolutions):
        linear = tf.nn.conv2d(image, weights[f"{name}.{number}.kernel"], each.stride, "VALID")
        image = elu(linear + weights[f"{name}.{number}.bias"])
    flat = tf.reshape(image, [tf.shape(image)[0], weights[f"{name}.dense.kernel"].shape[0]])
    return swish(dense(f"{name}.dense", weights, flat))


def _stack(name: str, weights: Mapping[str, Tensor], image: Tensor, first: int) -> Tensor:
    """A convolution, the largest of each neighbourhood, and two blocks; first: number of the convolution."""

    def convolved(number: int, inputs: Tensor) -> Tensor:
        linear = tf.nn.conv2d(inputs, weights[f"{name}.{number}.kernel"], 1, "SAME")
        return linear + weights[f"{name}.{number}.bias"]

    image = largest(convolved(first, image))
    for number in (first + 1, first + 3):
        inner = convolved(number, tf.nn.relu(image))
        image += convolved(number + 1, tf.nn.relu(inner))
    return image


def largest(image: Tensor) -> Tensor:
    """The largest of each STACK_SIDE x STACK_SIDE pixels, every POOL_STRIDE pixels, of (n, height, width, channels).

    Made of slices: the compiler's own operator for the gradient of a pool walks pixel by pixel on a CPU.
    """
    for axis in (1, 2):
        count = (image.shape[axis] - STACK_SIDE) // POOL_STRIDE + 1
        span = POOL_STRIDE * (count - 1) + 1
        parts = []
        for start in range(STACK_SIDE):
            window = slice(start, start + span, POOL_STRIDE)
            parts.append(image[:, window] if axis == 1 else image[:, :, window])
        image = tf.maximum(tf.maximum(parts[0], parts[1]), parts[2])
    return image


def encode_buffer(name: str, weights: Mapping[str, Tensor], things: Tensor, agent: Tensor) -> Tensor:
    """(n, hidden units) of things (n, N, F), those of zeros left out, as agents with vectors (n, S) see them."""
    is_there = tf.cast(tf.reduce_sum(tf.abs(things), axis=2) > 0.0, tf.float32)
    linear = dense(f"{name}.thing", weights, things)
    if agent.shape[1]:
        linear += tf.matmul(agent, weights[f"{name}.agent.kernel"])[:, None, :]
    known = swish(linear)
    query, key, value = (dense(f"{name}.{layer}", weights, known) for layer in ("query", "key", "value"))
    scores = tf.matmul(query, key, transpose_b=True) * (1.0 / math.sqrt(known.shape[2]))
    shares = tf.nn.softmax(scores + (is_there[:, None, :] - 1.0) * FAR)
    together = known + dense(f"{name}.attended", weights, tf.matmul(shares, value))
    count = tf.maximum(tf.reduce_sum(is_there, axis=1), 1.0)
    return tf.matmul(is_there[:, None, :], together)[:, 0] / count[:, None]
