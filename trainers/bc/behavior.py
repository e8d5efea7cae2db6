"""Learning from demonstrations alone: the trainer `offline_bc`, on which `online_bc` is built.

Agents act in the world all the while, so that what was learned is seen and steps are counted, but nothing is learned
from what they do. An update is due after each `time_horizon` agent steps; it is `batches_per_epoch` minibatches of the
demonstrations, in as many passes as that takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import BrainParameters
from runtime.heap import give_back_memory
from runtime.learner import BehaviorSettings, BrainProgress, CloningSettings, PolicyRelease, RewardSignalSettings
from trainers.batches import Capacity
from trainers.bc.minibatches import minibatches_of, sequence_starts
from trainers.bc.samples import Samples, blank_sample, left_out_warning
from trainers.behavior import Behavior, Outcome
from trainers.networks import named_weights
from trainers.normalizer import Normalizer
from trainers.ppo import engine
from trainers.randomness import generator
from trainers.schedules import scheduled_values

LOG_STD_AT_FIRST = -1.5
"""A copy is not there to explore: the first deviation is that of a careful hand. It learns what it should be."""


class CloningBehavior(Behavior):
    """One behavior that learns from demonstrations alone.

    samples: what there is to learn from; replaced, never changed.
    """

    def __init__(
        self,
        brain: BrainParameters,
        settings: BehaviorSettings,
        *,
        key: str,
        keeps_versions: int,
        samples: Samples | None = None,
    ) -> None:
        """samples: demonstrated ones; None when nothing is to be learned."""
        signals = {"extrinsic": settings.reward_signals.get("extrinsic", RewardSignalSettings())}
        super().__init__(brain, replace(settings, reward_signals=signals), key=key, keeps_versions=keeps_versions)
        self.samples = samples
        self._steps_in_flight = 0
        if self.shape.continuous_size:
            flat = self.weights.flat.copy()
            named_weights(self.shape, flat)["log_std"][...] = LOG_STD_AT_FIRST
            self.weights = replace(self.weights, flat=flat)
        if samples is not None and self.shape.normalize:
            self.normalizer = self.normalizer.merged(np.asarray(samples.observations[0], np.float32))
        self.snapshots = [self._snapshot()]

    @property
    def keeps_experience(self) -> bool:
        """False: what agents do is counted, and forgotten."""
        return False

    @property
    def demonstration_warning(self) -> str:
        """What the user should know of the demonstrations; empty when they are flawless."""
        return "" if self.samples is None else left_out_warning(self.name, self.samples)

    @property
    def has_samples(self) -> bool:
        """True where there is something to learn from."""
        return self.samples is not None

    @property
    def cloning_settings(self) -> CloningSettings:
        """How it learns."""
        assert self.settings.behavioral_cloning is not None
        return self.settings.behavioral_cloning

    def progress(self, *, is_training: bool) -> BrainProgress:
        """How far the behavior is; agent steps since the last update stand for those that are buffered."""
        horizon = self.settings.time_horizon
        is_due = self.since_update >= horizon and self.has_samples
        return replace(
            super().progress(is_training=is_training),
            buffered=self.since_update,
            buffer_size=horizon,
            is_ready_update=is_training and not self.is_finished and is_due,
        )

    def warm_up(self) -> None:
        """Compiles the step by taking one that nobody keeps."""
        self._lesson(blank_sample(self.shape), self.normalizer, batches=1, is_trial=True)()
        give_back_memory()  # about 100 MB that the compilation has freed

    def begin_update(self) -> Callable[[], Outcome]:
        """A job that learns from the demonstrations."""
        assert self.samples is not None
        return self.lesson(self.samples, self.normalizer)

    def lesson(self, samples: Samples, normalizer: Normalizer) -> Callable[[], Outcome]:
        """A job that learns from samples, normalised so."""
        self.period += 1
        self._steps_in_flight, self.since_update = self.since_update, 0
        return self._lesson(samples, normalizer, batches=self.cloning_settings.batches_per_epoch)

    def finish_update(self, outcome: Outcome) -> PolicyRelease:
        """Installs the outcome as the next version. Raises LearnerError when it is not finite."""
        self.install(outcome)
        self.summaries.updates.append({"Losses/Cloning Loss": outcome.statistics["cloning_loss"]})
        return self.release()

    def install(self, outcome: Outcome) -> None:
        """Takes the outcome's weights as the next version. Raises LearnerError when it is not finite."""
        super().install(outcome)
        self._steps_in_flight = 0

    def lesson_state(self) -> dict[str, object]:
        """What is saved of learning: of an update under way nothing."""
        return {**super().lesson_state(), "since_update": self.since_update + self._steps_in_flight}

    def _lesson(
        self, samples: Samples, normalizer: Normalizer, *, batches: int, is_trial: bool = False
    ) -> Callable[[], Outcome]:
        weights, shape = self.weights, self.shape
        rng = generator(self.key, "minibatches", self.version)
        hyper = self.settings.hyperparameters
        capacity = Capacity(rows=0, batch_size=hyper.batch_size, epochs=1, sequence_length=self.sequence_length)
        scheduled = scheduled_values(hyper, steps=self.steps, max_steps=self.settings.max_steps)
        name, rate = self.name, 0.0 if is_trial else scheduled.learning_rate

        def job() -> Outcome:
            engine.load_tensorflow()
            from trainers.bc.update import cloning_for  # noqa: PLC0415 - TensorFlow, on the learner thread alone

            shift, scale = normalizer.shift_and_scale()
            moment = {"learning_rate": np.asarray(rate, np.float32), "shift": shift, "scale": scale}
            update = cloning_for(shape, capacity, learns_deviation=bool(shape.continuous_size))
            dealt = itertools.islice(_endless(samples, capacity, rng), batches)
            after, loss = update.run(weights, samples, dealt, moment)
            return Outcome(
                behavior=name,
                weights=after,
                normalizer=normalizer,
                statistics={"cloning_loss": loss},
                scheduled=scheduled,
            )

        return job


def _endless(samples: Samples, capacity: Capacity, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int32]]:
    """Minibatches of one pass after another."""
    starts = sequence_starts(samples.begins, capacity.sequence_length)
    while True:
        yield from minibatches_of(starts, capacity, samples_max=0, rng=rng)
