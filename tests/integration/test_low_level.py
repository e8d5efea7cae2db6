"""`UnityEnvironment` in the newer manner: code written for ML-Agents' low-level interface runs with other imports."""

from uuid import UUID

import numpy as np
import pytest

from fakeunity.scenes.catalogue import SCENES
from runtime.errors import UsageError
from runtime.players.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    DecisionSteps,
    DimensionProperty,
    ObservationType,
    TerminalSteps,
)
from runtime.players.builtin_channels import EngineConfigurationChannel, EnvironmentParametersChannel, RawBytesChannel
from runtime.players.environment import UnityEnvironment
from tests.support.ports import free_port


def environment(target: str, **more: object) -> UnityEnvironment:
    return UnityEnvironment(target, base_port=free_port(), seed=3, **more)  # type: ignore[arg-type] # named by the test


def test_ported_code_drives_a_player() -> None:
    parameters, engine = EnvironmentParametersChannel(), EngineConfigurationChannel()
    env = environment("fake:basic", side_channels=[engine, parameters], timeout_wait=30, no_graphics=True)
    assert isinstance(env, BaseEnv)
    engine.set_configuration_parameters(time_scale=1.0)
    parameters.set_float_parameter("size", 2.0)
    env.reset()
    (name,) = env.behavior_specs
    spec = env.behavior_specs[name]
    assert spec.action_spec == ActionSpec.create_discrete((3,))
    (observation,) = spec.observation_specs
    assert (observation.shape, observation.observation_type) == ((20,), ObservationType.DEFAULT)
    assert observation.dimension_property == (DimensionProperty.NONE,)
    rewards, ends = 0.0, 0
    for _ in range(14):
        decisions, terminals = env.get_steps(name)
        rewards += sum(terminals[agent].reward for agent in terminals) + sum(decisions.reward.tolist())
        ends += len(terminals)
        for agent in decisions:
            step = decisions[agent]
            assert step.obs[0].shape == (20,)
            assert [each.tolist() for each in step.action_mask or []] == [[False] * 3]
            env.set_action_for_agent(name, agent, ActionTuple(discrete=np.array([[2]])))
        env.step()
    assert ends == 1
    assert rewards == pytest.approx(0.93 + 6 * -0.01)
    env.close()


def test_a_step_before_the_first_reset_is_one_so_that_wrappers_learn_the_behaviors() -> None:
    with environment("fake:hybrid") as env:
        assert not env.behavior_specs
        env.step()
        (name,) = env.behavior_specs
        decisions, terminals = env.get_steps(name)
        assert (len(decisions) > 0, len(terminals)) == (True, 0)
        spec = env.behavior_specs[name].action_spec
        assert spec.continuous_size > 0
        assert spec.discrete_size > 0
        action = spec.random_action(len(decisions), np.random.default_rng(1))
        env.set_actions(name, action)
        env.step()


def test_actions_set_for_some_agents_leave_zeros_for_the_others() -> None:
    with environment("fake:balance?agents=3") as env:
        env.reset()
        (name,) = env.behavior_specs
        agents = list(env.get_steps(name)[0])
        before = env.get_steps(name)[0].obs[0].copy()
        env.set_action_for_agent(name, agents[1], ActionTuple(continuous=np.array([[1.0, 0.0]])))
        env.set_action_for_agent(name, agents[2], ActionTuple(continuous=np.array([[-1.0, 0.0]])))
        env.step()
        tilt = env.get_steps(name)[0].obs[0][:, 0] - before[:, 0]
        assert tilt == pytest.approx([0.0, 2 / 45, -2 / 45], abs=1e-5)


def test_pictures_are_numbers_from_0_to_1_with_their_channels_first_in_both_layouts() -> None:
    for layout in ("hwc", "chw"):
        with environment(f"fake:gridworld?layout={layout}") as env:
            env.reset()
            (name,) = env.behavior_specs
            specs = env.behavior_specs[name].observation_specs
            decisions, _ = env.get_steps(name)
            (index,) = [at for at, spec in enumerate(specs) if len(spec.shape) == 3]
            assert specs[index].shape == (3, 84, 84)
            assert decisions.obs[index].dtype == np.float32
            assert 0.0 <= decisions.obs[index].min() < decisions.obs[index].max() <= 1.0
            assert ObservationType.GOAL_SIGNAL in {spec.observation_type for spec in specs}


