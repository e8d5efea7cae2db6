"""Wall time that a player lets pass before it answers; the world never notices."""

from __future__ import annotations

import random


class Delays:
    """Delays drawn uniformly between two bounds in milliseconds, from a generator of their own."""

    def __init__(self, bounds_ms: tuple[float, float], *, seed: int, env_id: int) -> None:
        self._bounds_ms = bounds_ms
        self._random = random.Random(f"{seed}/{env_id}")

    def next_s(self) -> float:
        """The next delay in seconds."""
        return self._random.uniform(*self._bounds_ms) / 1000.0
