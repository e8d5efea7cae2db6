"""Initial values of the weights of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.experience.brains import Floats
from trainers.encoders import Encoder

IMAGE_GAIN = float(np.sqrt(2.0))
"""Keeps the size of what passes through an encoder's layers, which each lose about half of it (He et al. 2015)."""
STACK_GAINS = (1.0, IMAGE_GAIN, 0.25, IMAGE_GAIN, 0.25)
"""Of a stack's convolutions: the first has no non-linearity before it, and a block at first passes on what comes in, as
it adds, and what is added would grow."""
FORGET_BIAS = 1.0
"""At first the memory keeps about three quarters of what is in it, so that what happened long ago can be learned of."""


def initial_layers(
    layout: Sequence[tuple[str, tuple[int, ...]]],
    rng: np.random.Generator,
    *,
    encoder: Encoder | None,
    gains: Mapping[str, float],
) -> Floats:
    """float32 (n,): the first weights of a layout, by the names that `layouts` gives to layers.

    Kernels are normal with variance gain² / inputs (variance scaling; of a convolution, inputs are a filter's numbers),
    biases and log_std are 0, but for the biases of forget gates. Each filter of an image's first convolution has mean
    0: it sees no even brightness. encoder: of the images, if there are any. gains: of kernels by name, where they are
    not the usual ones.
    """
    # What sees an image's pixels: the first convolution, or the dense layer of an encoder that has none.
    first = ".0.kernel" if encoder is not None and encoder.kernels(1) else ".dense.kernel"
    parts = [np.zeros(0, np.float32)]
    for name, dimensions in layout:
        if name.endswith(".kernel"):
            deviation = _gain(name, dimensions, encoder, gains) / np.sqrt(np.prod(dimensions[:-1]))
            kernel = rng.normal(0.0, deviation, dimensions)
            if ".sight." in name and name.endswith(first):
                kernel -= kernel.mean(axis=tuple(range(len(dimensions) - 1)))
            parts.append(kernel.astype(np.float32).ravel())
        else:
            rest = np.zeros(np.prod(dimensions), np.float32)
            if name.endswith(".memory.bias"):
                rest[len(rest) // 4 : len(rest) // 2] = FORGET_BIAS
            parts.append(rest)
    return np.concatenate(parts)


def _gain(name: str, dimensions: tuple[int, ...], encoder: Encoder | None, gains: Mapping[str, float]) -> float:
    """Of the kernel of that name."""
    if len(dimensions) == 4 and encoder is not None and encoder.stacks:
        return STACK_GAINS[int(name.split(".")[-2]) % len(STACK_GAINS)]
    is_of_encoder = len(dimensions) == 4 or name.endswith(".dense.kernel")
    return IMAGE_GAIN if is_of_encoder else gains.get(name, 1.0)
