"""Noise for whole acts, drawn ahead for many steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.acting.counter_random import STEPS_MAX, Doubles, Key, box_muller, uniforms
from runtime.experience.brains import Floats, Ids


class Draws(NamedTuple):
    """Noise for one act: normals float32 (n, c), uniforms float64 (n, branches)."""

    normals: Floats
    uniforms: Doubles


@dataclass(frozen=True, slots=True)
class _Window:
    """Draws of some agents for consecutive steps, from `first_step` on; a leading row per step."""

    first_step: int
    normals: Floats
    uniforms: Doubles


class NoiseCache:
    """Draws for many steps at once, kept until they are used.

    A numpy call costs about as much for 250 numbers as for one, and whoever acts asks for the same agents step after
    step. As draws depend on nothing but their counter, the cache changes no bit of them. It is bounded: `entries_max`
    groups of agents, of about `window_blocks` blocks of draws each (at least one step).
    """

    def __init__(self, *, window_blocks: int = 256, entries_max: int = 128) -> None:
        self._window_blocks = window_blocks
        self._entries_max = entries_max
        self._windows: dict[tuple[Key, int, int, int, bytes], _Window] = {}

    def draws(self, key: Key, env_id: int, agents: Ids, *, step: int, sizes: tuple[int, int]) -> Draws:
        """Normals and uniforms of each agent for this step; sizes: how many of the two. Errors as in `uniforms`."""
        name = (key, env_id, *sizes, agents.tobytes())
        window = self._windows.get(name)
        if window is None or not 0 <= step - window.first_step < len(window.normals):
            window = self._draw(key, env_id, agents, step=step, sizes=sizes)
            self._windows.pop(name, None)  # so that the newest stands last
            self._windows[name] = window
            if len(self._windows) > self._entries_max:
                del self._windows[next(iter(self._windows))]
        row = step - window.first_step
        return Draws(window.normals[row], window.uniforms[row])

    def _draw(self, key: Key, env_id: int, agents: Ids, *, step: int, sizes: tuple[int, int]) -> _Window:
        normal_count, uniform_count = sizes
        normal_blocks = (normal_count + 1) // 2
        all_blocks = normal_blocks + (uniform_count + 1) // 2
        length = max(1, self._window_blocks // max(1, len(agents) * all_blocks))
        steps = range(step, max(step + 1, min(step + length, STEPS_MAX)))
        # One call for both kinds; an agent's first blocks become normals, the others stay uniform.
        drawn = uniforms(key, env_id, agents, steps=steps, blocks=range(all_blocks))
        split = 2 * normal_blocks
        normals = box_muller(drawn[..., :split])[..., :normal_count].astype(np.float32, order="C")
        uniform = np.ascontiguousarray(drawn[..., split : split + uniform_count])
        normals.flags.writeable = uniform.flags.writeable = False
        return _Window(step, normals, uniform)
