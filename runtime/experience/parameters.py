"""Environment parameters as players are given them: numbers, or samplers that the player draws from by itself.

Players of API-8 to API-10 take numbers only: for them a sampler is drawn from once per reset.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformDraw:
    """Evenly between two values. seed: int32."""

    min_value: float
    max_value: float
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianDraw:
    """From a normal distribution. seed: int32."""

    mean: float
    st_dev: float
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiRangeDraw:
    """Evenly from several intervals, weighted by their lengths. intervals: (min, max) each. seed: int32."""

    intervals: tuple[tuple[float, float], ...]
    seed: int = 0


Draw = UniformDraw | GaussianDraw | MultiRangeDraw
ParameterValue = float | UniformDraw | GaussianDraw | MultiRangeDraw


def in_words(value: ParameterValue) -> str:
    """What a person reads: a number, or from where it is drawn."""
    match value:
        case UniformDraw(min_value=low, max_value=high):
            return f"uniform from {low:g} to {high:g}"
        case GaussianDraw(mean=mean, st_dev=deviation):
            return f"gaussian with mean {mean:g} and deviation {deviation:g}"
        case MultiRangeDraw(intervals=intervals):
            return "uniform from " + " or ".join(f"{low:g} to {high:g}" for low, high in intervals)
        case _:
            return f"{value:g}"


def drawn_value(value: ParameterValue, *, reset: int) -> float:
    """The number that `value` gives for the n-th reset (from 0): a function of its seed and n alone."""
    if not isinstance(value, UniformDraw | GaussianDraw | MultiRangeDraw):
        return float(value)
    import numpy as np  # noqa: PLC0415 - the Supervisor knows of parameters too, and draws none

    rng = np.random.default_rng((value.seed & 0xFFFF_FFFF, reset))
    match value:
        case UniformDraw(min_value=low, max_value=high):
            return float(rng.uniform(low, high))
        case GaussianDraw(mean=mean, st_dev=deviation):
            return float(rng.normal(mean, deviation))
        case MultiRangeDraw(intervals=intervals):
            lengths = np.array([high - low for low, high in intervals], np.float64)
            weights = lengths / lengths.sum() if lengths.sum() > 0.0 else None
            low, high = intervals[int(rng.choice(len(intervals), p=weights))]
            return float(rng.uniform(low, high))
