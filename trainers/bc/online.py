"""Learning from a brain that the player plays: the trainer `online_bc`.

What the brain does comes with the blocks and is kept, the newest `buffer_size` samples or so; for the rest the behavior
is one of `offline_bc`. No update is due before there is a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.errors import PlayerContentError, UsageError
from runtime.experience.brains import BrainParameters, Observation
from runtime.experience.columns import WatchedColumns
from runtime.experience.demonstrations import spec_differences
from trainers.bc.behavior import CloningBehavior
from trainers.bc.samples import Samples, allowed_samples, joined_samples, observations_of
from trainers.behavior import Outcome
from trainers.buffer import Array, named_parts
from trainers.export import ACTION_CLIP


class WatchingBehavior(CloningBehavior):
    """One behavior that learns from another brain while that is played."""

    _parts: tuple[Samples, ...] = ()
    _unmerged = _merging = 0

    @property
    def has_samples(self) -> bool:
        """True where there is something to learn from."""
        return bool(self._parts)

    def watch(self, watched: Mapping[str, WatchedColumns]) -> None:
        """Keeps what the imitated brain did, if it is among these.

        Raises UsageError that names every difference between the two brains, PlayerContentError for an action that the
        brain cannot take.
        """
        columns = watched.get(self.cloning_settings.brain_to_imitate)
        if columns is None or self.is_finished:
            return
        if columns.forgets:
            self._parts, self._unmerged = (), 0
        if not len(columns.agents):
            return
        part = watched_samples(columns, self.brain)
        if len(part):
            self._keep(part)

    def _keep(self, part: Samples) -> None:
        parts, limit = [*self._parts, part], self.settings.hyperparameters.buffer_size
        total = sum(map(len, parts))
        while total - len(parts[0]) >= limit:
            total -= len(parts.pop(0))
        self._parts = tuple(parts)
        self._unmerged = min(self._unmerged + len(part), total)

    def begin_update(self) -> Callable[[], Outcome]:
        """A job that learns from what was kept."""
        samples, normalizer = joined_samples(self._parts), self.normalizer
        if self.shape.normalize and self._unmerged:
            normalizer = normalizer.merged(np.asarray(samples.observations[0][-self._unmerged :], np.float32))
        self._merging = self._unmerged
        return self.lesson(samples, normalizer)

    def install(self, outcome: Outcome) -> None:
        """Takes the outcome's weights as the next version. Raises LearnerError when it is not finite."""
        super().install(outcome)
        self._unmerged, self._merging = max(0, self._unmerged - self._merging), 0

    def lesson_arrays(self) -> dict[str, Array]:
        """What is kept of the other brain, for a checkpoint."""
        if not self._parts:
            return {}
        samples = joined_samples(self._parts)
        columns: dict[str, Array] = {
            **named_parts(samples.observations),
            "masks": samples.masks,
            "continuous": samples.continuous,
            "discrete": samples.discrete,
            "begins": samples.begins,
        }
        return {f"watched.{name}": column for name, column in columns.items()}

    def lesson_state(self) -> dict[str, object]:
        """The sizes of what is kept, and how much of it the normaliser does not know yet."""
        sizes = [len(part) for part in self._parts]
        return {**super().lesson_state(), "watched": sizes, "watched_unmerged": self._unmerged}

    def restore_lesson(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from those. Raises ValueError for foreign ones."""
        super().restore_lesson(state, arrays)
        sizes = [int(size) for size in state.get("watched", ())]
        ends = np.cumsum([0, *sizes])
        if sizes and len(arrays["watched.begins"]) != ends[-1]:
            raise ValueError(f"{len(arrays['watched.begins'])} watched samples, expected {ends[-1]}")
        windows = [slice(first, end) for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        self._parts = tuple(self._restored(arrays, window) for window in windows)
        self._unmerged = int(state.get("watched_unmerged", 0))

    def _restored(self, arrays: Mapping[str, Array], window: slice) -> Samples:
        sights = [arrays[f"watched.sight.{place}"][window] for place in range(len(self.shape.sights))]
        return Samples(
            observations=(arrays["watched.observations"][window], *sights),
            masks=arrays["watched.masks"][window].astype(np.bool_),
            continuous=arrays["watched.continuous"][window].astype(np.float32),
            discrete=arrays["watched.discrete"][window].astype(np.int32),
            begins=arrays["watched.begins"][window].astype(np.bool_),
        )


def watched_samples(columns: WatchedColumns, brain: BrainParameters) -> Samples:
    """What another brain did in a block, as samples for `brain`; actions that their masks forbid are left out.

    Raises as `WatchingBehavior.watch`.
    """
    differences = spec_differences(columns.brain, brain)
    if differences:
        raise UsageError(
            f"brain {brain.brain_name!r} cannot imitate {columns.brain.brain_name!r}, which has "
            f"{'; '.join(differences)}. Expected equal ones; give both the same sensors and actions.",
        )
    spec, count = brain.action_spec, len(columns.agents)
    split = spec.continuous_size
    indices = np.rint(columns.actions[:, split:]).astype(np.int32)
    wrong = (indices < 0) | (indices >= np.asarray(spec.discrete_branches, np.int32))
    if wrong.any() or not _are_finite(columns.actions, columns.observations):
        raise PlayerContentError(
            f"brain {columns.brain.brain_name!r}, which {brain.brain_name!r} is to imitate, showed an action or an "
            f"observation that cannot be; expected finite numbers, and indices below {spec.discrete_branches}. Look "
            "for an unset value in the player's code.",
        )
    masks = np.ones((count, spec.mask_size), np.bool_) if columns.masks is None else columns.masks
    shown = Samples(
        observations=observations_of(brain, columns.observations),
        masks=masks,
        continuous=columns.actions[:, :split] * np.float32(ACTION_CLIP),
        discrete=indices,
        begins=columns.begins,
    )
    return allowed_samples(shown, spec.discrete_branches)


def _are_finite(actions: Array, observations: tuple[Observation, ...]) -> bool:
    return all(each.dtype == np.uint8 or bool(np.isfinite(each).all()) for each in (actions, *observations))
