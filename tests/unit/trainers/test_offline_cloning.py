"""A behavior that learns from demonstrations alone: when updates are due, what they change, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import (
    BehaviorSettings,
    CloningSettings,
    Learner,
    LearnerOptions,
    NetworkSettings,
    PPOHyperparameters,
)
from tests.support.demonstrations import demonstration_of, reads
from tests.support.experience_streams import Feeder, random_life, small_brain, updated
from trainers.bc.behavior import LOG_STD_AT_FIRST, CloningBehavior
from trainers.learner import PPOLearner, create_learner
from trainers.networks import named_weights

BRAIN = small_brain()


def settings_of(**fields: object) -> BehaviorSettings:
    chosen: dict[str, object] = {
        "trainer_type": "offline_bc",
        "hyperparameters": PPOHyperparameters(
            batch_size=16, buffer_size=16, learning_rate=1e-2, learning_rate_schedule="constant", shared_critic=True
        ),
        "network_settings": NetworkSettings(hidden_units=16, num_layers=1),
        "behavioral_cloning": CloningSettings(demo_path="x.demo", batches_per_epoch=5),
        "time_horizon": 20,
        "max_steps": 1000,
        "summary_freq": 100,
        **fields,
    }
    return BehaviorSettings(**chosen)  # type: ignore[arg-type]  # names and types are the caller's


def learner_of(settings: BehaviorSettings | None = None, brain: BrainParameters = BRAIN, *, seed: int = 0) -> Learner:
    chosen = settings or settings_of()
    options = LearnerOptions(
        run_seed=seed, settings_for=lambda _: chosen, demonstrations=reads(demonstration_of(brain))
    )
    learner = create_learner(options)
    learner.add_brain(brain)
    return learner


def behavior_of(learner: Learner) -> CloningBehavior:
    assert isinstance(learner, PPOLearner)
    behavior = learner._behaviors["Walker"]
    assert isinstance(behavior, CloningBehavior)
    return behavior


def lives(learner: Learner, *, env_id: int = 0, version: int = 0, brain: BrainParameters = BRAIN) -> None:
    """Three agents act for 15 steps."""
    feeder = Feeder(learner, brain, env_id=env_id, version=version)
    first, rest = random_life(brain, seed=1, agents=3, steps=15)
    feeder.reset(*first.rows)
    feeder.steps(*rest)


def test_an_update_is_due_after_each_time_horizon_of_agent_steps() -> None:
    learner = learner_of()
    lives(learner)
    progress = learner.progress()["Walker"]
    assert progress.steps > 20
    assert (progress.buffered, progress.buffer_size, progress.is_ready_update) == (progress.steps, 20, True)
    assert len(behavior_of(learner).buffer) == 0
    updated(learner)
    after = learner.progress()["Walker"]
    assert (after.steps, after.buffered, after.is_ready_update, after.version) == (progress.steps, 0, False, 1)


def test_updates_bring_the_policy_closer_to_what_was_shown() -> None:
    learner = learner_of()
    losses = [updated(learner).statistics["cloning_loss"] for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
    tags = behavior_of(learner).summaries.updates[-1]
    assert list(tags) == ["Losses/Cloning Loss"]


def test_the_first_deviation_is_small_and_observations_are_known() -> None:
    network = NetworkSettings(hidden_units=16, num_layers=1, normalize=True)
    behavior = behavior_of(learner_of(settings_of(network_settings=network)))
    assert (named_weights(behavior.shape, behavior.weights.flat)["log_std"] == LOG_STD_AT_FIRST).all()
    assert behavior.normalizer.count == 36
    assert np.array_equal(behavior.snapshots[-1].flat, behavior.weights.flat)


def test_it_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    learner = learner_of()
    lives(learner)
    updated(learner)
    lives(learner, env_id=1, version=1)
    learner.cut(None)
    learner.begin_save({})(tmp_path / "1")
    chosen = settings_of()
    again = create_learner(
        LearnerOptions(run_seed=9, settings_for=lambda _: chosen, demonstrations=reads(demonstration_of(BRAIN)))
    )
    again.load([tmp_path / "1"])
    again.add_brain(BRAIN)
    assert again.progress() == learner.progress()
    ours, theirs = updated(learner), updated(again)
    assert np.array_equal(ours.weights.flat, theirs.weights.flat)
    assert np.array_equal(ours.weights.second, theirs.weights.second)
    assert ours.weights.steps == theirs.weights.steps == 10


def test_a_behavior_without_a_path_is_refused_when_it_is_announced() -> None:
    with pytest.raises(UsageError, match="'Walker': offline_bc needs a demo_path under behavioral_cloning"):
        learner_of(settings_of(behavioral_cloning=CloningSettings()))


def test_the_schedules_of_ppo_are_not_shown() -> None:
    learner = learner_of()
    for env_id in range(3):
        lives(learner, env_id=env_id)
    summary = learner.take_summaries()[0]
    assert "Policy/Learning Rate" in summary.values
    assert "Policy/Epsilon" not in summary.values
