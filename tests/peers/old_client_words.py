"""Run by the interpreter of a client of 2019: prints the messages that it would send, as hexadecimal in JSON.

The client is not installed where types are checked, so its objects are `Any` here.
"""

import json
import sys
from typing import Any

from mlagents.envs.communicator_objects import UnityMessage  # type: ignore[import-not-found]
from mlagents.envs.environment import UnityEnvironment  # type: ignore[import-not-found]


def message(unity_input: Any) -> str:
    """The whole message around what the client says."""
    whole = UnityMessage()
    whole.header.status = 200
    whole.unity_input.CopyFrom(unity_input)
    return str(whole.SerializeToString().hex())


def private(env: Any, name: str) -> Any:
    """A method that one of the versions hides."""
    return getattr(env, f"_UnityEnvironment__{name}", None) or getattr(env, f"_{name}")


def words(actions: dict[str, Any]) -> dict[str, str]:
    """The messages for these actions, and for a reset at the game's normal speed."""
    # Made without a player: only what its messages are written from is there.
    env = object.__new__(UnityEnvironment)
    env._n_agents = {name: len(rows["vector"]) for name, rows in actions.items()}
    flat = {
        field: {name: [number for row in rows[field] for number in row] for name, rows in actions.items()}
        for field in ("vector", "memories")
    }
    texts = {name: rows["texts"] for name, rows in actions.items()}
    values = {name: rows["values"] for name, rows in actions.items()}
    nothing = {name: [None] * len(rows["vector"]) for name, rows in actions.items()}
    said = [flat["vector"], flat["memories"], texts, values]
    try:
        step = private(env, "generate_step_input")(*said, nothing)
    except TypeError:
        step = private(env, "generate_step_input")(*said)
    try:
        reset = private(env, "generate_reset_input")(False, {"size": 2.0}, None)
    except TypeError:
        reset = private(env, "generate_reset_input")(False, {"size": 2.0})
    return {"step": message(step), "reset": message(reset)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(words(json.loads(sys.argv[1]))) + "\n")
