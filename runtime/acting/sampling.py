"""From a network's heads to actions: masks, samples and their log-probabilities, in numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runtime.acting.counter_random import Doubles
from runtime.experience.brains import Bools, Floats, Ints

# A sample is clipped to 3 and divided by 3 on its way to the player, whose range is [-1, 1].
_CLIP = np.float32(3)
_MASKED = np.float64(-np.inf)
_HALF_LOG_TAU = 0.5 * np.log(2.0 * np.pi)


def squash(raw: Floats) -> Floats:
    """What a player is sent for a raw sample: clip(raw, -3, 3) / 3, float32 of the same shape."""
    if not raw.size:
        return raw
    squashed: Floats = np.divide(np.minimum(np.maximum(raw, -_CLIP), _CLIP), _CLIP)
    return squashed


def unsquash(sent: Floats) -> Floats:
    """The raw sample that a value in [-1, 1] stands for: 3 · sent, float32 of the same shape."""
    return sent * _CLIP


def choose_branches(
    logits: Floats,
    masks: Bools | None,
    branches: tuple[int, ...],
    *,
    uniforms: Doubles | None,
) -> Ints:
    """One index per branch and row, int32 (n, branches): sampled from the softmax of the logits that are allowed.

    logits: float32 (n, sum of branches), finite. masks: bool of the same shape, True = allowed, at least one of each
    branch, or None. uniforms: float64 (n, branches) in (0, 1), each spent on one choice by inverting the cumulated
    weights; None for the likeliest index instead. An index that is not allowed has the weight 0 exactly and is never
    chosen, whatever the logits.
    """
    chosen: list[Ints] = []
    for branch, part in enumerate(_masked_parts(logits, masks, branches)):
        if uniforms is None:
            chosen.append(part.argmax(axis=1).astype(np.int32))
            continue
        # The functions beneath max, cumsum and sum: the methods take as long again to find them.
        weights = part - np.maximum.reduce(part, axis=1, keepdims=True)
        cumulated = np.add.accumulate(np.exp(weights, out=weights), axis=1)
        # u is at most 1 − 2⁻⁵³, so the threshold stays below the total; an index without weight repeats the sum before
        # it, so that no threshold falls into it.
        threshold = uniforms[:, branch : branch + 1] * cumulated[:, -1:]
        chosen.append(np.add.reduce(cumulated <= threshold, axis=1, dtype=np.int32))
    if len(chosen) == 1:
        return chosen[0][:, np.newaxis]
    return np.stack(chosen, axis=1) if chosen else np.zeros((len(logits), 0), np.int32)


def log_probability(
    *,
    mean: Floats | None,
    log_std: Floats | None,
    logits: Floats | None,
    masks: Bools | None,
    branches: tuple[int, ...],
    raw: Floats,
    discrete: Ints,
) -> Floats:
    """Log-probability of each row's action, float32 (n,).

    The sum of the Gaussian log-densities of the raw sample, Σ_j −½((raw_j − mean_j)/e^{s_j})² − s_j − ½ ln 2π with
    s = log_std, and, per branch, of the log-softmax of the allowed logits at the chosen index,
    z_a − max z − ln Σ_i e^{z_i − max z}; −∞ for an index that is not allowed. mean, raw: float32 (n, c); log_std: (c,);
    logits, masks: (n, sum of branches); discrete: int32 (n, branches); heads that a brain lacks are None.
    """
    total = np.zeros(len(raw), np.float64)
    if mean is not None and log_std is not None:
        spread = log_std.astype(np.float64)
        scaled = (raw.astype(np.float64) - mean) * np.exp(-spread)
        total += (-0.5 * scaled * scaled - spread - _HALF_LOG_TAU).sum(axis=1)
    if logits is not None:
        rows = np.arange(len(logits))
        for branch, part in enumerate(_masked_parts(logits, masks, branches)):
            shifted = part - part.max(axis=1, keepdims=True)
            total += shifted[rows, discrete[:, branch]] - np.log(np.exp(shifted).sum(axis=1))
    return total.astype(np.float32)


def _masked_parts(logits: Floats, masks: Bools | None, branches: tuple[int, ...]) -> Iterator[Doubles]:
    """The logits of each branch, float64 (n, size), -inf where not allowed.

    In float64, where the difference of any two float32 is finite.
    """
    start = 0
    for size in branches:
        part = logits[:, start : start + size]
        if masks is None:
            yield part.astype(np.float64)
        else:
            yield np.where(masks[:, start : start + size], part, _MASKED)
        start += size
