"""Run by the interpreter of the client of 1.1.0: holds that client to the contract and prints what was seen, as JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import dataclasses
import json
import sys
from typing import Any

from mlagents_envs.environment import UnityEnvironment  # type: ignore[import-not-found]

from fakeunity.testing.environment_check import check_environment


def opened(file_name: str, port: int) -> Any:
    """A new environment with that player."""
    return UnityEnvironment(file_name=file_name, base_port=port, seed=3, no_graphics=True, timeout_wait=30)


if __name__ == "__main__":
    file, base_port, steps = sys.argv[1:]
    facts = check_environment(lambda: opened(file, int(base_port)), steps=int(steps))
    sys.stdout.write("\n" + json.dumps(dataclasses.asdict(facts)) + "\n")
