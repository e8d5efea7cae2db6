"""The layers that turn an image into numbers, by the names that `vis_encode_type` has for them.

Sizes as in ML-Agents: `simple` is 16 filters of 8x8 every 4 pixels and 32 of 4x4 every 2; `nature_cnn` (Mnih et al.
2015) 32 of 8x8 every 4, 64 of 4x4 every 2, 64 of 3x3; `match3` 35 of 3x3 and 144 of 3x3, for boards whose cells are
pixels. No padding. What is left is flattened, and one dense layer makes `hidden_units` numbers of it;
`fully_connected` has that layer alone.

`resnet` (Espeholt et al. 2018) has three stacks, of 16, 32 and 32 filters: a convolution, the largest of each 3x3
pixels every 2, and two blocks that add to what comes in what two convolutions make of it. Its filters are 3x3, with a
border of zeros, so that only the choice of the largest makes the image smaller.

Before the first convolution an image of [0, 1] becomes one of [-2, 2], and at first the filters see no even brightness:
most pixels of a picture are background, which would push all filters the same way, step after step, and what differs
between two pictures would be learned late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

IMAGE_SCALE, IMAGE_SHIFT = 4.0, 2.0
"""Times the first, less the second: [-2, 2]. Pixels of usual pictures deviate by about 1/4 from 1/2: that becomes 1."""


STACK_KERNELS = 5
"""Convolutions of a stack: its own, and two in each of its two blocks."""
STACK_SIDE = 3
POOL_STRIDE = 2


class Convolution(NamedTuple):
    """Number of filters, their side in pixels, and the step between two places."""

    filters: int
    side: int
    stride: int


@dataclass(frozen=True, slots=True)
class Encoder:
    """Convolutions in order, and the smallest side of an image that they can take. stacks: filters of each stack."""

    convolutions: tuple[Convolution, ...]
    side_min: int
    stacks: tuple[int, ...] = ()

    def kernels(self, channels: int) -> tuple[tuple[int, int, int, int], ...]:
        """(height, width, inputs, filters) of each convolution's kernel, for images of `channels`."""
        shapes = []
        for each in self.convolutions:
            shapes.append((each.side, each.side, channels, each.filters))
            channels = each.filters
        for filters in self.stacks:
            inner = (STACK_SIDE, STACK_SIDE, filters, filters)
            shapes += [(STACK_SIDE, STACK_SIDE, channels, filters), *(STACK_KERNELS - 1) * [inner]]
            channels = filters
        return tuple(shapes)

    def maps(self, image: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
        """(channels, height, width) of what each layer makes of an image (channels, height, width).

        Without any it is the image itself.
        """
        channels, height, width = image
        shapes = []
        for each in self.convolutions:
            height, width = ((size - each.side) // each.stride + 1 for size in (height, width))
            shapes.append((each.filters, height, width))
        for filters in self.stacks:
            shapes.append((filters, height, width))
            height, width = ((size - STACK_SIDE) // POOL_STRIDE + 1 for size in (height, width))
            shapes += STACK_KERNELS * [(filters, height, width)]
        return tuple(shapes or [(channels, height, width)])


ENCODERS: Mapping[str, Encoder] = MappingProxyType(
    {
        "simple": Encoder((Convolution(16, 8, 4), Convolution(32, 4, 2)), 20),
        "match3": Encoder((Convolution(35, 3, 1), Convolution(144, 3, 1)), 5),
        "fully_connected": Encoder((), 1),
        "resnet": Encoder((), 15, stacks=(16, 32, 32)),
        "nature_cnn": Encoder((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 36),
    },
)
