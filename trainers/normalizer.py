"""Running mean and variance of observations, in float64, merged batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Floats

CLIP = 5.0
VARIANCE_FLOOR = 1e-8
"""Keeps the division finite for an observation that never changes."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Normalizer:
    """Statistics of all observations seen: count, mean (D,) and the sum of squared deviations m2 (D,), float64.

    Immutable: `merged` makes a new one. With nothing seen it changes no observation but for the clipping.
    """

    count: int
    mean: Doubles
    m2: Doubles

    @staticmethod
    def empty(size: int) -> Normalizer:
        """Of `size` floats, nothing seen yet."""
        return Normalizer(0, np.zeros(size), np.zeros(size))

    def merged(self, rows: Floats) -> Normalizer:
        """With float32 (n, D) observations added.

        The pairwise merge of Chan, Golub and LeVeque (1979); the result depends on the order of the rows in its last
        bits, so callers sort them first.
        """
        n = len(rows)
        if n == 0:
            return self
        batch = rows.astype(np.float64)
        mean = batch.mean(axis=0)
        m2 = np.square(batch - mean).sum(axis=0)
        total = self.count + n
        delta = mean - self.mean
        return Normalizer(
            total,
            self.mean + delta * (n / total),
            self.m2 + m2 + np.square(delta) * (self.count * n / total),
        )

    def shift_and_scale(self) -> tuple[Floats, Floats]:
        """float32 (D,) twice: an observation x becomes clip((x - shift) * scale, -5, 5)."""
        if self.count == 0:
            return np.zeros(self.mean.shape, np.float32), np.ones(self.mean.shape, np.float32)
        scale = 1.0 / np.sqrt(self.m2 / self.count + VARIANCE_FLOOR)
        return self.mean.astype(np.float32), scale.astype(np.float32)
