"""The inputs of a compiled update: a batch padded to the capacity, and the numbers of the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Floats
from runtime.learner import BehaviorSettings
from trainers.batches import Batch, Capacity, minibatch_rows
from trainers.lanes import acted_lanes, lane_minibatches
from trainers.normalizer import Normalizer
from trainers.reward_signals.factory import signals_of
from trainers.schedules import ScheduledValues
from trainers.sequences import SequenceRows

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class PolicySnapshot:
    """One version of a policy: flat weights and the normaliser that acted with them."""

    version: int
    flat: Floats
    normalizer: Normalizer


def update_inputs(
    batch: Batch,
    capacity: Capacity,
    settings: BehaviorSettings,
    *,
    snapshots: Sequence[PolicySnapshot],
    snapshots_max: int,
    scheduled: ScheduledValues,
    rng: np.random.Generator,
) -> Mapping[str, Array]:
    """All arrays that `PPOUpdate.run` takes, at the shapes of `capacity`.

    snapshots: the policies whose data may be in the batch, oldest first; the last is the one that learns.
    """
    rows = capacity.rows
    if batch.sequences is None:
        minibatches, used = minibatch_rows(batch.count, capacity, rng)
    else:
        minibatches, used = lane_minibatches(batch.sequences, capacity, rng)
    valid = np.arange(rows) < batch.count
    signals = signals_of(settings)
    goes_on = batch.continues | batch.follows
    continues = [batch.continues if each.network.ends_with_episode else goes_on for each in signals]
    return {
        **{
            name: _padded(getattr(batch, name), rows)
            for name in ("observations", "masks", "continuous", "discrete", "rewards", "next_rows")
        },
        "continues": _padded(np.stack(continues, axis=1).astype(np.float32), rows),
        "follows": _padded(batch.follows.astype(np.float32), rows),
        "is_linked": _padded(batch.is_linked.astype(np.float32), rows),
        "valid": valid.astype(np.float32),
        "minibatches": minibatches,
        "minibatches_used": np.asarray(used, np.int32),
        **_acted(batch, rows, snapshots, snapshots_max),
        **({} if batch.sequences is None else _remembered(batch.sequences, capacity)),
        "strengths": np.asarray([each.strength for each in signals], np.float32),
        "gammas": np.asarray([each.gamma for each in signals], np.float32),
        "signal_rates": np.asarray([each.learning_rate for each in signals], np.float32),
        "lambda": np.asarray(settings.hyperparameters.lambd, np.float32),
        "learning_rate": np.asarray(scheduled.learning_rate, np.float32),
        "epsilon": np.asarray(scheduled.epsilon, np.float32),
        "beta": np.asarray(scheduled.beta, np.float32),
    }


def _remembered(sequences: SequenceRows, capacity: Capacity) -> dict[str, Array]:
    return {
        "memories": _padded(sequences.memories, capacity.rows),
        "starts": _padded(sequences.starts.astype(np.float32), capacity.rows),
        **acted_lanes(sequences, capacity),
    }


def _acted(batch: Batch, rows: int, snapshots: Sequence[PolicySnapshot], snapshots_max: int) -> dict[str, Array]:
    """The policies that acted, stacked at a fixed height, and the number of its own for each row.

    A row older than every snapshot counts as acted by the oldest: an action that was under way for several updates.
    """
    versions = np.asarray([each.version for each in snapshots])
    numbers = np.maximum(np.searchsorted(versions, batch.versions, side="right") - 1, 0)
    present = np.unique(numbers[: len(batch)])
    place = np.zeros(len(snapshots), np.int32)
    place[present] = np.arange(len(present))
    chosen = [snapshots[number] for number in present]
    chosen += [snapshots[-1]] * (snapshots_max - len(chosen))
    scaling = [each.normalizer.shift_and_scale() for each in chosen]
    shift, scale = snapshots[-1].normalizer.shift_and_scale()
    return {
        "acted": _padded(place[numbers], rows),
        "acted_used": np.asarray(len(present), np.int32),
        "acted_weights": np.stack([each.flat for each in chosen]),
        "acted_shift": np.stack([each for each, _ in scaling]),
        "acted_scale": np.stack([each for _, each in scaling]),
        "shift": shift,
        "scale": scale,
    }


def _padded(column: Array, rows: int) -> Array:
    padding = np.zeros((rows - len(column), *column.shape[1:]), column.dtype)
    return np.concatenate([column, padding])
