"""A behavior that learns from a brain which the player plays: what it keeps, refuses, forgets and saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import PlayerContentError, UsageError
from runtime.experience.brains import BrainName, BrainParameters, EnvId, Incarnation
from runtime.experience.columns import StepBlock, WatchedColumns
from runtime.learner import (
    BehaviorSettings,
    CloningSettings,
    Learner,
    LearnerOptions,
    NetworkSettings,
    PPOHyperparameters,
)
from tests.support.experience_streams import observation_rows, small_brain, updated
from trainers.bc.online import WatchingBehavior
from trainers.learner import PPOLearner, create_learner

BRAIN = small_brain()
SETTINGS = BehaviorSettings(
    trainer_type="online_bc",
    hyperparameters=PPOHyperparameters(
        batch_size=16, buffer_size=40, learning_rate=1e-2, learning_rate_schedule="constant", shared_critic=True
    ),
    network_settings=NetworkSettings(hidden_units=16, num_layers=1, normalize=True),
    behavioral_cloning=CloningSettings(brain_to_imitate="Teacher", batches_per_epoch=5),
    time_horizon=20,
    max_steps=1000,
    summary_freq=100,
    counts_env_steps=True,
)


def learner_of(brain: BrainParameters = BRAIN, *, is_training: bool = True) -> Learner:
    learner = create_learner(LearnerOptions(run_seed=0, settings_for=lambda _: SETTINGS, is_training=is_training))
    learner.add_brain(brain)
    return learner


def behavior_of(learner: Learner) -> WatchingBehavior:
    assert isinstance(learner, PPOLearner)
    behavior = learner._behaviors["Walker"]
    assert isinstance(behavior, WatchingBehavior)
    return behavior


def shown(count: int = 20, *, brain: BrainParameters = BRAIN, seed: int = 0, forgets: bool = False) -> WatchedColumns:
    """What a teacher did: index 1 where x > 0, half of x as its first continuous action."""
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, count).astype(np.float32)
    spec = brain.action_spec
    actions = np.zeros((count, spec.continuous_size + spec.discrete_size), np.float32)
    actions[:, 0] = x / 2
    actions[:, spec.continuous_size :] = (x > 0)[:, None]
    return WatchedColumns(
        brain=replace(brain, brain_name=BrainName("Teacher")),
        agents=np.ones(count, np.int64),
        observations=tuple(observation_rows(each, x, index) for index, each in enumerate(brain.observation_specs)),
        masks=None,
        actions=actions,
        begins=np.arange(count) == 0,
        forgets=forgets,
    )


def watch(learner: Learner, columns: WatchedColumns, *, first: int, steps: int = 20, name: str = "Teacher") -> None:
    learner.accept(
        StepBlock(
            env_id=EnvId(0),
            incarnation=Incarnation(0),
            reset_id=1,
            first_step=first,
            steps=steps,
            versions={},
            decisions=0,
            agent_steps=0,
            pending={},
            brains={},
            watched={name: columns},
        )
    )


def test_the_student_learns_what_the_teacher_does() -> None:
    learner = learner_of()
    behavior = behavior_of(learner)
    behavior.since_update = 100
    assert not learner.progress()["Walker"].is_ready_update  # there is nothing to learn from
    losses = []
    for number in range(12):
        watch(learner, shown(seed=number), first=20 * number)
        assert learner.progress()["Walker"].is_ready_update == (number == 0)
        losses.append(updated(learner).statistics["cloning_loss"])
    assert losses[-1] < 0.7 * losses[0]
    assert learner.progress()["Walker"].steps == 240
    assert behavior.normalizer.count == 240
    assert sum(map(len, behavior._parts)) == 40


def test_old_samples_go_and_a_teacher_may_have_all_forgotten() -> None:
    learner = learner_of()
    behavior = behavior_of(learner)
    for number in range(4):
        watch(learner, shown(15, seed=number), first=20 * number)
    assert [len(part) for part in behavior._parts] == [15, 15, 15]  # without the oldest one they would be too few
    watch(learner, shown(5, seed=9, forgets=True), first=80)
    assert [len(part) for part in behavior._parts] == [5]
    watch(learner, shown(0, forgets=True), first=100)
    assert not behavior.has_samples


def test_another_brain_and_inference_teach_nothing() -> None:
    learner = learner_of()
    watch(learner, shown(), first=0, name="Somebody")
    assert not behavior_of(learner).has_samples
    idle = learner_of(is_training=False)
    watch(idle, shown(), first=0)
    assert not behavior_of(idle).has_samples


def test_a_teacher_of_another_kind_is_refused_with_every_difference() -> None:
    learner = learner_of()
    other = small_brain(observations=(4, 2), branches=(3, 5))
    with pytest.raises(UsageError, match=r"'Walker' cannot imitate 'Teacher', which has observation 0 .*; branches of"):
        watch(learner, shown(brain=other), first=0)


@pytest.mark.parametrize("value", [7.0, -1.0, float("nan")])
def test_an_action_that_cannot_be_is_refused(value: float) -> None:
    learner, columns = learner_of(), shown()
    columns.actions[3, 2] = value
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(PlayerContentError, match="'Teacher', which 'Walker' is to imitate, showed an action"),
    ):
        watch(learner, columns, first=0)


def test_what_was_watched_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    learner = learner_of()
    watch(learner, shown(seed=1), first=0)
    updated(learner)
    watch(learner, shown(25, seed=2), first=20)
    learner.cut(None)
    learner.begin_save({})(tmp_path / "1")
    again = create_learner(LearnerOptions(run_seed=9, settings_for=lambda _: SETTINGS))
    again.load([tmp_path / "1"])
    again.add_brain(BRAIN)
    assert again.progress() == learner.progress()
    results = []
    for each in (learner, again):
        columns = shown(10, seed=3)
        behavior_of(each).watch({"Teacher": columns})
        outcome = updated(each)
        results.append((outcome, behavior_of(each).normalizer, [len(part) for part in behavior_of(each)._parts]))
    (ours, known, sizes), (theirs, known_again, sizes_again) = results
    assert np.array_equal(ours.weights.flat, theirs.weights.flat)
    assert np.array_equal(known.m2, known_again.m2)
    assert (known.count, sizes) == (known_again.count, sizes_again) == (55, [20, 25, 10])
