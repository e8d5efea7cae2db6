"""Everything that learning knows of one behavior, and what may be done with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from runtime.errors import LearnerError
from runtime.experience.brains import BrainParameters, EnvId, Floats
from runtime.experience.columns import StepBlock
from runtime.experience.lessons import LESSON_LENGTH_MAX
from runtime.heap import give_back_memory
from runtime.learner import BehaviorSettings, BrainProgress, PolicyRelease, Summary
from trainers.batches import Capacity, batch_of, capacity_for
from trainers.bc.pretraining import Cloned, Moments, Pretraining
from trainers.bc.samples import Samples, left_out_warning
from trainers.buffer import ROWS_AT_FIRST, Array, Observations, TransitionBuffer
from trainers.content import flat_masks
from trainers.export import acting_graph, unity_graph
from trainers.networks import NetworkShape, initial_weights
from trainers.normalizer import Normalizer
from trainers.optimizer_state import Weights
from trainers.ppo import engine
from trainers.ppo.inputs import PolicySnapshot, update_inputs
from trainers.randomness import generator
from trainers.schedules import ScheduledValues, scheduled_values
from trainers.statistics import EpisodeStatistics, SummaryWriter
from trainers.trajectories import Stream, StreamRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What an update made. statistics: losses and the rest, by name; moments: of cloning, where there was any."""

    behavior: str
    weights: Weights
    normalizer: Normalizer
    statistics: Mapping[str, float]
    scheduled: ScheduledValues
    moments: Moments | None = None


