"""Cloning beside rewards: what an update of PPO is followed by when a behavior has demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.experience.brains import Floats
from runtime.learner import BehaviorSettings, CloningSettings
from trainers.batches import Capacity
from trainers.bc.minibatches import minibatches_of, sequence_starts
from trainers.bc.samples import Samples
from trainers.buffer import Array
from trainers.networks import NetworkShape
from trainers.normalizer import Normalizer
from trainers.optimizer_state import Weights
from trainers.ppo.engine import load_tensorflow


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Adam's state of cloning: float32 (size,) twice, and the number of steps taken."""

    first: Floats
    second: Floats
    steps: int

    @staticmethod
    def empty(size: int) -> Moments:
        """Before the first step."""
        return Moments(np.zeros(size, np.float32), np.zeros(size, np.float32), 0)

    def restored(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> Moments:
        """Those of a checkpoint. Raises ValueError where they are not as many as these, or not finite."""
        first, second = (arrays[f"cloning.{name}"].astype(np.float32) for name in ("first", "second"))
        if not {first.shape, second.shape} == {self.first.shape} or not np.isfinite([first, second]).all():
            raise ValueError(f"moments of shapes {first.shape}, {second.shape}, expected {self.first.shape} and finite")
        return Moments(first, second, int(state["cloning_steps"]))


@dataclass(frozen=True, slots=True, eq=False)
class Cloned:
    """What a lesson came to: all weights, of which those that act have learned, Adam's state, and the mean loss."""

    flat: Floats
    moments: Moments
    loss: float


Lesson = Callable[[Floats, Normalizer], Cloned]


def cloning_rate(settings: CloningSettings, *, learning_rate: float, steps: int) -> float:
    """The learning rate of cloning after `steps` steps of the behavior.

    `strength` times the learning rate, falling linearly to 0 at `settings.steps`; 0 of those: for ever the same.
    """
    left = 1.0 if settings.steps == 0 else max(0.0, 1.0 - steps / settings.steps)
    return settings.strength * learning_rate * left


class Pretraining:
    """The demonstrations of one behavior and the state of learning from them.

    moments: replaced by whoever installs an update, never changed.
    """

    def __init__(self, samples: Samples, shape: NetworkShape, settings: BehaviorSettings) -> None:
        cloning, memory = settings.behavioral_cloning, settings.network_settings.memory
        assert cloning is not None
        hyper = settings.hyperparameters
        self.samples = samples
        self.moments = Moments.empty(shape.size)
        self._shape = shape
        self._settings = cloning
        self._learning_rate = hyper.learning_rate
        self._capacity = Capacity(
            rows=0,
            batch_size=cloning.batch_size or min(hyper.batch_size, hyper.buffer_size),
            epochs=cloning.num_epoch or hyper.num_epoch,
            sequence_length=memory.sequence_length if memory else 0,
        )

    def lesson(self, *, steps: int, rng: np.random.Generator) -> Lesson | None:
        """What learns from the demonstrations after `steps` steps; None once the learning rate is 0.

        It touches nothing that is shared, and may run on another thread.
        """
        rate = cloning_rate(self._settings, learning_rate=self._learning_rate, steps=steps)
        return self._lesson(rate, rng) if rate > 0.0 else None

    def warm_up(self, flat: Floats, normalizer: Normalizer) -> None:
        """Compiles the step by taking one that nobody keeps."""
        self._lesson(0.0, np.random.default_rng(0), minibatches_max=1)(flat, normalizer)

    def _lesson(self, rate: float, rng: np.random.Generator, *, minibatches_max: int | None = None) -> Lesson:
        moments, samples, capacity, shape = self.moments, self.samples, self._capacity, self._shape
        samples_max = self._settings.samples_per_update

        def learn(flat: Floats, normalizer: Normalizer) -> Cloned:
            load_tensorflow()
            from trainers.bc.update import cloning_for  # noqa: PLC0415 - TensorFlow, on the learner thread alone

            starts = sequence_starts(samples.begins, capacity.sequence_length)
            minibatches = list(minibatches_of(starts, capacity, samples_max=samples_max, rng=rng))
            shift, scale = normalizer.shift_and_scale()
            moment = {"learning_rate": np.asarray(rate, np.float32), "shift": shift, "scale": scale}
            update = cloning_for(shape, _sizes(capacity), learns_deviation=False)
            before = Weights(flat[: shape.size], moments.first, moments.second, moments.steps)
            after, loss = update.run(before, samples, minibatches[:minibatches_max], moment)
            whole = np.concatenate([after.flat, flat[shape.size :]])
            return Cloned(whole, Moments(after.first, after.second, after.steps), loss)

        return learn


def _sizes(capacity: Capacity) -> Capacity:
    """What of a capacity fixes shapes, so that as few updates as possible are compiled."""
    return Capacity(rows=0, batch_size=capacity.batch_size, epochs=1, sequence_length=capacity.sequence_length)
