"""Run by the interpreter of a client of 2019: drives one installed player and prints everything it saw, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

import numpy as np
from mlagents.envs.environment import UnityEnvironment  # type: ignore[import-not-found]

from tests.peers.old_play import decision, memories

CONTINUOUS = 1


def noted(info: Any) -> list[list[Any]]:
    """One entry per agent: id, reward, done, max_reached, vector, previous action, memories, text, allowed, pixels."""
    rows = []
    for n, agent in enumerate(info.agents):
        rows.append(
            [
                agent,
                float(info.rewards[n]),
                bool(info.local_done[n]),
                bool(info.max_reached[n]),
                [float(value) for value in info.vector_observations[n]],
                [float(value) for value in info.previous_vector_actions[n]],
                [float(value) for value in info.memories[n]] if len(info.memories) else [],
                info.text_observations[n],
                [int(value) for value in info.action_masks[n]] if len(info.action_masks) else [],
                [int(np.rint(camera[n] * 255).sum()) for camera in info.visual_observations],
            ]
        )
    return rows


def actions(brain: Any, info: Any) -> tuple[Any, Any, list[str]]:
    """What the agents of one brain do, remember and say."""
    is_continuous = brain.vector_action_space_type in (CONTINUOUS, "continuous")
    continuous = brain.vector_action_space_size[0] if is_continuous else 0
    branches = () if is_continuous else tuple(brain.vector_action_space_size)
    vectors = [[float(value) for value in row] for row in info.vector_observations]
    masks = info.action_masks if len(info.action_masks) else [()] * len(vectors)
    allowed = [[bool(value) for value in mask] for mask in masks]
    decided = [decision(vector, mask, continuous, branches) for vector, mask in zip(vectors, allowed, strict=True)]
    return np.array(decided), np.array([memories(vector) for vector in vectors]), [f"{len(v)}" for v in vectors]


def drive(file_name: str, port: int, steps: int, parameters: dict[str, float]) -> dict[str, Any]:
    """Everything seen over one reset, so many steps and another reset; resets whenever the academy is done."""
    env = UnityEnvironment(file_name=file_name, base_port=port, seed=3, no_graphics=True)
    seen: list[Any] = []
    try:
        defaults = dict(env.reset_parameters)
        infos = env.reset(config=parameters or None, train_mode=True)
        for _ in range(steps):
            seen.append([env.global_done, {name: noted(info) for name, info in infos.items()}])
            if env.global_done:
                infos = env.reset(train_mode=True)
                continue
            chosen = {
                name: actions(env.brains[name], infos[name])
                for name in env.external_brain_names
                if len(infos[name].agents)
            }
            infos = env.step(
                vector_action={name: made[0] for name, made in chosen.items()},
                memory={name: made[1] for name, made in chosen.items()},
                text_action={name: made[2] for name, made in chosen.items()},
            )
        seen.append([env.global_done, {name: noted(info) for name, info in infos.items()}])
        infos = env.reset(train_mode=False)
        seen.append([env.global_done, {name: noted(info) for name, info in infos.items()}])
        return {
            "brains": sorted(env.brain_names),
            "external": env.external_brain_names,
            "defaults": defaults,
            "seen": seen,
        }
    finally:
        env.close()


if __name__ == "__main__":
    result = drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
    sys.stdout.write(json.dumps(result) + "\n")
