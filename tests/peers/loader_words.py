"""Run by the interpreter of the trainer of 1.1.0: loads demonstration files as it does and prints its samples, as JSON.

The trainer is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

from mlagents.trainers.buffer import BufferKey, ObservationKeyPrefix  # type: ignore[import-not-found]
from mlagents.trainers.demo_loader import demo_to_buffer  # type: ignore[import-not-found]


def samples(path: str) -> dict[str, Any]:
    """What the trainer takes out of one file: observations summed per sample, actions, rewards and ends."""
    spec, buffer = demo_to_buffer(path, 1)
    return {
        "shapes": [list(each.shape) for each in spec.observation_specs],
        "observations": [
            [float(value.sum()) for value in buffer[(ObservationKeyPrefix.OBSERVATION, index)]]
            for index in range(len(spec.observation_specs))
        ],
        "discrete": [[int(index) for index in row] for row in buffer[BufferKey.DISCRETE_ACTION]],
        "rewards": [float(value) for value in buffer[BufferKey.ENVIRONMENT_REWARDS]],
        "done": [bool(value) for value in buffer[BufferKey.DONE]],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([samples(path) for path in sys.argv[1:]]) + "\n")
