"""Demonstrations as a network's inputs: compared with the brain that is to learn, and brought into its form.

Names and order of what a file holds are its brain's. Where it holds a picture as bytes and the brain announces floats,
or the other way round, the numbers are converted; all other differences are refused, every one of them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters, Floats, Ints, Observation
from runtime.experience.demonstrations import Demonstration, demonstrated_steps, spec_differences
from trainers.buffer import Array, Observations, part_types
from trainers.export import ACTION_CLIP
from trainers.networks import NetworkShape

Bools = npt.NDArray[np.bool_]
BYTE_MAX = 255.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """n observations and what was done on them.

    observations: vectors side by side, then the sights, as in a transition buffer. masks: bool (n, mask_size).
    continuous: float32 (n, c), as the policy's raw samples (ACTION_CLIP times what the player was sent). discrete:
    int32 (n, branches), each allowed by its mask. begins: bool (n,), False where a row goes on with the episode of the
    row before. left_out: samples whose action was forbidden.
    """

    observations: Observations
    masks: Bools
    continuous: Floats
    discrete: Ints
    begins: Bools
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays."""
        rest = (self.masks, self.continuous, self.discrete, self.begins)
        return sum(each.nbytes for each in (*self.observations, *rest))


def samples_of(demonstrations: Sequence[Demonstration], brain: BrainParameters, *, source: str) -> Samples:
    """All samples of some demonstrations, in their order. source: where they come from, for messages.

    An action that its own mask forbids is left out, and counted. Raises UsageError that names every difference between
    what was recorded and the brain, or when nothing is left.
    """
    differences = list(dict.fromkeys(each for one in demonstrations for each in spec_differences(one.brain, brain)))
    if differences:
        raise UsageError(
            f"the demonstrations of {source!r} do not fit brain {brain.brain_name!r}: they have "
            f"{'; '.join(differences)}. Expected equal ones; record them with this player, or correct demo_path.",
        )
    parts = [_part(one, brain) for one in demonstrations]
    joined = joined_samples(parts)
    if not len(joined):
        raise UsageError(
            f"the demonstrations of {source!r} hold no action to learn from"
            f"{f': {joined.left_out} were forbidden by their masks' if joined.left_out else ''}. Expected at least two "
            "records of one episode; record again.",
        )
    return joined


def left_out_warning(behavior: str, samples: Samples) -> str:
    """A sentence for the user about samples that are left out; empty when there are none."""
    if not samples.left_out:
        return ""
    return f"behavior {behavior!r}: {samples.left_out} demonstrated actions that their masks forbid are left out"


def blank_sample(shape: NetworkShape) -> Samples:
    """One sample that shows nothing, for those who only compile."""
    return Samples(
        observations=tuple(np.zeros((1, *dimensions), dtype) for dtype, dimensions in part_types(shape)),
        masks=np.ones((1, shape.mask_size), np.bool_),
        continuous=np.zeros((1, shape.continuous_size), np.float32),
        discrete=np.zeros((1, len(shape.branches)), np.int32),
        begins=np.ones(1, np.bool_),
    )


def joined_samples(parts: Sequence[Samples]) -> Samples:
    """The rows of some samples, at least one, one behind the other."""
    return Samples(
        observations=tuple(np.concatenate(each) for each in zip(*(one.observations for one in parts), strict=True)),
        masks=np.concatenate([one.masks for one in parts]),
        continuous=np.concatenate([one.continuous for one in parts]),
        discrete=np.concatenate([one.discrete for one in parts]),
        begins=np.concatenate([one.begins for one in parts]),
        left_out=sum(one.left_out for one in parts),
    )


def _part(demonstration: Demonstration, brain: BrainParameters) -> Samples:
    steps, spec = demonstrated_steps(demonstration), brain.action_spec
    count = len(steps.records)
    agents = demonstration.agents[steps.records]
    goes_on = np.zeros(count, np.bool_)
    goes_on[1:] = (np.diff(steps.records) == 1) & (agents[1:] == agents[:-1]) & ~steps.done[:-1]
    masks = np.ones((count, spec.mask_size), np.bool_) if steps.masks is None else steps.masks
    return allowed_samples(
        Samples(
            observations=observations_of(brain, steps.observations),
            masks=masks,
            continuous=steps.continuous * np.float32(ACTION_CLIP),
            discrete=steps.discrete,
            begins=~goes_on,
        ),
        spec.discrete_branches,
    )


def observations_of(brain: BrainParameters, rows: Sequence[Observation]) -> Observations:
    """Vectors side by side, then each sight in the type that the brain announces."""
    count = len(rows[0]) if rows else 0
    vectors = [np.asarray(each, np.float32) for each in rows if each.ndim == 2]
    sights: list[Array] = []
    for spec, each in zip(brain.observation_specs, rows, strict=True):
        if each.ndim > 2:
            sights.append(_retyped(each, is_bytes=spec.dtype == "uint8"))
    return (np.concatenate([np.zeros((count, 0), np.float32), *vectors], axis=1), *sights)


def _retyped(pictures: Observation, *, is_bytes: bool) -> Array:
    if (pictures.dtype == np.uint8) == is_bytes:
        return pictures
    numbers = pictures.astype(np.float32)
    if is_bytes:
        whole: Array = np.rint(np.clip(numbers, 0.0, 1.0) * np.float32(BYTE_MAX)).astype(np.uint8)
        return whole
    return numbers / np.float32(BYTE_MAX)


def allowed_samples(samples: Samples, branches: Sequence[int]) -> Samples:
    """The samples whose every index is allowed; what follows one that is left out begins anew."""
    first = np.concatenate([[0], np.cumsum(branches)[:-1]]).astype(np.int64) if branches else np.zeros(0, np.int64)
    chosen = np.take_along_axis(samples.masks, first + samples.discrete.astype(np.int64), axis=1)
    is_allowed = np.asarray(chosen.all(axis=1))
    left_out = int((~is_allowed).sum())
    if not left_out:
        return samples
    begins = samples.begins.copy()
    begins[1:] |= ~is_allowed[:-1]
    return Samples(
        observations=tuple(each[is_allowed] for each in samples.observations),
        masks=samples.masks[is_allowed],
        continuous=samples.continuous[is_allowed],
        discrete=samples.discrete[is_allowed],
        begins=begins[is_allowed],
        left_out=samples.left_out + left_out,
    )
