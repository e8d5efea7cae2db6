"""Names and shapes of the weights of layers, in the order in which they lie in a flat vector."""

from __future__ import annotations

import numpy as np

from trainers.encoders import Encoder

ATTENTION_LAYERS = ("query", "key", "value", "attended")

Layout = list[tuple[str, tuple[int, ...]]]


def dense_layout(name: str, inputs: int, outputs: int) -> Layout:
    """A linear layer."""
    return [(f"{name}.kernel", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def image_layout(name: str, shape: tuple[int, ...], encoder: Encoder, width: int) -> Layout:
    """What makes `width` numbers of an image (channels, height, width)."""
    entries: Layout = []
    for number, kernel in enumerate(encoder.kernels(shape[0])):
        entries += [(f"{name}.{number}.kernel", kernel), (f"{name}.{number}.bias", kernel[-1:])]
    return entries + dense_layout(f"{name}.dense", int(np.prod(encoder.maps(shape)[-1])), width)


def buffer_layout(name: str, shape: tuple[int, ...], seen: int, width: int) -> Layout:
    """What makes `width` numbers of a buffer (things, numbers of each) for agents that see `seen` numbers beside it."""
    entries = dense_layout(f"{name}.thing", shape[1], width)
    if seen:
        entries.append((f"{name}.agent.kernel", (seen, width)))
    for layer in ATTENTION_LAYERS:
        entries += dense_layout(f"{name}.{layer}", width, width)
    return entries


def layout_size(layout: Layout | tuple[tuple[str, tuple[int, ...]], ...]) -> int:
    """Numbers in all of it."""
    return sum(int(np.prod(dimensions)) for _, dimensions in layout)