def test_groups_and_teams_are_seen() -> None:
    with environment("fake:pushblock_group") as env:
        env.reset()
        (name,) = env.behavior_specs
        assert set(env.get_steps(name)[0].group_id.tolist()) - {0}
    with environment("fake:soccer") as env:
        env.reset()
        assert sorted(env.behavior_specs) == ["Soccer?team=0", "Soccer?team=1"]


@pytest.mark.parametrize("scene", sorted(name for name in SCENES if name != "crowd"))
def test_every_scene_can_be_driven_at_random_where_its_masks_allow(scene: str) -> None:
    rng = np.random.default_rng(5)
    with environment(f"fake:{scene}?link=memory") as env:
        env.reset()
        for _ in range(25):
            for name, spec in env.behavior_specs.items():
                decisions, _ = env.get_steps(name)
                action = spec.action_spec.random_action(len(decisions), rng)
                for branch, forbidden in enumerate(decisions.action_mask or []):
                    for row, mask in enumerate(forbidden):
                        action.discrete[row, branch] = rng.choice(np.flatnonzero(~mask))
                env.set_actions(name, action)
            env.step()


def test_mistakes_are_the_users_and_say_what_is_expected() -> None:
    with environment("fake:basic?link=memory", side_channels=[RawBytesChannel(UUID(int=9))]) as env:
        with pytest.raises(UsageError, match=r"behavior 'Basic' is not known; this environment has \[\]"):
            env.get_steps("Basic")
        env.reset()
        with pytest.raises(UsageError, match=r"expected continuous \(1, 0\) and discrete \(1, 1\)"):
            env.set_actions("Basic", ActionTuple(discrete=np.zeros((2, 1))))
        with pytest.raises(UsageError, match="agent 99 of behavior 'Basic' waits for no action"):
            env.set_action_for_agent("Basic", 99, ActionTuple(discrete=np.zeros((1, 1))))
        with pytest.raises(UsageError, match=r"discrete actions of shape \(1,\)"):
            ActionTuple(discrete=[1])
        with pytest.raises(KeyError, match="agent 5 is not among the 1 agents"):
            env.get_steps("Basic")[0][5]
        spec = env.behavior_specs["Basic"]
        assert (len(DecisionSteps.empty(spec)), len(TerminalSteps.empty(spec))) == (0, 0)
        assert 0 in env.get_steps("Basic")[0]


def test_the_manner_of_the_seed_drives_players_of_its_time() -> None:
    with environment("fake:teacher?protocol=API-9") as env:
        assert set(env.external_brain_names) < set(env.brain_names)
        assert (env.number_brains, env.number_external_brains) == (2, 1)
        assert env.academy_name
        infos = env.reset(train_mode=False)
        assert set(infos) == set(env.brain_names)
        (ours,) = env.external_brain_names
        (shown,) = set(env.brain_names) - {ours}
        count, width = len(infos[ours].agents), infos[ours].previous_vector_actions.shape[1]
        memory = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
        infos = env.step(np.zeros((count, width)), memory, ["text"] * count, np.ones(count))
        assert infos[ours].memories.tolist() == memory.tolist()
        assert len(infos[shown].decisions) > 0
        with pytest.raises(UsageError, match="unknown to the player"):
            env.reset({"no such thing": 1.0})
        with pytest.raises(UsageError, match=f"unknown brains \\['{shown}'\\]"):
            env.step({shown: np.zeros((1, 1))})


def test_after_the_end_of_all_actions_need_a_reset_and_a_bare_step_is_one() -> None:
    with environment("fake:basic?protocol=API-8&academy_steps=5") as env:
        env.reset()
        while not env.global_done:
            infos = env.step()
        assert infos["Basic"].local_done == [True]
        with pytest.raises(UsageError, match=r"has ended all its agents; call reset\(\)"):
            env.step(np.zeros((1, 1)))
        infos = env.step()
        assert not env.global_done
        assert len(infos["Basic"].decisions) == 1
