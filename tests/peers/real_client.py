"""Run by the released client's own interpreter: drives one installed player and prints what it saw, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple  # type: ignore[import-not-found]
from mlagents_envs.environment import UnityEnvironment  # type: ignore[import-not-found]


def random_actions(spec: Any, steps: Any, rng: np.random.Generator) -> Any:
    """Uniformly random actions for every agent that waits, masked ones left out."""
    count = len(steps)
    continuous = rng.uniform(-1, 1, (count, spec.continuous_size)).astype(np.float32)
    discrete = np.zeros((count, spec.discrete_size), np.int32)
    for branch, size in enumerate(spec.discrete_branches):
        for agent in range(count):
            masked = np.zeros(size, bool) if steps.action_mask is None else steps.action_mask[branch][agent]
            discrete[agent, branch] = rng.choice(np.flatnonzero(~masked))
    return ActionTuple(continuous=continuous, discrete=discrete)


def drive(file_name: str, port: int, steps: int) -> dict[str, dict[str, Any]]:
    """Counts by behavior over one reset, so many steps and another reset."""
    rng = np.random.default_rng(0)
    env = UnityEnvironment(file_name=file_name, base_port=port, seed=3, no_graphics=True, timeout_wait=30)
    seen: dict[str, dict[str, Any]] = {}
    try:
        env.reset()
        for step in range(steps):
            for name, spec in env.behavior_specs.items():
                decision, terminal = env.get_steps(name)
                count = seen.setdefault(
                    name,
                    {
                        "first_step": step,
                        "observations": [list(sensor.shape) for sensor in spec.observation_specs],
                        "continuous": spec.action_spec.continuous_size,
                        "branches": list(spec.action_spec.discrete_branches),
                        "decisions": 0,
                        "terminals": 0,
                        "interrupted": 0,
                        "reward": 0.0,
                        "agents_min": len(decision),
                    },
                )
                count["decisions"] += len(decision)
                count["terminals"] += len(terminal)
                count["interrupted"] += int(terminal.interrupted.sum())
                count["reward"] += float(decision.reward.sum() + terminal.reward.sum())
                count["agents_min"] = min(count["agents_min"], len(decision))
                if len(decision):
                    env.set_actions(name, random_actions(spec.action_spec, decision, rng))
            env.step()
        env.reset()
    finally:
        env.close()
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))) + "\n")
