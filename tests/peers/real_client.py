"""Run by the interpreter of the client of 1.1.0: drives installed players and prints everything it saw, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple  # type: ignore[import-not-found]
from mlagents_envs.environment import UnityEnvironment  # type: ignore[import-not-found]
from mlagents_envs.exception import UnityObservationException  # type: ignore[import-not-found]

from tests.peers.old_play import decision


def vectors(steps: Any) -> list[list[float]]:
    """What each agent sees in numbers, one sensor after the other."""
    flat = [seen.reshape(len(steps), int(np.prod(seen.shape[1:]))) for seen in steps.obs if seen.ndim < 4]
    return [[float(value) for value in row] for row in np.concatenate([np.zeros((len(steps), 0)), *flat], axis=1)]


def pixels(steps: Any) -> list[list[int]]:
    """The sum of the bytes of each picture that each agent sees."""
    cameras = [seen for seen in steps.obs if seen.ndim == 4]
    return [[int(np.rint(camera[n] * 255).sum()) for camera in cameras] for n in range(len(steps))]


def noted(steps: Any, *, is_terminal: bool) -> list[list[Any]]:
    """One entry per agent: id, reward, group, group reward, done, interrupted, vector, pixels."""
    interrupted = steps.interrupted if is_terminal else np.zeros(len(steps), bool)
    return [
        [
            int(steps.agent_id[n]),
            float(steps.reward[n]),
            int(steps.group_id[n]),
            float(steps.group_reward[n]),
            is_terminal,
            bool(interrupted[n]),
            vector,
            seen,
        ]
        for n, (vector, seen) in enumerate(zip(vectors(steps), pixels(steps), strict=True))
    ]


def actions(spec: Any, steps: Any) -> Any:
    """What the agents that wait do; it depends on what they see and nothing else."""
    continuous = np.zeros((len(steps), spec.continuous_size), np.float32)
    discrete = np.zeros((len(steps), spec.discrete_size), np.int32)
    for n, vector in enumerate(vectors(steps)):
        mask = [] if steps.action_mask is None else [not m for branch in steps.action_mask for m in branch[n]]
        if spec.continuous_size:
            continuous[n] = decision(vector, (), spec.continuous_size, ())
        if spec.discrete_size:
            discrete[n] = decision(vector, mask, 0, spec.discrete_branches)
    return ActionTuple(continuous=continuous, discrete=discrete)


def drive(file_name: str, port: int, steps: int) -> dict[str, Any]:
    """Specs and rows by behavior over one reset, so many steps and another reset; or why the client gave up."""
    env = UnityEnvironment(file_name=file_name, base_port=port, seed=3, no_graphics=True, timeout_wait=30)
    specs: dict[str, Any] = {}
    seen: list[dict[str, list[list[Any]]]] = []
    try:
        env.reset()
        for step in range(steps):
            now: dict[str, list[list[Any]]] = {}
            for name, spec in env.behavior_specs.items():
                waiting, ended = env.get_steps(name)
                specs.setdefault(
                    name,
                    {
                        "first_step": step,
                        "observations": [list(sensor.shape) for sensor in spec.observation_specs],
                        "names": [sensor.name for sensor in spec.observation_specs],
                        "kinds": [sensor.observation_type.name for sensor in spec.observation_specs],
                        "properties": [
                            [int(p) for p in sensor.dimension_property] for sensor in spec.observation_specs
                        ],
                        "continuous": spec.action_spec.continuous_size,
                        "branches": list(spec.action_spec.discrete_branches),
                    },
                )
                now[name] = noted(ended, is_terminal=True) + noted(waiting, is_terminal=False)
                if len(waiting):
                    env.set_actions(name, actions(spec.action_spec, waiting))
            seen.append(now)
            env.step()
        env.reset()
    except UnityObservationException as error:
        return {"refused": str(error)}
    finally:
        env.close()
    return {"specs": specs, "seen": seen}


if __name__ == "__main__":
    played = [drive(file, int(sys.argv[1]), steps) for file, steps in json.loads(sys.argv[2])]
    sys.stdout.write(json.dumps(played) + "\n")
