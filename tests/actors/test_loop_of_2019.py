"""The loop of 2019 over ActorEnvManager: its trainer learns, counts what was returned, and acts as EnvWorkers do."""

from dataclasses import replace

import numpy as np
import pytest

from runtime.actors.env_manager import ActorEnvManager
from runtime.errors import UsageError
from runtime.experience.actions import ActionInfo
from runtime.experience.brains import BrainInfo
from runtime.learner import BehaviorSettings, MemorySettings, NetworkSettings, PPOHyperparameters
from runtime.messages import PolicyUpdate
from runtime.players.factories import MemoryPlayerFactory
from tests.support.object_envs import Always
from trainers.ppo.engine import load_tensorflow
from trainers.trainer import PPOTrainer

load_tensorflow()

UPDATES = 3
PLAYERS = MemoryPlayerFactory(target="fake:basic?link=memory&agents=4")


def settings(memory: MemorySettings | None = None, *, deterministic: bool = False) -> BehaviorSettings:
    return BehaviorSettings(
        hyperparameters=PPOHyperparameters(batch_size=16, buffer_size=64, num_epoch=1),
        network_settings=NetworkSettings(hidden_units=8, num_layers=1, memory=memory, deterministic=deterministic),
        max_steps=1000,
        time_horizon=16,
    )


@pytest.mark.parametrize("memory", [None, MemorySettings(memory_size=8, sequence_length=8)], ids=["plain", "memory"])
def test_the_loop_of_2019_trains_basic_and_counts_the_steps_returned(memory: MemorySettings | None) -> None:
    with ActorEnvManager(PLAYERS, 2, actor_system="inline") as env:
        env.reset()
        trainers = {name: PPOTrainer(brain, settings(memory)) for name, brain in env.external_brains.items()}
        models = [trainer.policy.acting_model() for trainer in trainers.values()]
        for name, trainer in trainers.items():
            env.publish(PolicyUpdate.from_policy(name, trainer.policy))
        returned, updates = 0, 0
        while updates < UPDATES and returned < 400:
            infos = env.step()
            returned += len(infos)
            for name, trainer in trainers.items():
                for info in infos:
                    trainer.add_experiences(info)
                    trainer.process_experiences(info)
                trainer.increment_step(len(infos))
                if trainer.is_ready_update():
                    trainer.update_policy()
                    updates += 1
                    models.append(trainer.policy.acting_model())
                    assert env.publish(PolicyUpdate.from_policy(name, trainer.policy)) == trainer.policy.version
        assert list(trainers) == ["Basic"]
        assert trainers["Basic"].get_step == returned
        assert len(set(models)) == UPDATES + 1 == trainers["Basic"].policy.version


@pytest.mark.parametrize("memory", [None, MemorySettings(memory_size=8, sequence_length=8)], ids=["plain", "memory"])
def test_the_policy_here_answers_as_its_graph_does_in_an_env_worker(memory: MemorySettings | None) -> None:
    with ActorEnvManager(PLAYERS, 1, actor_system="inline") as env:
        env.reset()
        policy = PPOTrainer(env.external_brains["Basic"], settings(memory, deterministic=True)).policy
        env.publish(PolicyUpdate.from_policy("Basic", policy))
        alike = 0
        for _ in range(5):
            (info,) = env.step()
            there, seen = asked(info.brain_name_to_action_info), asked(info.previous_all_brain_info)
            assert isinstance(there, ActionInfo)
            assert isinstance(seen, BrainInfo)
            assert there.outputs is not None
            if memory is not None:
                seen = replace(seen, memories=there.outputs["memory_before"])
            here = policy.get_action(seen)
            assert here.outputs is not None
            assert set(there.outputs) <= set(here.outputs)
            np.testing.assert_array_equal(here.outputs["policy_version"], there.outputs["policy_version"])
            np.testing.assert_allclose(here.outputs["value"], there.outputs["value"], atol=1e-5)
            if memory is not None:
                np.testing.assert_allclose(np.asarray(here.memory), np.asarray(there.memory), atol=1e-5)
            # Here the likeliest action is chosen, there one is drawn: where both chose the same, it is as likely.
            same = (here.action == there.action).all(axis=1)
            alike += int(same.sum())
            np.testing.assert_allclose(here.outputs["log_probs"][same], there.outputs["log_probs"][same], atol=1e-5)
        assert alike > 0


def asked(by_name: object) -> object:
    assert isinstance(by_name, dict)
    return by_name["Basic"]


def test_a_network_that_is_published_already_keeps_its_version() -> None:
    with ActorEnvManager(PLAYERS, 1, actor_system="inline") as env:
        env.reset()
        policy = PPOTrainer(env.external_brains["Basic"], settings()).policy
        assert [env.publish(PolicyUpdate.from_policy("Basic", policy)) for _ in range(2)] == [1, 1]


def test_what_a_policy_written_by_hand_did_is_not_learned_from() -> None:
    with ActorEnvManager(PLAYERS, 1, actor_system="inline") as env:
        env.reset()
        trainer = PPOTrainer(env.external_brains["Basic"], settings())
        env.publish(PolicyUpdate.from_policy("Basic", Always(2.0)))
        with pytest.raises(UsageError, match=r"publish PolicyUpdate\.from_policy"):
            trainer.add_experiences(env.step()[0])