class Behavior:
    """One behavior: policy, optimiser, experience and statistics.

    Arrays of weights are replaced, never changed, so that a snapshot of them stays what it was.
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
        """samples: demonstrated ones, from which it learns beside its own experience."""
        self.name = brain.behavior_name
        self.brain = brain
        self.settings = settings
        self.key = key
        self.shape = NetworkShape.of(brain, settings)
        zeros = np.zeros(self.shape.full_size, np.float32)
        self.weights = Weights(initial_weights(self.shape, key), zeros, zeros, 0)
        self.normalizer = Normalizer.empty(self.shape.vector_size)
        self.version = 0
        self.steps = 0
        self.period = 0
        self.since_update = 0
        self.wires: list[str] = [brain.brain_name]
        # One more than may arrive: an action may be under way while an update is made.
        self._snapshots_max = keeps_versions + 1
        self.buffer = self.empty_buffer()
        self.in_flight: TransitionBuffer | None = None
        self.streams: dict[tuple[str, EnvId], Stream] = {}
        self.episodes = EpisodeStatistics()
        self.summaries = SummaryWriter(settings.summary_freq)
        # For lessons; of those that nobody takes, the newest are kept.
        self.returns: deque[float] = deque(maxlen=LESSON_LENGTH_MAX)
        self.snapshots: list[PolicySnapshot] = [self._snapshot()]
        self.capacities: set[Capacity] = set()
        self.cloning = None if samples is None else Pretraining(samples, self.shape, settings)

    @property
    def keeps_experience(self) -> bool:
        """True where agent steps are kept to learn from."""
        return True

    @property
    def is_finished(self) -> bool:
        """True once `max_steps` agent steps were accepted."""
        return self.steps >= self.settings.max_steps

    @property
    def demonstration_warning(self) -> str:
        """What the user should know of the demonstrations; empty without any, or when they are flawless."""
        return "" if self.cloning is None else left_out_warning(self.name, self.cloning.samples)

    @property
    def policy_weights(self) -> Floats:
        """The part of the weights that acts: the reward signals' lie behind it."""
        return self.weights.flat[: self.shape.size]

    @property
    def sequence_length(self) -> int:
        """Rows of a training sequence at most; 0 without memory."""
        memory = self.settings.network_settings.memory
        return memory.sequence_length if memory else 0

    @property
    def rows_at_first(self) -> int:
        """Rows of a new buffer; with sights so many that it need not grow, which would take both sizes at once."""
        return self._capacity(0).rows if self.shape.sights else ROWS_AT_FIRST

    def empty_buffer(self) -> TransitionBuffer:
        """A buffer without rows."""
        return TransitionBuffer(self.shape, rows=self.rows_at_first)

    def accept(self, block: StepBlock, rows: StreamRows, wire: str, *, is_training: bool) -> None:
        """Takes the rows of one wire brain of one block."""
        if wire not in self.wires:
            self.wires.append(wire)
        stream = self.streams.get((wire, block.env_id))
        if stream is None:
            identity = (self.wires.index(wire), int(block.env_id), int(block.incarnation))
            stream = self.streams[wire, block.env_id] = Stream(identity)
        is_kept = is_training and not self.is_finished
        count, finished = stream.take(rows, self.buffer if is_kept and self.keeps_experience else None)
        self.since_update += count if is_kept else 0
        if not self.settings.counts_env_steps:
            self.steps += count
        for episode in finished:
            self.episodes.add(episode, period=self.period, env_id=block.env_id, brain=wire)
            self.returns.append(episode.reward + episode.group_reward)

    def rows(self, block: StepBlock, wire: str, observations: Observations, clock: int) -> StreamRows:
        """The rows of one wire brain, checked already. clock: env steps of the environment before the block."""
        columns = block.brains[wire]
        version = block.versions.get(wire, block.versions.get(self.name, self.version))
        return StreamRows(
            columns=columns,
            observations=observations,
            masks=flat_masks(columns, self.shape.mask_size),
            version=version,
            clock=clock,
            keeps_ends=self.shape.sees_next,
        )

    def cut(self, env_id: EnvId | None, *, is_new_incarnation: bool = False) -> None:
        """Ends open trajectories of one environment or all, without counting their episodes."""
        for key, stream in list(self.streams.items()):
            if env_id is None or key[1] == env_id:
                stream.cut(self.buffer)
                if is_new_incarnation:
                    del self.streams[key]

    def after_reset(self, env_id: EnvId) -> None:
        """Every episode of the environment is new from here."""
        for (_, env), stream in self.streams.items():
            if env == env_id:
                stream.forget_lost()

    def cut_idle(self, env_id: EnvId, before: int) -> int:
        """Ends trajectories without a row since env step `before`; says how many."""
        return sum(
            stream.cut(self.buffer, stream.idle_since(before))
            for (_, env), stream in self.streams.items()
            if env == env_id
        )

    def progress(self, *, is_training: bool) -> BrainProgress:
        """How far the behavior is."""
        buffer_size = self.settings.hyperparameters.buffer_size
        return BrainProgress(
            behavior=self.name,
            steps=self.steps,
            max_steps=self.settings.max_steps,
            buffered=len(self.buffer),
            buffer_size=buffer_size,
            is_ready_update=is_training and not self.is_finished and len(self.buffer) >= buffer_size,
            version=self.version,
            episodes=self.episodes.count,
            mean_reward=self.episodes.mean_reward,
            mean_episode_length=self.episodes.mean_length,
            counts_env_steps=self.settings.counts_env_steps,
        )

    def take_summaries(self, *, is_training: bool) -> list[Summary]:
        """Summaries that became due."""
        return self.summaries.take(
            self.name,
            self.settings,
            steps=self.steps,
            episodes=self.episodes,
            is_training=is_training and not self.is_finished,
        )

    def release(self) -> PolicyRelease:
        """The policy of now."""
        return PolicyRelease(
            behavior=self.name,
            version=self.version,
            body=acting_graph(self.shape, self.policy_weights, self.normalizer, sequence_length=self.sequence_length),
        )

    def unity_model(self) -> bytes:
        """The policy of now as Unity loads it."""
        return unity_graph(self.shape, self.policy_weights, self.normalizer)

    def warm_up(self) -> None:
        """Compiles the update at its first capacity by running it on nothing."""
        job = self._job(self.empty_buffer())
        job()
        if self.cloning is not None:
            self.cloning.warm_up(self.policy_weights, self.normalizer)
        give_back_memory()  # about 100 MB that the compilation has freed

    def begin_update(self) -> Callable[[], Outcome]:
        """Takes the buffer; the job learns from it."""
        for stream in self.streams.values():
            stream.cut_for_update(self.buffer)
        taken, self.buffer = self.buffer, self.empty_buffer()
        self.in_flight = taken
        self.period += 1
        self.since_update = 0
        return self._job(taken)

    def finish_update(self, outcome: Outcome) -> PolicyRelease:
        """Installs the outcome as the next version. Raises LearnerError when it is not finite."""
        self.install(outcome)
        self.summaries.updates.append(
            {
                "Losses/Policy Loss": outcome.statistics["policy_loss"],
                "Losses/Value Loss": outcome.statistics["value_loss"],
                "Policy/Entropy": outcome.statistics["entropy"],
                **{tag: value for tag, value in outcome.statistics.items() if "/" in tag},
            },
        )
        if "pretraining_loss" in outcome.statistics:
            self.summaries.updates[-1]["Losses/Pretraining Loss"] = outcome.statistics["pretraining_loss"]
        return self.release()

    def install(self, outcome: Outcome) -> None:
        """Takes the outcome's weights as the next version. Raises LearnerError when it is not finite."""
        self.in_flight = None
        _refuse_not_finite(outcome)
        self.weights, self.normalizer = outcome.weights, outcome.normalizer
        if self.cloning is not None and outcome.moments is not None:
            self.cloning.moments = outcome.moments
        self.version += 1
        self.snapshots = [*self.snapshots, self._snapshot()][-self._snapshots_max :]

    def lesson_arrays(self) -> dict[str, Array]:
        """What learning from demonstrations keeps in a checkpoint."""
        if self.cloning is None:
            return {}
        return {"cloning.first": self.cloning.moments.first, "cloning.second": self.cloning.moments.second}

    def lesson_state(self) -> dict[str, object]:
        """The same, of what is no array; JSON."""
        steps = {} if self.cloning is None else {"cloning_steps": self.cloning.moments.steps}
        return {"since_update": self.since_update, **steps}

    def restore_lesson(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from those; what a checkpoint does not hold begins anew. Raises ValueError for foreign ones."""
        self.since_update = int(state.get("since_update", 0))
        if self.cloning is not None and "cloning_steps" in state:
            self.cloning.moments = self.cloning.moments.restored(state, arrays)

    def complete_buffer(self) -> TransitionBuffer:
        """A copy of all experience that no finished update has used, open trajectories bootstrapped; for a save."""
        copy = self.buffer.copy()
        for stream in self.streams.values():
            stream.mark_cuts(copy)
        if self.in_flight is None:
            return copy
        together = self.in_flight.copy()
        together.extend(copy)
        return together

    def _snapshot(self) -> PolicySnapshot:
        return PolicySnapshot(self.version, self.policy_weights, self.normalizer)

    def _capacity(self, rows: int) -> Capacity:
        hyper = self.settings.hyperparameters
        return capacity_for(
            rows=rows,
            buffer_size=hyper.buffer_size,
            batch_size=hyper.batch_size,
            epochs=hyper.num_epoch,
            sequence_length=self.sequence_length,
            is_async=self._snapshots_max > 2,
        )

    def _job(self, buffer: TransitionBuffer) -> Callable[[], Outcome]:
        settings = self.settings
        wires, snapshots, weights, normalizer = list(self.wires), list(self.snapshots), self.weights, self.normalizer
        scheduled = scheduled_values(settings.hyperparameters, steps=self.steps, max_steps=settings.max_steps)
        rng = generator(self.key, "minibatches", self.version)
        shape, snapshots_max, name = self.shape, self._snapshots_max, self.name
        threads = engine.threads_for(shape, is_async=snapshots_max > 2)
        lesson = None
        if self.cloning is not None and len(buffer):
            lesson = self.cloning.lesson(steps=self.steps, rng=generator(self.key, "cloning", self.version))

        def job() -> Outcome:
            batch = batch_of(buffer, wires, settings.time_horizon)
            capacity = self._capacity(len(batch))
            self.capacities.add(capacity)
            inputs = update_inputs(
                batch,
                capacity,
                settings,
                snapshots=snapshots,
                snapshots_max=snapshots_max,
                scheduled=scheduled,
                rng=rng,
            )
            after, statistics = engine.update_for(shape, capacity, threads=threads).run(weights, inputs, batch.sights)
            outcome = Outcome(
                behavior=name,
                weights=after,
                normalizer=normalizer.merged(batch.observations[: batch.count]) if shape.normalize else normalizer,
                statistics=statistics,
                scheduled=scheduled,
            )
            return outcome if lesson is None else _cloned(outcome, lesson(after.flat, normalizer))

        return job


def _cloned(outcome: Outcome, cloned: Cloned) -> Outcome:
    """The outcome after what the policy learned from demonstrations."""
    return replace(
        outcome,
        weights=replace(outcome.weights, flat=cloned.flat),
        statistics={**outcome.statistics, "pretraining_loss": cloned.loss},
        moments=cloned.moments,
    )


def _refuse_not_finite(outcome: Outcome) -> None:
    bad = [name for name, value in outcome.statistics.items() if not np.isfinite(value)]
    arrays: dict[str, Array] = {
        "weights": outcome.weights.flat,
        "Adam's first moment": outcome.weights.first,
        "Adam's second moment": outcome.weights.second,
        "normaliser": outcome.normalizer.m2,
    }
    bad += [name for name, array in arrays.items() if not np.isfinite(array.astype(np.float64)).all()]
    if bad:
        raise LearnerError(
            f"behavior {outcome.behavior!r}: an update gave values that are not finite ({', '.join(bad)}); the "
            "policy before it was kept. Expected finite ones: lower learning_rate "
            f"({outcome.scheduled.learning_rate:g} now), or bring observations and rewards to the "
            "order of 1 (network_settings.normalize, reward strength).",
        )
