"""Run by the interpreter of a client of 2019: drives a player that does wrong and prints how it went, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import sys
from typing import Any

from mlagents.envs.environment import UnityEnvironment  # type: ignore[import-not-found]

from tests.peers.left_behind import print_outcome

PATIENCE_S = 8


def rows(infos: Any) -> dict[str, Any]:
    """What each brain shows: ids, rewards, the first number that each agent sees, how many actions are masked."""
    return {
        name: {
            "ids": [int(str(agent).rpartition("-")[2]) for agent in info.agents],
            "rewards": [float(reward) for reward in info.rewards],
            "first": [float(row[0]) for row in info.vector_observations],
            "widths": [len(row) for row in info.vector_observations],
            "masked": [int(len(mask) - sum(mask)) for mask in info.action_masks],
        }
        for name, info in infos.items()
    }


def play(noted: dict[str, Any], file_name: str, port: int, steps: int) -> None:
    """One reset and so many steps."""
    noted["at"] = "opening"
    env = UnityEnvironment(file_name=file_name, base_port=port, seed=3, no_graphics=True, timeout_wait=PATIENCE_S)
    try:
        noted["at"] = "reset"
        noted["seen"].append(rows(env.reset(train_mode=True)))
        for step in range(1, steps + 1):
            noted["at"] = f"step {step}"
            noted["seen"].append(rows(env.step()))
        noted["at"] = "closing"
    finally:
        env.close()


if __name__ == "__main__":
    file, port, steps, _folder, mark = sys.argv[1:]
    print_outcome(lambda noted: play(noted, file, int(port), int(steps)), mark)
