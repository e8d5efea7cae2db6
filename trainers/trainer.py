"""`Trainer` and `PPOTrainer`: training for programs that hold the loop themselves, as the code of 2019 did.

Each is a thin face of `PPOLearner`: what it makes of the same experience is the same to the bit. Steps are the caller's
to count (`increment_step`); nothing else counts them here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from runtime.errors import UsageError
from runtime.experience.actions import ActionInfo, Actions
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import (
    AllBrainInfo,
    Bools,
    BrainInfo,
    BrainName,
    BrainParameters,
    EnvId,
    Floats,
    Ids,
    Incarnation,
    Ints,
)
from runtime.experience.columns import StepBlock
from runtime.experience.steps import StepInfo
from runtime.folders import checkpoint_folders
from runtime.learner import BehaviorSettings, LearnerOptions, ReadDemonstrations
from runtime.learner_rules import settings_faults
from trainers.behavior import Behavior
from trainers.learner import PPOLearner
from trainers.tf_policy import CHECKPOINTS, TFPolicy

LESSON_TAG = "Environment/Lesson"


class SummaryTarget(Protocol):
    """Where summaries go: `runtime.reporting.tensorboard.EventWriter`, or anything with its `add`."""

    def add(self, step: int, values: Mapping[str, float], *, now_s: float) -> None:
        """Takes the values of one step by tag. now_s: seconds since 1970."""


class Trainer(ABC):
    """What a loop of 2019 asks of the trainer of one brain.

    For each StepInfo `add_experiences`, then `process_experiences`; once per round `increment_step` with the number of
    StepInfos, and `update_policy` when `is_ready_update`.
    """

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, object]:
        """The settings, by name."""

    @property
    @abstractmethod
    def policy(self) -> TFPolicy:
        """What acts: one object whose weights change with each update."""

    @property
    @abstractmethod
    def get_step(self) -> int:
        """Steps counted so far."""

    @property
    @abstractmethod
    def get_max_steps(self) -> int:
        """Steps after which nothing is learned any more."""

    @abstractmethod
    def increment_step(self, n_steps: int) -> None:
        """Counts `n_steps` more. Raises UsageError below 0 and beyond 64 bits, TypeError for no whole number."""

    @abstractmethod
    def add_experiences(self, step_info: StepInfo) -> None:
        """Takes the brain's part of one step, or of a reset, which ends what its environment was in the middle of."""

    @abstractmethod
    def process_experiences(self, step_info: StepInfo) -> None:
        """Makes what was added of that environment ready to be learned from."""

    @abstractmethod
    def end_episode(self) -> None:
        """Ends all open episodes without counting them: call it when the environments are reset."""

    @abstractmethod
    def is_ready_update(self) -> bool:
        """True when enough experience is there for an update."""

    @abstractmethod
    def update_policy(self) -> None:
        """Learns from what was processed; the policy has new weights afterwards."""

    @abstractmethod
    def write_summary(self, global_step: int, delta_train_start: float, lesson_num: int = 0) -> None:
        """Writes what became due. delta_train_start: seconds since training began; lesson_num: of a curriculum."""


@dataclass(frozen=True, slots=True, eq=False)
class _Act:
    """The actions of one brain in one StepInfo, as a block wants them."""

    agents: Ids
    version: int
    continuous_raw: Floats
    discrete: Ints
    memory_before: Floats | None
    sequence_starts: Bools | None


