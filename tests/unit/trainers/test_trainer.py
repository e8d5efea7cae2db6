"""The trainer of 2019: steps that the caller counts, experience from StepInfos, updates, summaries and saved models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import PlayerContentError, StorageError, UsageError
from runtime.experience.actions import ActionInfo
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import (
    Bools,
    BrainInfo,
    DecisionRows,
    EnvId,
    Floats,
    Ids,
    Incarnation,
    Ints,
    TerminalRows,
)
from runtime.experience.steps import StepInfo
from runtime.learner import BehaviorSettings, MemorySettings
from runtime.messages import PolicyUpdate
from tests.support.experience_streams import small_brain, small_learner, small_settings
from trainers.tf_policy import STEPS_MAX
from trainers.trainer import PPOTrainer

BRAIN = small_brain()
NAME = BRAIN.brain_name
AGENTS = 4
BUFFER = 64


@dataclass(frozen=True, slots=True)
class Act:
    """What a block wants of an act."""

    agents: Ids
    version: int
    continuous_raw: Floats
    discrete: Ints
    memory_before: Floats | None = None
    sequence_starts: Bools | None = None


@dataclass(slots=True)
class Written:
    """A writer that keeps what it is given."""

    events: list[tuple[int, Mapping[str, float]]]

    def add(self, step: int, values: Mapping[str, float], *, now_s: float) -> None:
        assert now_s > 0
        self.events.append((step, values))


def settings() -> BehaviorSettings:
    plain = small_settings()
    hyper = replace(plain.hyperparameters, batch_size=16, buffer_size=BUFFER, num_epoch=2)
    return replace(plain, hyperparameters=hyper, max_steps=10_000, summary_freq=10, time_horizon=8)


def info_of(moment: int, env: int = 0, *, ended: int = 0) -> BrainInfo:
    """The agents' rows at one moment; of `ended` agents the episode ends there, and they ask anew."""
    rng = np.random.default_rng(100 * env + moment)

    def seen(rows: int) -> tuple[Floats, ...]:
        return tuple(rng.standard_normal((rows, *spec.shape)).astype(np.float32) for spec in BRAIN.observation_specs)

    def decided(rows: int) -> tuple[Ids, Floats]:
        return np.arange(rows, dtype=np.int64), rng.standard_normal(rows).astype(np.float32)

    agents, rewards = decided(AGENTS)
    gone, last = decided(ended)
    none, zeros = np.zeros(AGENTS, np.int32), np.zeros(AGENTS, np.float32)
    return BrainInfo(
        DecisionRows(agents, seen(AGENTS), rewards, None, none, zeros),
        TerminalRows(gone, seen(ended), last, np.zeros(ended, np.bool_), none[:ended], zeros[:ended]),
        worker_id=EnvId(env),
    )


def steps_of(trainer: PPOTrainer, count: int, env: int = 0) -> list[StepInfo]:
    """A reset and `count` steps, acted by the trainer's policy of now."""
    infos = [info_of(moment, env, ended=int(moment % 5 == 4)) for moment in range(count + 1)]
    found = [StepInfo(None, {NAME: infos[0]}, None)]
    for before, after in pairwise(infos):
        found.append(StepInfo({NAME: before}, {NAME: after}, {NAME: trainer.policy.get_action(before)}))
    return found


def feed(trainer: PPOTrainer, steps: list[StepInfo]) -> None:
    for step in steps:
        trainer.add_experiences(step)
        trainer.process_experiences(step)


def test_steps_are_counted_by_the_policy_and_by_nothing_else() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    feed(trainer, steps_of(trainer, 3))
    assert trainer.get_step == 0
    trainer.increment_step(5)
    assert trainer.policy.get_current_step() == trainer.get_step == 5
    assert trainer.policy.increment_step(2) == 7
    assert (trainer.get_step, trainer.get_max_steps) == (7, 10_000)
    assert trainer.parameters["max_steps"] == 10_000


def test_steps_go_beyond_32_bits_and_not_beyond_64() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    trainer.increment_step(2**31 - 1)
    trainer.increment_step(5)
    assert trainer.get_step == 2**31 + 4
    trainer.increment_step(STEPS_MAX - trainer.get_step)
    with pytest.raises(UsageError, match="64 bits"):
        trainer.increment_step(1)
    assert trainer.get_step == STEPS_MAX


