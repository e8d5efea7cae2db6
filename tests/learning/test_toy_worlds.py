"""Small worlds with a known answer, learned in one process."""

import numpy as np
import onnxruntime
import pytest

from fakeunity.rows import Actions
from fakeunity.scenes.catalogue import open_world
from runtime.learner import BehaviorSettings, NetworkSettings, PPOHyperparameters, RewardSignalSettings
from tests.support.training import TrainingLoop

pytestmark = [pytest.mark.learning, pytest.mark.slow]


def settings(
    hyperparameters: PPOHyperparameters,
    *,
    max_steps: int,
    gamma: float = 0.99,
    normalize: bool = False,
    time_horizon: int = 64,
) -> BehaviorSettings:
    return BehaviorSettings(
        hyperparameters=hyperparameters,
        network_settings=NetworkSettings(normalize=normalize, hidden_units=64, num_layers=2),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
        max_steps=max_steps,
        time_horizon=time_horizon,
    )


BASIC = PPOHyperparameters(batch_size=64, buffer_size=512, learning_rate=1e-3, beta=1e-2, num_epoch=8)
BALANCE = PPOHyperparameters(batch_size=256, buffer_size=2048, learning_rate=1e-3, beta=1e-3, num_epoch=6)
CONSTANT = PPOHyperparameters(
    batch_size=64,
    buffer_size=256,
    learning_rate=1e-3,
    learning_rate_schedule="constant",
    epsilon_schedule="constant",
    num_epoch=4,
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("envs", "agents"), [(1, 1), (2, 4)])
def test_basic_is_learned_by_every_seed(seed: int, envs: int, agents: int) -> None:
    loop = TrainingLoop("basic", settings(BASIC, max_steps=10_000), seed=seed, envs=envs, agents=agents)
    mean_reward = loop.train(10_000).mean_reward
    assert mean_reward is not None
    assert mean_reward >= 0.9


@pytest.mark.parametrize(("output", "least"), [("discrete_actions", 0.9), ("deterministic_discrete_actions", 0.92)])
def test_the_exported_model_earns_what_training_earned(output: str, least: float) -> None:
    loop = TrainingLoop("basic", settings(BASIC, max_steps=10_000), seed=5)
    mean_reward = loop.train(10_000).mean_reward
    assert mean_reward is not None
    session = onnxruntime.InferenceSession(loop.learner.unity_model("Basic"), providers=["CPUExecutionProvider"])
    world = open_world("basic", agents=1, handshake_seed=1, url_seed=0)
    rows, total, episodes = world.reset()["Basic"], 0.0, 0
    while episodes < 100:
        seen = rows.observations[0][~rows.done]
        (action,) = session.run([output], {"obs_0": seen, "action_masks": np.ones((1, 3), np.float32)})
        rows = world.step({"Basic": Actions(np.zeros((1, 0), np.float32), action)})["Basic"]
        total += float(rows.rewards.sum())
        episodes += int(rows.done.sum())
    assert total / 100 >= least
    assert total / 100 == pytest.approx(mean_reward, abs=0.03)


def test_basic_is_not_learned_without_a_learning_rate() -> None:
    frozen = PPOHyperparameters(batch_size=64, buffer_size=512, learning_rate=1e-10, beta=1e-2, num_epoch=8)
    mean_reward = TrainingLoop("basic", settings(frozen, max_steps=10_000)).train(10_000).mean_reward
    assert mean_reward is not None
    assert mean_reward < 0.5


@pytest.mark.parametrize("seed", range(2))
def test_balance_is_learned(seed: int) -> None:
    chosen = settings(BALANCE, max_steps=120_000, normalize=True, time_horizon=128)
    length = TrainingLoop("balance", chosen, seed=seed, envs=2, agents=8).train(120_000).mean_episode_length
    assert length is not None
    assert length >= 450


def test_under_a_time_limit_only_the_value_is_that_of_an_endless_reward() -> None:
    loop = TrainingLoop("constant", settings(CONSTANT, max_steps=25_000, gamma=0.9), agents=4)
    loop.train(25_000)
    value = loop.actors["Constant"].outputs((np.ones((1, 1), np.float32),))["value"]
    assert value[0, 0] == pytest.approx(1.0 / (1.0 - 0.9), abs=0.5)


@pytest.mark.parametrize(("scene", "steps", "least"), [("hybrid", 60_000, 1.6), ("masked", 40_000, 0.9)])
def test_hybrid_actions_and_masks_are_learned(scene: str, steps: int, least: float) -> None:
    chosen = PPOHyperparameters(batch_size=128, buffer_size=1024, learning_rate=1e-3, num_epoch=6)
    mean_reward = TrainingLoop(scene, settings(chosen, max_steps=steps, gamma=0.95), agents=8).train(steps).mean_reward
    assert mean_reward is not None
    assert mean_reward >= least
