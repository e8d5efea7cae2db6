"""Weights with the optimiser's state: what an update starts from and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.experience.brains import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Weights and Adam's state: float32 (size,) three times, and the number of optimiser steps taken."""

    flat: Floats
    first: Floats
    second: Floats
    steps: int
