"""Masks of discrete actions: bool (n, sum of branches), True = allowed."""

from __future__ import annotations

import numpy as np

from runtime.experience.brains import Bools


def find_blocked(masks: Bools, branches: tuple[int, ...]) -> tuple[int, int] | None:
    """The first (row, branch) that allows no index at all, or None. masks: bool (n, sum of branches)."""
    start = 0
    for branch, size in enumerate(branches):
        is_open = masks[:, start : start + size].any(axis=1)
        if not is_open.all():
            return int(np.argmin(is_open)), branch
        start += size
    return None
