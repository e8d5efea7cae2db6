"""Layers in TensorFlow, operator by operator as the exported graphs have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainers.encoders import IMAGE_SCALE, IMAGE_SHIFT, Encoder

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
    """(n, hidden units) of an image (n, height, width, channels): centred, convolutions with ELU, a dense layer."""
    image = centred(image)
    for number, each in enumerate(encoder.convolutions):
        linear = tf.nn.conv2d(image, weights[f"{name}.{number}.kernel"], each.stride, "VALID")
        image = elu(linear + weights[f"{name}.{number}.bias"])
    flat = tf.reshape(image, [tf.shape(image)[0], weights[f"{name}.dense.kernel"].shape[0]])
    return swish(dense(f"{name}.dense", weights, flat))


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
