"""The contract that the conformance checks enforce, rule by rule, and the error for what breaks one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fakeunity.errors import FakeUnityError

PLAYER_RULES: Mapping[str, str] = MappingProxyType(
    {
        "hello": "The first call is a message of status 200 that says who the player is.",
        "version": "The version is one that exists: API-8 to API-10, or 1.x.",
        "capabilities": "A player tells the capabilities that its version has, and no later one's.",
        "second call": "The second call is a header of status 200 and nothing else.",
        "message": "Every later call is a message of status 200, for as long as the trainer goes on.",
        "announced": "A behavior is announced once, at the latest with its first agents, and no other one is shown.",
        "actions": "A behavior has actions: continuous ones, or branches with at least one action each.",
        "ids": "An agent waits once in a message.",
        "shape": "An observation is as large as its shape says, of the shape that it had at first, for each sensor.",
        "finite": "Observations and rewards are finite.",
        "mask": "A mask has one entry per action of all branches, and leaves one action in each.",
        "end": "Who ends had waited, and only who ends is interrupted.",
        "repeat": "The same seed and the same actions give the same rows.",
        "decisions": "Some agent waits for an action of the trainer's; a check in which none does has tested nothing.",
        "stop": "A player that is told to stop, by status 400, calls no more.",
    }
)

ENVIRONMENT_RULES: Mapping[str, str] = MappingProxyType(
    {
        "behaviors": "After a reset there are behaviors, and only those that are listed can be asked for.",
        "ids": "An agent is once among those that wait, and once among those that ended.",
        "tables": "Each behavior's tables have one row per agent: observations of the shapes of its spec, rewards.",
        "finite": "Observations and rewards are finite.",
        "mask": "A mask has a table (agents, size) of truth values per branch, and leaves one action in each.",
        "end": "Who ends had waited, and a time limit is told from an end by a truth value per agent.",
        "refusal": "Actions for another number of agents than wait are refused.",
        "reset": "An environment can be reset in the middle of episodes, and goes on.",
        "repeat": "Opened again, the same actions lead to the same rows.",
        "close": "A closed environment can be closed again or says that it is closed, and takes no step.",
    }
)


class ConformanceError(FakeUnityError, AssertionError):
    """A check found its subject wanting. rule: the key in `PLAYER_RULES` or `ENVIRONMENT_RULES` of what it broke."""

    def __init__(self, rule: str, sentence: str, found: str) -> None:
        super().__init__(f"{sentence} Found: {found} (rule {rule!r})")
        self.rule = rule


def require(is_kept: bool, rule: str, found: str, rules: Mapping[str, str] = PLAYER_RULES) -> None:  # noqa: FBT001 - reads as `require(x == y, ...)`
    """Nothing, where the rule is kept; else raises ConformanceError."""
    if not is_kept:
        raise ConformanceError(rule, rules[rule], found)