def test_steps_are_never_taken_back_nor_halved() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    with pytest.raises(UsageError, match="never taken back"):
        trainer.increment_step(-1)
    with pytest.raises(TypeError):
        trainer.increment_step(0.5)  # type: ignore[arg-type] # that is the point
    assert trainer.get_step == 0


def test_an_update_is_due_when_the_buffer_is_full_and_changes_the_policy() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    steps = steps_of(trainer, BUFFER // AGENTS)
    feed(trainer, steps[:-1])
    assert not trainer.is_ready_update()
    trainer.add_experiences(steps[-1])
    assert not trainer.is_ready_update()
    trainer.process_experiences(steps[-1])
    assert trainer.is_ready_update()
    before, policy = trainer.policy.acting_model(), trainer.policy
    trainer.update_policy()
    assert trainer.policy is policy
    assert policy.acting_model() != before
    assert policy.version == 2
    assert not trainer.is_ready_update()


def test_nothing_is_learned_beyond_max_steps() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    feed(trainer, steps_of(trainer, BUFFER // AGENTS))
    trainer.increment_step(trainer.get_max_steps)
    assert not trainer.is_ready_update()


def test_experience_teaches_what_it_teaches_the_learner_to_the_bit() -> None:
    trainer = PPOTrainer(BRAIN, settings(), seed=3)
    learner = small_learner(settings(), seed=3, brains=[BRAIN])
    for env in (0, 1):
        steps = steps_of(trainer, 10, env)
        feed(trainer, steps)
        builder = BlockBuilder(EnvId(env), Incarnation(0))
        builder.add_brains([BRAIN])
        builder.record_reset(steps[0].current_all_brain_info, reset_id=1)
        for number, step in enumerate(steps):
            if step.previous_all_brain_info is not None and step.brain_name_to_action_info is not None:
                action = step.brain_name_to_action_info[NAME]
                assert action.outputs is not None
                width = BRAIN.action_spec.continuous_size
                act = Act(
                    step.previous_all_brain_info[NAME].decisions.agents,
                    0,
                    action.outputs["pre_action"],
                    np.rint(action.action[:, width:]).astype(np.int32),
                )
                builder.record_step({NAME: act}, step.current_all_brain_info)
            if number in (0, 6, 10) and (block := builder.take()) is not None:
                learner.accept(block)
    name = BRAIN.behavior_name
    trainer.increment_step(learner.progress()[name].steps)
    assert trainer.is_ready_update()
    assert learner.progress()[name].is_ready_update
    trainer.update_policy()
    release = learner.finish_update(learner.begin_update(name)())
    assert trainer.policy.acting_model() == release.body


@pytest.mark.parametrize(("is_ended", "length"), [(False, 4), (True, 1)])
def test_an_end_of_all_episodes_lets_what_follows_begin_anew(length: int, *, is_ended: bool) -> None:
    written = Written([])
    trainer = PPOTrainer(BRAIN, settings(), writer=written)
    steps = steps_of(trainer, 4)
    feed(trainer, steps[:4])
    if is_ended:
        trainer.end_episode()
    feed(trainer, steps[4:])
    trainer.increment_step(10)
    trainer.write_summary(10, 1.0)
    assert written.events[0][1]["Environment/Episode Length"] == length


def test_summaries_are_written_once_for_each_multiple_with_the_lesson() -> None:
    written = Written([])
    trainer = PPOTrainer(BRAIN, settings(), writer=written)
    feed(trainer, steps_of(trainer, 12))
    trainer.increment_step(9)
    trainer.write_summary(9, 0.5)
    assert written.events == []
    trainer.increment_step(3)
    trainer.write_summary(12, 1.5, lesson_num=2)
    trainer.write_summary(12, 1.5, lesson_num=2)
    assert [step for step, _ in written.events] == [10]
    values = written.events[0][1]
    assert values["Environment/Lesson"] == 2
    assert values["Environment/Time Elapsed"] == 1.5
    assert "Environment/Cumulative Reward" in values


def test_a_saved_trainer_goes_on_where_it_was(tmp_path: Path) -> None:
    trainer = PPOTrainer(BRAIN, settings(), model_path=tmp_path / "Walker")
    feed(trainer, steps_of(trainer, BUFFER // AGENTS))
    trainer.update_policy()
    trainer.increment_step(2**31)
    trainer.policy.save_model(trainer.get_step)
    assert trainer.policy.export_model().read_bytes() == trainer.policy.unity_model()
    again = PPOTrainer(BRAIN, settings(), model_path=tmp_path / "Walker", load=True)
    assert again.get_step == 2**31
    assert again.policy.acting_model() == trainer.policy.acting_model()
    with pytest.raises(StorageError, match="nothing to load"):
        PPOTrainer(BRAIN, settings(), model_path=tmp_path / "Other", load=True)


def test_a_policy_is_sent_as_its_graph_with_a_version_from_1() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    update = PolicyUpdate.from_policy(NAME, trainer.policy)
    assert (update.kind, update.version, update.behavior) == ("onnx", 1, BRAIN.behavior_name)
    assert update.body == trainer.policy.acting_model()


def test_misuse_is_refused_with_what_to_do() -> None:
    trainer = PPOTrainer(BRAIN, settings(), training=False)
    with pytest.raises(UsageError, match="training=False"):
        trainer.update_policy()
    with pytest.raises(UsageError, match="without a writer"):
        trainer.write_summary(1, 1.0)
    with pytest.raises(UsageError, match="no place to be saved"):
        trainer.policy.save_model(1)
    with pytest.raises(UsageError, match="without a model_path"):
        PPOTrainer(BRAIN, settings(), load=True)
    with pytest.raises(UsageError, match="expected 'ppo'"):
        PPOTrainer(BRAIN, replace(settings(), trainer_type="offline_bc"))


@pytest.mark.parametrize(
    ("hyper", "memory", "told"),
    [
        ({}, (7, 8), "network_settings.memory.memory_size: 7 is not allowed; allowed: a multiple of 2 from 2 to 65536"),
        ({}, (0, 8), "network_settings.memory.memory_size: 0 is not allowed; allowed: a multiple of 2 from 2 to 65536"),
        ({}, (8, 0), "memory.sequence_length: 0 is not allowed; allowed: an integer of at least 1"),
        ({}, (8, 17), "sequence_length 17 is larger than batch_size 16: no batch holds a sequence"),
        ({"batch_size": 65}, None, "buffer_size 64 is smaller than batch_size 65: no batch fills"),
        ({"batch_size": 0}, None, "hyperparameters.batch_size: 0 is not allowed; allowed: an integer of at least 1"),
        ({"batch_size": 12.7}, None, "hyperparameters.batch_size: 12.7 is not allowed"),
        ({"num_epoch": 0}, None, "hyperparameters.num_epoch: 0 is not allowed"),
        ({"learning_rate": -1.0}, None, "learning_rate: -1.0 is not allowed; allowed: a finite number above 0"),
        ({"lambd": float("nan")}, None, "hyperparameters.lambd: nan is not allowed"),
    ],
)
def test_c23_c37_settings_made_in_code_are_refused_as_those_of_a_file(
    hyper: Mapping[str, object], memory: tuple[int, int] | None, told: str
) -> None:
    plain = settings()
    remembers = None if memory is None else MemorySettings(memory_size=memory[0], sequence_length=memory[1])
    wrong = replace(
        plain,
        hyperparameters=replace(plain.hyperparameters, **hyper),  # type: ignore[arg-type] # that is the point
        network_settings=replace(plain.network_settings, memory=remembers),
    )
    with pytest.raises(UsageError) as caught:
        PPOTrainer(BRAIN, wrong)
    assert told in str(caught.value)


def test_actions_of_somebody_else_are_refused_and_nothing_of_them_is_kept() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    step = steps_of(trainer, 1)[1]
    assert step.brain_name_to_action_info is not None
    action = step.brain_name_to_action_info[NAME]
    foreign = {**(action.outputs or {}), "policy_version": np.full(AGENTS, 9, np.float32)}
    for wrong, text in (
        (ActionInfo(action.action), "not this trainer's"),
        (action._replace(outputs=foreign), "version 9"),
        (action._replace(action=action.action[:2]), "2 actions for 4 agents"),
    ):
        with pytest.raises(UsageError, match=text):
            trainer.add_experiences(step._replace(brain_name_to_action_info={NAME: wrong}))
    feed(trainer, [step])


def test_an_observation_that_is_not_finite_is_refused_by_name() -> None:
    trainer = PPOTrainer(BRAIN, settings())
    info = info_of(0)
    info.decisions.observations[0][1, 0] = np.nan
    with pytest.raises(PlayerContentError, match=r"agent '\$0-1': observation 0 is not finite"):
        trainer.policy.get_action(info)
    with pytest.raises(PlayerContentError, match="observation 0"):
        trainer.add_experiences(StepInfo(None, {NAME: info}, None))
