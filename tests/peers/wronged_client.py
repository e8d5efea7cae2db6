"""Run by the interpreter of the client of 1.1.0: drives a player that does wrong and prints how it went, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import sys
from typing import Any

import numpy as np
from mlagents_envs.environment import UnityEnvironment  # type: ignore[import-not-found]

from tests.peers.left_behind import print_outcome

# The client looks whether its player still lives every tenth of this, in whole seconds.
PATIENCE_S = 10


def rows(env: Any) -> dict[str, Any]:
    """What each behavior shows: ids, rewards, the first observation of each agent, how many actions are masked."""
    noted = {}
    for name, spec in env.behavior_specs.items():
        waiting, _ = env.get_steps(name)
        masks = waiting.action_mask or []
        noted[name] = {
            "ids": [int(agent) for agent in waiting.agent_id],
            "rewards": [float(reward) for reward in waiting.reward],
            "first": [float(seen[0]) for seen in waiting.obs[0].reshape(len(waiting), int(np.prod(spec[0][0].shape)))],
            "masked": [[int(branch[n].sum()) for branch in masks] for n in range(len(waiting))],
            "actions": [spec.action_spec.continuous_size, *spec.action_spec.discrete_branches],
        }
    return noted


def play(noted: dict[str, Any], file_name: str, port: int, steps: int, folder: str) -> None:
    """One reset and so many steps."""
    noted["at"] = "opening"
    env = UnityEnvironment(
        file_name=file_name, base_port=port, seed=3, no_graphics=True, timeout_wait=PATIENCE_S, log_folder=folder
    )
    try:
        noted["at"] = "reset"
        env.reset()
        noted["seen"].append(rows(env))
        for step in range(1, steps + 1):
            noted["at"] = f"step {step}"
            env.step()
            noted["seen"].append(rows(env))
        noted["at"] = "closing"
    finally:
        env.close()


if __name__ == "__main__":
    file, port, steps, folder, mark = sys.argv[1:]
    print_outcome(lambda noted: play(noted, file, int(port), int(steps), folder), mark)
