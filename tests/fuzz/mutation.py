"""Bytes that are nearly right: seeded changes of good bytes, for machines without a coverage-guided fuzzer."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of `seeds` after one to four changes: bits, bytes, numbers, cuts, repetitions and splices."""
    body = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(7):
            case 0 if at < len(body):
                body[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(body):
                body[at] = rng.choice(INTERESTING)
            case 2 if at + 4 <= len(body):
                body[at : at + 4] = struct.pack("<i", rng.choice((-1, 0, 1 << 30, -(1 << 31), 0x7FC00000)))
            case 3:
                del body[at : at + rng.randint(1, 8)]
            case 4:
                body[at:at] = rng.randbytes(rng.randint(1, 8))
            case 5:
                body[at:at] = body[at : at + rng.randint(1, 32)]
            case 6:
                body[at:] = rng.choice(seeds)[at:]
    return bytes(body)
