"""Seeds that follow from the run's seed: one per player and incarnation, never shared, never timing-dependent."""

from __future__ import annotations

import hashlib


def player_seed(run_seed: int, env_id: int, incarnation: int) -> int:
    """The handshake seed of a player: a 31-bit hash of (run seed, environment, incarnation).

    Different runs, environments and incarnations get unrelated seeds; run seed 0 is a seed like any other.
    """
    text = f"player seed {run_seed} {env_id} {incarnation}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "little") >> 1
