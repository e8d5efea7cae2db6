"""What a client of 2019 does and notes, in plain Python, so that its own interpreter and the tests do the same."""

import random
import struct
import zlib
from collections.abc import Sequence


def decision(vector: Sequence[float], allowed: Sequence[bool], continuous: int, branches: Sequence[int]) -> list[float]:
    """Legal actions that depend on what the agent sees and on nothing else. allowed: per action of all branches."""
    rng = random.Random(zlib.crc32(struct.pack(f"<{len(vector)}f", *vector)))
    if continuous:
        return [rng.randrange(-64, 65) / 64 for _ in range(continuous)]
    actions, at = [], 0
    for size in branches:
        legal = [n for n in range(size) if not allowed or allowed[at + n]]
        actions.append(float(rng.choice(legal)))
        at += size
    return actions


def memories(vector: Sequence[float]) -> list[float]:
    """Two numbers to remember."""
    return [float(len(vector)), float(sum(1 for value in vector if value > 0))]
