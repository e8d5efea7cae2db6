"""Environment parameters: what a scene can be told, its defaults, and what the trainer has sent.

A number holds until another is sent. A sampler is drawn once per episode, from the episode's own random source and the
sampler's seed, so that neither time nor the number of agents changes what an episode gets.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from statistics import NormalDist
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fakeunity.scenes.chance import Keys, derived, uniforms
from fakeunity.side_channels import Sampler

Doubles = NDArray[np.float64]
SMALLEST = 2.0**-54


class Parameters:
    """The parameters of one world. `defaults` are those it obeys; others are kept, and matter to nobody."""

    def __init__(self, defaults: Mapping[str, float] | None = None) -> None:
        self.defaults: Mapping[str, float] = MappingProxyType(dict(defaults or {}))
        self._sent: dict[str, float | Sampler] = {}

    def hear(self, key: str, value: float | Sampler) -> None:
        """From the next episode on, `key` is `value`."""
        self._sent[key] = value

    def sent(self) -> dict[str, float | Sampler]:
        """What the trainer has sent so far, the latest value of each."""
        return dict(self._sent)

    def episodes(self, key: str, keys: Keys) -> Doubles:
        """The value for the episodes with these random sources; float64 (n,). Raises KeyError without a default."""
        value = self._sent.get(key, self.defaults[key])
        if not isinstance(value, Sampler):
            return np.full(len(keys), value, np.float64)
        drawn = uniforms(derived(derived(keys, zlib.crc32(key.encode())), value.seed), 0, 2)
        return np.array([_draw(value, float(first), float(second)) for first, second in drawn], np.float64)


def _draw(sampler: Sampler, first: float, second: float) -> float:
    """A draw made of two uniform numbers in [0, 1)."""
    if sampler.kind == "gaussian":
        mean, deviation = sampler.arguments
        return mean + deviation * NormalDist().inv_cdf(max(first, SMALLEST))
    ends = sampler.arguments
    spans = [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=False)]
    left = first * sum(high - low for low, high in spans)
    for low, high in spans:
        if left < high - low:
            return low + second * (high - low)
        left -= high - low
    return spans[-1][1] if spans else 0.0
