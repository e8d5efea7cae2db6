"""Random numbers as a function of who draws them and when, so that batches and processes cannot change them.

The generator is Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC11, 2011), written out over numpy rows: a block cipher of ten rounds turns a 64-bit key and a 128-bit counter into
four words. The key is a hash of (run seed, incarnation, brain), the counter is exactly (agent, step, env id, block):
two draws of one key never share a counter. Two of the four words make one float64.
"""

from __future__ import annotations

import functools
import hashlib
from typing import NewType

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Ids

Doubles = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Key = NewType("Key", tuple[int, int])

ENV_IDS_MAX = 1 << 16
BLOCKS_MAX = 1 << 16
STEPS_MAX = 1 << 32

_ROUNDS = 10
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_DROPPED_BITS = np.uint64(12)
_UNIT = 2.0**-52


def stream_key(run_seed: int, *, incarnation: int, brain: str) -> Key:
    """The key of all draws for one brain in one incarnation of a player: 64 bits of BLAKE2b over the three."""
    digest = hashlib.blake2b(f"{run_seed}|{incarnation}|{brain}".encode(), digest_size=8).digest()
    return Key((int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")))


def philox4x32(counter: Words, key: Key) -> Words:
    """Ten rounds of Philox4x32: uint64 (4, rows), each element one 32-bit word, of the same shape as `counter`."""
    # The two multiplied words and the two others travel as pairs: half as many numpy calls as word by word.
    multiplied, others = counter[0::2], counter[1::2]
    for keys in _round_keys(key):
        products = _MULTIPLIERS * multiplied
        multiplied = (products >> _HALF)[::-1] ^ others
        multiplied ^= keys
        others = (products & _WORD)[::-1]
    result = np.empty_like(counter)
    result[0::2] = multiplied
    result[1::2] = others
    return result


def uniforms(key: Key, env_id: int, agents: Ids, *, steps: range, blocks: range) -> Doubles:
    """Uniform draws in the open interval (0, 1): float64 (steps, n, 2 · blocks), a leading row per step.

    agents: int64 (n,), any values. blocks: which blocks of an agent's step; each holds two draws. A draw depends on
    (key, env id, agent, step, its number) and on nothing else in the call. Raises ValueError outside the ranges in
    which counters are unique: env ids and blocks below 65536, steps below 2³².
    """
    _check_range("environment number", range(env_id, env_id + 1), ENV_IDS_MAX)
    _check_range("step", steps, STEPS_MAX)
    _check_range("block", blocks, BLOCKS_MAX)
    shape = (len(steps), len(agents), len(blocks))
    words = philox4x32(_counters(env_id, agents, steps=steps, blocks=blocks).reshape(4, -1), key)
    doubled = (words[0::2] << _HALF) | words[1::2]
    return np.ascontiguousarray(open_units(doubled).T).reshape(*shape[:2], 2 * shape[2])


def open_units(words: Words) -> Doubles:
    """Random 64-bit words as numbers in the open interval (0, 1): float64, of the same shape, multiples of 2⁻⁵³.

    The top 52 bits and a half: never 0 and never 1, so that logarithms are finite and u · total < total.
    """
    return ((words >> _DROPPED_BITS).astype(np.float64) + 0.5) * _UNIT


def normals(key: Key, env_id: int, agents: Ids, *, steps: range, blocks: range) -> Doubles:
    """Standard normal draws: float64 (steps, n, 2 · blocks), each a function of the same as a draw of `uniforms`."""
    return box_muller(uniforms(key, env_id, agents, steps=steps, blocks=blocks))


def box_muller(pairs: Doubles) -> Doubles:
    """Independent standard normal draws from independent uniform ones, pair by pair: float64 of the same shape.

    pairs: in (0, 1), even along the last axis. With u, v a pair: √(−2 ln u) · cos 2πv and √(−2 ln u) · sin 2πv
    (G. Box, M. Muller, "A note on the generation of random normal deviates", 1958).
    """
    # Contiguous inputs: numpy may take another code path, with other low bits, for strided ones.
    u, v = np.ascontiguousarray(pairs[..., 0::2]), np.ascontiguousarray(pairs[..., 1::2])
    radius, angle = np.sqrt(-2.0 * np.log(u)), (2.0 * np.pi) * v
    result = np.empty_like(pairs)
    result[..., 0::2] = radius * np.cos(angle)
    result[..., 1::2] = radius * np.sin(angle)
    return result


@functools.lru_cache(maxsize=256)
def _round_keys(key: Key) -> tuple[Words, ...]:
    """The keys of the ten rounds, uint64 (2, 1) each: Weyl sequences from the two words of the key."""
    words = (
        np.array(key, np.uint64)[:, None] + np.arange(_ROUNDS, dtype=np.uint64) * np.array(_WEYL, np.uint64)[:, None]
    )
    return tuple((words & _WORD).T[:, :, None])


def _counters(env_id: int, agents: Ids, *, steps: range, blocks: range) -> Words:
    """Counters of all combinations: uint64 (4, steps, n, blocks); words: agent low, agent high, step, env and block."""
    counters = np.empty((4, len(steps), len(agents), len(blocks)), np.uint64)
    patterns = agents.astype(np.int64, copy=False).view(np.uint64)[:, None]
    counters[0] = patterns & _WORD
    counters[1] = patterns >> _HALF
    counters[2] = np.arange(steps.start, steps.stop, dtype=np.uint64)[:, None, None]
    counters[3] = np.arange(blocks.start, blocks.stop, dtype=np.uint64) | np.uint64(env_id << 16)
    return counters


def _check_range(what: str, values: range, limit: int) -> None:
    if values.start < 0 or values.stop > limit:
        msg = (
            f"{what} {values.start if values.start < 0 else values.stop - 1} cannot key a random draw; expected 0 to "
            f"{limit - 1}, where each draw has a counter of its own"
        )
        raise ValueError(msg)
