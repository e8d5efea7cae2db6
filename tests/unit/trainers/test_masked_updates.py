"""Updates from a policy that is certain of actions which it may not take: nothing becomes NaN."""

from dataclasses import replace

import numpy as np
import pytest

from runtime.acting.acted import Basis
from tests.support.experience_streams import small_settings
from tests.support.replicas import ReplicaLoop
from trainers.learner import PPOLearner
from trainers.networks import named_weights


@pytest.mark.parametrize("certainty", [1e4, 1e30])
def test_c36_a_policy_that_is_certain_of_masked_keys_learns_from_the_free_ones_and_stays_finite(
    certainty: float,
) -> None:
    loop = ReplicaLoop("masked", small_settings(), agents=4)
    assert isinstance(loop.learner, PPOLearner)
    behavior = loop.learner._behaviors["Masked"]
    flat = behavior.weights.flat.copy()
    bias = named_weights(behavior.shape, flat)["logits.bias"]
    bias += np.linspace(-certainty, certainty, len(bias), dtype=np.float32)
    behavior.weights, behavior.version = replace(behavior.weights, flat=flat), 1
    behavior.snapshots = [behavior._snapshot()]
    loop.install(behavior.release())

    loop.play(20)
    for _, acted in loop.acts:
        assert isinstance(acted.origin, Basis)
        masks = acted.origin.masks
        assert masks is not None
        keys, others = acted.discrete[:, 0], acted.discrete[:, 1]
        assert masks[np.arange(len(keys)), keys].all()
        assert masks[np.arange(len(others)), 210 + others].all()
        outputs = acted.action_info.outputs
        assert outputs is not None
        assert np.isfinite(outputs["log_probs"]).all()
    outcome = loop.update()
    assert np.isfinite(list(outcome.statistics.values())).all()
    assert np.isfinite(outcome.weights.flat).all()
