"""Random numbers that are a function of who asks and when, not of who asked before.

The number of agents, their order and the time that passes change nothing: a draw depends on (handshake seed, URL seed,
behavior, agent index, episode, moment) alone. The mixing function is SplitMix64's finaliser (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014), applied once per ingredient.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fakeunity.rows import Ints

Keys = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mixed(keys: Keys, ingredient: Keys) -> Keys:
    # Arrays wrap around silently, as the formula wants; numpy scalars would warn.
    z = keys ^ ((ingredient + np.uint64(1)) * _GAMMA)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    mixed: Keys = z ^ (z >> np.uint64(31))
    return mixed


def _as_key(number: int) -> Keys:
    return np.array([number & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)


@dataclass(frozen=True, slots=True)
class Chance:
    """The source of one behavior's randomness: the two seeds, and the number of the behavior in its scene."""

    handshake_seed: int
    url_seed: int
    behavior: int = 0
    _root: Keys = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root = np.zeros(1, np.uint64)
        for number in (self.handshake_seed, self.url_seed, self.behavior):
            root = _mixed(root, _as_key(number))
        object.__setattr__(self, "_root", root)

    def episodes(self, agents: Ints, episodes: Ints) -> Keys:
        """Keys of the given episodes (counted from 0) of the given agent indices; both int64 (n,); uint64 (n,)."""
        return _mixed(_mixed(self._root, agents.astype(np.uint64)), episodes.astype(np.uint64))


def derived(keys: Keys, number: int) -> Keys:
    """Other keys, unrelated to these and to those of any other `number` (64 bits of it count); uint64 (n,)."""
    return _mixed(keys, _as_key(number))


def uniforms(keys: Keys, moment: Ints | int, count: int) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) for each episode key at the given moment of its episode; float64 (n, count)."""
    at_moment = _mixed(keys, np.atleast_1d(np.asarray(moment, np.uint64)))
    drawn = _mixed(at_moment[:, None], np.arange(count, dtype=np.uint64)[None, :])
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
