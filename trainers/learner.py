"""Learning for all behaviors of a run: the implementation of the controller's port."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.errors import InternalError, UsageError
from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.columns import StepBlock
from runtime.learner import (
    BehaviorSettings,
    BrainProgress,
    Learner,
    LearnerOptions,
    PolicyRelease,
    SaveJob,
    Summary,
    TrainerType,
    UpdateJob,
    UpdateOutcome,
)
from trainers.bc.behavior import CloningBehavior
from trainers.bc.online import WatchingBehavior
from trainers.bc.samples import Samples, samples_of
from trainers.behavior import Behavior, Outcome
from trainers.checkpoints import Checkpoint, first_loadable, write_checkpoint
from trainers.content import check_memories, checked_observations
from trainers.memory import MemoryNeed, machine_memory, memory_need, refuse_beyond
from trainers.randomness import behavior_key
from trainers.refusals import refuse_unsupported
from trainers.saved_state import (
    behavior_arrays,
    behavior_state,
    foreign,
    parts_of,
    refuse_other_brain,
    refusing_foreign,
    restore_behavior,
    restore_policy,
    saved_brain,
)
from trainers.tensors_file import Array

TRAINERS: Mapping[TrainerType, type[Behavior]] = {
    "ppo": Behavior,
    "offline_bc": CloningBehavior,
    "online_bc": WatchingBehavior,
}


def create_learner(options: LearnerOptions) -> Learner:
    """A learner with no behaviors yet; TensorFlow is loaded by `warm_up` or the first update, not here."""
    return PPOLearner(options)


@dataclass(slots=True)
class _EnvClock:
    """Where one environment is. steps: env steps counted over all its incarnations; next_step: of this one."""

    incarnation: int
    steps: int
    next_step: int = 0


class PPOLearner:
    """Learns each behavior by PPO; the contract of every method is in `runtime.learner.Learner`."""

    def __init__(self, options: LearnerOptions, *, memory_bytes: int | None = None) -> None:
        """memory_bytes: what there is; None asks the machine."""
        self._options = options
        self._memory_bytes = machine_memory() if memory_bytes is None else memory_bytes
        self._needs: dict[str, MemoryNeed] = {}
        self._behaviors: dict[str, Behavior] = {}
        self._brains: dict[str, BrainParameters] = {}
        self._clocks: dict[EnvId, _EnvClock] = {}
        self._clock_floor = 0
        # Restored, and not announced again yet.
        self._unmet: set[str] = set()
        # What a checkpoint holds of behaviors that were not restored; it goes into the next one as it is.
        self._saved: dict[str, Mapping[str, Any]] = {}  # JSON
        self._saved_arrays: dict[str, dict[str, Array]] = {}
        self._takes_policies_only = False
        # The behaviors of the checkpoint that was loaded, and what to call it.
        self._known_elsewhere: tuple[str, ...] = ()
        self._elsewhere = ""

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        """The first policy of a new behavior, or None when the behavior is known."""
        name = brain.behavior_name
        behavior = self._behaviors.get(name)
        is_first = behavior is None or name in self._unmet
        if behavior is None:
            behavior = self._make(brain, self._options.settings_for(name))
        else:
            refuse_other_brain(behavior.brain, brain, is_saved=name in self._unmet)
        self._unmet.discard(name)
        self._brains[brain.brain_name] = brain
        if not is_first:
            return None
        fresh = self._unknown_elsewhere(name)
        warnings = [f"{fresh}; it begins with random weights" if fresh else "", behavior.demonstration_warning]
        return replace(behavior.release(), warning="; ".join(filter(None, warnings)))

    def _make(self, brain: BrainParameters, settings: BehaviorSettings) -> Behavior:
        """A behavior, as a checkpoint has it if one was loaded that knows it."""
        name = brain.behavior_name
        refuse_unsupported(brain, settings)
        samples = self._demonstrated(brain, settings)
        self._refuse_beyond_memory(brain, settings, 0 if samples is None else samples.size_bytes)
        behavior = TRAINERS[settings.trainer_type](
            brain,
            settings,
            key=behavior_key(self._options.run_seed, name),
            keeps_versions=self._options.keeps_versions,
            samples=samples,
        )
        fresh = self._unknown_elsewhere(name)
        if fresh and not self._options.is_training:
            raise UsageError(f"{fresh}; inference needs trained weights. Name a run that trained {name!r}.")
        if name in self._saved:
            restore = restore_policy if self._takes_policies_only else restore_behavior
            with refusing_foreign(name):
                restore(behavior, self._saved[name], self._saved_arrays[name])
            del self._saved[name], self._saved_arrays[name]
        self._behaviors[name] = behavior
        return behavior

    def _demonstrated(self, brain: BrainParameters, settings: BehaviorSettings) -> Samples | None:
        """What the behavior is to learn from; None when nothing was demonstrated, or nothing is learned."""
        cloning = settings.behavioral_cloning
        if cloning is None or not self._options.is_training or settings.trainer_type == "online_bc":
            return None
        if not cloning.demo_path:
            raise UsageError(
                f"behavior {brain.behavior_name!r}: {settings.trainer_type} needs a demo_path under "
                "behavioral_cloning; expected a .demo file, or a folder of them. Add a block for the behavior.",
            )
        if self._options.demonstrations is None:
            raise UsageError(
                f"behavior {brain.behavior_name!r} is to learn from {cloning.demo_path!r}, and this learner cannot "
                "read demonstrations. Expected LearnerOptions.demonstrations; give a function that reads them.",
            )
        return samples_of(self._options.demonstrations(cloning.demo_path), brain, source=cloning.demo_path)

    def _unknown_elsewhere(self, name: str) -> str:
        """What is to be said of a behavior that the checkpoint does not know, although it knows others; else empty."""
        if not self._known_elsewhere or name in self._known_elsewhere:
            return ""
        known = ", ".join(map(repr, self._known_elsewhere))
        return f"behavior {name!r}: {self._elsewhere} knows {known}, and not this one"

    def _refuse_beyond_memory(self, brain: BrainParameters, settings: BehaviorSettings, demonstrated: int) -> None:
        if self._options.is_training:
            is_async = self._options.keeps_versions > 1
            need = memory_need(brain, settings, is_async=is_async, demonstrations=demonstrated)
            refuse_beyond(need, settings, others=self._needs.values(), memory_bytes=self._memory_bytes)
            self._needs[brain.behavior_name] = need

    def behavior(self, name: str) -> Behavior:
        """What is known of one behavior, for who learns it by hand. Raises KeyError for one that was not added."""
        return self._behaviors[name]

    def warm_up(self, behavior: str) -> None:
        """Loads TensorFlow and compiles the update of `behavior`."""
        if self._options.is_training:
            self._behaviors[behavior].warm_up()

    def accept(self, block: StepBlock) -> None:
        """Takes one block, or raises PlayerContentError and keeps nothing of it."""
        checked = [(wire, checked_observations(block, self._known(wire, block))) for wire in sorted(block.brains)]
        for wire in block.brains:
            check_memories(block, self._brains[wire], self._behaviors[wire.partition("?")[0]].shape.memory_width)
        clock = self._advance(block)
        if block.steps == 0:
            self.cut(block.env_id)
            for behavior in self._behaviors.values():
                behavior.after_reset(block.env_id)
        for wire, observations in checked:
            behavior = self._behaviors[self._brains[wire].behavior_name]
            rows = behavior.rows(block, wire, observations, clock)
            behavior.accept(block, rows, wire, is_training=self._options.is_training)
        for behavior in self._behaviors.values():
            if isinstance(behavior, WatchingBehavior) and self._options.is_training:
                behavior.watch(block.watched)
            if behavior.settings.counts_env_steps:
                behavior.steps += block.steps

    def _known(self, wire: str, block: StepBlock) -> BrainParameters:
        brain = self._brains.get(wire)
        if brain is None:
            raise InternalError(
                f"a block of environment {block.env_id} carries brain {wire!r}, which was not added; expected one of "
                f"{sorted(self._brains)}. Report this as a bug.",
            )
        return brain

    def _advance(self, block: StepBlock) -> int:
        """The environment's clock before the block; a new incarnation ends the trajectories of the one before."""
        clock = self._clocks.get(block.env_id)
        if clock is None or block.incarnation > clock.incarnation:
            # It joins at the present, so that its episodes are not taken for old ones.
            present = max([self._clock_floor, *(each.steps for each in self._clocks.values())])
            for behavior in self._behaviors.values():
                behavior.cut(block.env_id, is_new_incarnation=True)
            clock = self._clocks[block.env_id] = _EnvClock(block.incarnation, present)
        elif block.incarnation < clock.incarnation or block.first_step < clock.next_step:
            raise InternalError(
                f"environment {block.env_id}: block {block.first_step} of incarnation {block.incarnation} came after "
                f"step {clock.next_step} of incarnation {clock.incarnation}; expected blocks in order. Report this as "
                "a bug.",
            )
        before = clock.steps
        clock.steps += block.steps
        clock.next_step = block.first_step + block.steps
        return before

    def cut(self, env_id: EnvId | None = None) -> None:
        """Ends the open trajectories of one environment, or of all."""
        for behavior in self._behaviors.values():
            behavior.cut(env_id)

    def cut_idle(self, env_id: EnvId, steps_max: int) -> int:
        """Ends the trajectories of agents silent for more than `steps_max` env steps; says how many."""
        clock = self._clocks.get(env_id)
        if clock is None:
            return 0
        return sum(behavior.cut_idle(env_id, clock.steps - steps_max) for behavior in self._behaviors.values())

    def progress(self) -> Mapping[str, BrainProgress]:
        """Progress by behavior, in the order of names."""
        return {
            name: self._behaviors[name].progress(is_training=self._options.is_training)
            for name in sorted(self._behaviors)
        }

    def take_summaries(self) -> Sequence[Summary]:
        """Summaries that became due since the last call, oldest first."""
        found = [
            summary
            for name in sorted(self._behaviors)
            for summary in self._behaviors[name].take_summaries(is_training=self._options.is_training)
        ]
        return sorted(found, key=lambda summary: summary.step)

    def take_returns(self) -> Mapping[str, Sequence[float]]:
        """Returns of the episodes that have ended since the last call."""
        taken = {name: tuple(each.returns) for name, each in self._behaviors.items() if each.returns}
        for each in self._behaviors.values():
            each.returns.clear()
        return taken

    def begin_update(self, behavior: str) -> UpdateJob:
        """A job that updates `behavior` from what is buffered."""
        return self._behaviors[behavior].begin_update()

    def finish_update(self, outcome: UpdateOutcome) -> PolicyRelease:
        """The new policy, or LearnerError when something in it is not finite."""
        assert isinstance(outcome, Outcome)
        return self._behaviors[outcome.behavior].finish_update(outcome)

    def unity_model(self, behavior: str) -> bytes:
        """The policy as the ONNX file that Unity loads."""
        return self._behaviors[behavior].unity_model()

    def begin_save(self, run_state: Mapping[str, object]) -> SaveJob:
        """A job that writes a complete checkpoint folder."""
        states: dict[str, Mapping[str, Any]] = {name: behavior_state(each) for name, each in self._behaviors.items()}
        arrays = {name: behavior_arrays(each) for name, each in self._behaviors.items()}
        if not self._takes_policies_only:
            states.update(self._saved)
            arrays.update(self._saved_arrays)
        clock = max([self._clock_floor, *(each.steps for each in self._clocks.values())])
        checkpoint = Checkpoint(
            {
                f"{number}/{part}": array
                for number, name in enumerate(sorted(states))
                for part, array in arrays[name].items()
            },
            # Through JSON and back: a snapshot, and an error now rather than on the learner thread.
            {"behaviors": states, "clock": clock, "run_state": json.loads(json.dumps(dict(run_state)))},
        )
        return lambda folder: write_checkpoint(folder, checkpoint)

    def load(self, folders: Sequence[Path]) -> Mapping[str, object]:
        """Restores the first loadable checkpoint and returns its `run_state`, with `damaged` beside it."""
        checkpoint, damaged = self._take(folders)
        run_state, clock = checkpoint.state.get("run_state"), checkpoint.state.get("clock")
        if not isinstance(run_state, dict) or not isinstance(clock, int):
            raise foreign("run_state and clock are not what they should be")
        self._clock_floor = clock
        self._known_elsewhere, self._elsewhere = tuple(sorted(self._saved)), "the run to go on with"
        for name in sorted(self._saved):
            self._restore(name)
        return {**run_state, "damaged": damaged}

    def _restore(self, name: str) -> None:
        """Brings a saved behavior back, so that the run knows of it before a player announces it again."""
        try:
            settings = self._options.settings_for(name)
        except UsageError:
            return  # it is refused if it is announced, and kept in every checkpoint if it is not
        with refusing_foreign(name):
            brain = saved_brain(self._saved[name])
        self._make(brain, settings)
        self._unmet.add(name)

    def initialize_from(self, folders: Sequence[Path]) -> None:
        """Takes weights and normalisers alone; counters start at 0."""
        self._takes_policies_only = True
        self._take(folders)
        self._known_elsewhere, self._elsewhere = tuple(sorted(self._saved)), "the checkpoint to take weights from"

    def _take(self, folders: Sequence[Path]) -> tuple[Checkpoint, list[str]]:
        _, checkpoint, damaged = first_loadable(folders)
        states = checkpoint.state.get("behaviors") if isinstance(checkpoint.state, Mapping) else None
        if not isinstance(states, dict):
            raise foreign("it names no behaviors")
        self._saved = dict(states)
        self._saved_arrays = {name: parts_of(number, checkpoint.arrays) for number, name in enumerate(sorted(states))}
        return checkpoint, [f"{each.folder}: {each.reason}" for each in damaged]