class PPOTrainer(Trainer):
    """Proximal policy optimisation for one brain; the settings of BehaviorSettings with their meaning.

    brain: as `external_brains` gives it; its other teams are learned with it. training: False learns nothing. load: go
    on from the newest checkpoint below `model_path`. writer: for summaries. Raises UsageError for settings that cannot
    be trained, StorageError when there is nothing to load.
    """

    def __init__(
        self,
        brain: BrainParameters,
        settings: BehaviorSettings | None = None,
        *,
        seed: int = 0,
        training: bool = True,
        load: bool = False,
        model_path: Path | None = None,
        writer: SummaryTarget | None = None,
        demonstrations: ReadDemonstrations | None = None,
    ) -> None:
        self._brain = brain
        self._settings = settings or BehaviorSettings()
        self._training = training
        self._writer = writer
        if self._settings.trainer_type != "ppo":
            raise UsageError(
                f"a PPOTrainer was given settings of trainer_type {self._settings.trainer_type!r}; expected 'ppo'. "
                "Train that one with python -m runtime.train."
            )
        if faults := settings_faults(self._settings):
            raise UsageError(
                f"the settings of {brain.behavior_name!r} cannot be trained: {'; '.join(faults)}. "
                "Change them in the BehaviorSettings of this PPOTrainer."
            )
        self._learner = PPOLearner(
            LearnerOptions(
                run_seed=seed,
                settings_for=lambda _: self._settings,
                is_training=training,
                demonstrations=demonstrations,
            )
        )
        if load and model_path is None:
            raise UsageError("load=True without a model_path: expected the folder that save_model wrote below.")
        if load and model_path is not None:
            self._learner.load(checkpoint_folders(model_path / CHECKPOINTS))
        self._learner.add_brain(brain)
        self._policy = TFPolicy(self._learner, brain, model_path)
        self._builders: dict[EnvId, BlockBuilder] = {}
        # Environments whose next step does not go on from the one before.
        self._begun: set[EnvId] = set()
        self._resets = 0

    @property
    def parameters(self) -> Mapping[str, object]:
        """The settings, by name."""
        return asdict(self._settings)

    @property
    def policy(self) -> TFPolicy:
        """What acts."""
        return self._policy

    @property
    def get_step(self) -> int:
        """Steps counted so far."""
        return self._policy.get_current_step()

    @property
    def get_max_steps(self) -> int:
        """Steps after which nothing is learned any more."""
        return self._settings.max_steps

    def increment_step(self, n_steps: int) -> None:
        """Counts `n_steps` more."""
        self._policy.increment_step(n_steps)

    def add_experiences(self, step_info: StepInfo) -> None:
        """Takes the brain's part of one StepInfo.

        Raises UsageError for actions that are not of this trainer's policy: learning needs to know what chose them.
        """
        current = self._own(step_info.current_all_brain_info)
        previous = self._own(step_info.previous_all_brain_info or {})
        env_id = _env_of({**previous, **current})
        if env_id is None:
            return
        acted = {}
        if step_info.previous_all_brain_info is not None:
            actions = step_info.brain_name_to_action_info or {}
            acted = {
                wire: self._act(info, actions.get(wire), wire) for wire, info in previous.items() if len(info.decisions)
            }
        self._process(env_id)
        builder = self._builders.setdefault(env_id, BlockBuilder(env_id, Incarnation(0)))
        builder.add_brains(replace(self._brain, brain_name=BrainName(wire)) for wire in {**previous, **current})
        if step_info.previous_all_brain_info is None:
            self._begin(env_id, current)
            return
        if env_id not in self._begun:
            self._begin(env_id, previous)
        builder.record_step(acted, current)

    def process_experiences(self, step_info: StepInfo) -> None:
        """Hands what was added of that environment to the learner.

        Raises PlayerContentError when something in it is not finite; nothing of the step is kept then.
        """
        env_id = _env_of(self._own({**(step_info.previous_all_brain_info or {}), **step_info.current_all_brain_info}))
        if env_id is not None:
            self._process(env_id)

    def end_episode(self) -> None:
        """Ends all open episodes without counting them."""
        for env_id in self._builders:
            self._process(env_id)
        self._learner.cut()
        self._begun.clear()

    def is_ready_update(self) -> bool:
        """True when `buffer_size` agent steps wait, and `max_steps` are not counted yet."""
        return self._behavior.progress(is_training=self._training).is_ready_update

    def update_policy(self) -> None:
        """Learns from what was processed. Raises UsageError when nothing is learned, LearnerError as the learner."""
        if not self._training:
            raise UsageError("update_policy() of a trainer with training=False; expected one that trains.")
        job = self._learner.begin_update(self._behavior.name)
        self._learner.finish_update(job())

    def write_summary(self, global_step: int, delta_train_start: float, lesson_num: int = 0) -> None:
        """Writes the summaries that became due at multiples of `summary_freq` of the steps counted.

        global_step and delta_train_start go beside them as `Environment/Global Step` and `Environment/Time Elapsed`,
        which is in seconds. Raises UsageError for a trainer without a writer.
        """
        if self._writer is None:
            raise UsageError("write_summary() of a trainer without a writer; expected a writer when it was made.")
        beside = {
            LESSON_TAG: float(lesson_num),
            "Environment/Global Step": float(global_step),
            "Environment/Time Elapsed": delta_train_start,
        }
        for summary in self._learner.take_summaries():
            self._writer.add(summary.step, {**summary.values, **beside}, now_s=time.time())

    @property
    def _behavior(self) -> Behavior:
        return self._learner.behavior(self._brain.behavior_name)

    def _own(self, infos: AllBrainInfo) -> dict[str, BrainInfo]:
        return {wire: info for wire, info in infos.items() if wire.partition("?")[0] == self._brain.behavior_name}

    def _begin(self, env_id: EnvId, infos: AllBrainInfo) -> None:
        self._resets += 1
        self._builders[env_id].record_reset(infos, reset_id=self._resets)
        self._begun.add(env_id)
        self._process(env_id)

    def _process(self, env_id: EnvId) -> None:
        builder = self._builders.get(env_id)
        block = builder.take() if builder is not None else None
        if block is not None:
            self._accept(block)

    def _accept(self, block: StepBlock) -> None:
        for wire in block.brains:
            self._learner.add_brain(replace(self._brain, brain_name=BrainName(wire)))
        behavior = self._behavior
        counted = behavior.steps
        self._learner.accept(block)
        behavior.steps = counted  # Steps are the caller's to count.

    def _act(self, info: BrainInfo, action: ActionInfo | None, wire: str) -> _Act:
        wanted, outputs = len(info.decisions), {} if action is None else action.outputs or {}
        if action is None or "pre_action" not in outputs or "policy_version" not in outputs:
            raise UsageError(
                f"brain {wire!r} acted by a policy that is not this trainer's; expected outputs pre_action and "
                "policy_version. Act with trainer.policy, or publish PolicyUpdate.from_policy(brain, trainer.policy)."
            )
        chosen = Actions.from_action_info(action, self._brain.action_spec).discrete
        raw = np.asarray(outputs["pre_action"], np.float32)
        if len(chosen) != wanted or len(raw) != wanted:
            raise UsageError(f"brain {wire!r}: {len(chosen)} actions for {wanted} agents; expected one for each.")
        version = int(outputs["policy_version"][0])
        if not 1 <= version <= self._policy.version:
            raise UsageError(
                f"brain {wire!r} acted with version {version}, and this trainer's policy is at {self._policy.version}; "
                "expected one that it made. Give each ActorEnvManager the policies of one trainer per brain."
            )
        before, starts = outputs.get("memory_before"), outputs.get("sequence_starts")
        return _Act(
            agents=info.decisions.agents,
            version=version - 1,
            continuous_raw=raw,
            discrete=chosen,
            memory_before=before,
            sequence_starts=None if starts is None else np.asarray(starts, np.float32) > 0,
        )


def _env_of(infos: Mapping[str, BrainInfo]) -> EnvId | None:
    return next((info.worker_id for info in infos.values()), None)
