"""Run by the interpreter of the client of 1.1.0: prints the messages that it would send, as hexadecimal in JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

import numpy as np
from mlagents_envs.base_env import (  # type: ignore[import-not-found]
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto  # type: ignore[import-not-found]
from mlagents_envs.environment import UnityEnvironment  # type: ignore[import-not-found]
from mlagents_envs.side_channel.engine_configuration_channel import (  # type: ignore[import-not-found]
    EngineConfigurationChannel,
)
from mlagents_envs.side_channel.environment_parameters_channel import (  # type: ignore[import-not-found]
    EnvironmentParametersChannel,
)
from mlagents_envs.side_channel.side_channel_manager import SideChannelManager  # type: ignore[import-not-found]


def message(unity_input: Any) -> str:
    """The whole message around what the client says."""
    whole = UnityMessageProto()
    whole.header.status = 200
    whole.unity_input.CopyFrom(unity_input)
    return str(whole.SerializeToString().hex())


def words(actions: dict[str, Any]) -> dict[str, str]:
    """The messages for these actions, and for a reset with settings and parameters of every kind."""
    # Made without a player: only what its messages are written from is there.
    env = object.__new__(UnityEnvironment)
    engine, parameters = EngineConfigurationChannel(), EnvironmentParametersChannel()
    env._side_channel_manager = SideChannelManager([engine, parameters])
    env._env_actions, env._env_state = {}, {}
    for name, rows in actions.items():
        continuous, discrete = np.array(rows["continuous"], np.float32), np.array(rows["discrete"], np.int32)
        count = len(continuous)
        floats, ids = np.zeros(count, np.float32), np.arange(count, dtype=np.int32)
        spec = BehaviorSpec([], ActionSpec(continuous.shape[1], (1000,) * discrete.shape[1]))
        waiting = DecisionSteps([], floats, ids, None, ids * 0, floats)
        env._env_state[name] = (waiting, TerminalSteps.empty(spec))
        env._env_actions[name] = ActionTuple(continuous, discrete)
    step = message(env._generate_step_input(env._env_actions))
    engine.set_configuration_parameters(84, 84, 5, 20.0, -1, 60)
    parameters.set_float_parameter("gravity", 9.8)
    parameters.set_uniform_sampler_parameters("uniform", 0.5, 2.0, 5)
    parameters.set_gaussian_sampler_parameters("gaussian", 1.0, 2.0, 6)
    parameters.set_multirangeuniform_sampler_parameters("ranges", [(0.0, 1.0), (2.0, 3.0)], 7)
    return {"step": step, "reset": message(env._generate_reset_input())}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(words(json.loads(sys.argv[1]))) + "\n")
