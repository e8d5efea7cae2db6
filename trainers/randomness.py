"""Random generators that depend on names and numbers alone, never on the order of calls elsewhere."""

from __future__ import annotations

import hashlib

import numpy as np


def behavior_key(run_seed: int, behavior: str) -> str:
    """The 128-bit key, as 32 hex digits, from which all randomness of learning one behavior follows."""
    return hashlib.sha256(f"learning/{run_seed}/{behavior}".encode()).hexdigest()[:32]


def generator(key: str, purpose: str, number: int = 0) -> np.random.Generator:
    """A Philox generator for one purpose under a behavior's key; `number` tells repetitions (updates) apart.

    Since each update gets a fresh one, key and number are the whole random state that a checkpoint has to keep.
    """
    digest = hashlib.sha256(f"{key}/{purpose}/{number}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
