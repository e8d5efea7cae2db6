"""Updates of networks that see: every encoder learns from the ratio 1 on, with a memory too."""

import numpy as np
import pytest

from runtime.experience.brains import ObservationSpec
from runtime.learner import MemorySettings
from tests.support.experience_streams import Feeder, random_life, small_brain, small_learner, small_settings
from tests.support.replicas import ReplicaLoop
from trainers.behavior import Outcome
from trainers.encoders import ENCODERS
from trainers.learner import PPOLearner

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", sorted(ENCODERS))
def test_every_encoder_learns_from_ratio_one(kind: str) -> None:
    side = ENCODERS[kind].side_min
    eyes = [ObservationSpec((3, side, side + number), name=f"eye {number}", dtype="uint8") for number in range(2)]
    brain = small_brain(sights=eyes)
    learner = small_learner(small_settings(vis_encode_type=kind, shared_critic=True), brains=[brain])
    assert isinstance(learner, PPOLearner)
    feeder = Feeder(learner, brain)
    for _ in range(2):
        before = learner._behaviors["Walker"].weights.flat
        first, rest = random_life(brain, seed=9, agents=5, steps=10)
        feeder.reset(*first.rows)
        feeder.steps(*rest)
        outcome = learner.begin_update("Walker")()
        assert isinstance(outcome, Outcome)
        feeder.version = learner.finish_update(outcome).version
        assert outcome.statistics["first_ratio_error"] < 1e-5
        assert np.abs(outcome.weights.flat - before).max() > 1e-6


def test_a_network_that_sees_and_remembers_learns_from_ratio_one() -> None:
    memory = MemorySettings(memory_size=8, sequence_length=8)
    settings = small_settings(memory=memory, buffer_size=64, batch_size=32, hidden_units=8)
    loop = ReplicaLoop("gridworld", settings, agents=4)
    for cuts in ((), (3, 9)):
        loop.play(20, cuts=cuts)
        outcome = loop.update()
        assert outcome.statistics["first_ratio_error"] < 1e-5
