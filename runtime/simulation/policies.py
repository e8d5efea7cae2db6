"""What the oracle knows of policies on their way to a worker: what was asked for, what came, what is called overdue."""

from __future__ import annotations

from runtime.messages import PolicyOverdue, PolicyRequest, PolicyUpdate
from runtime.simulation.errors import InvariantError

# A process by its name, and a behavior.
Key = tuple[str, str]


class PolicyWatch:
    """Only what was asked for again and again, and was not overtaken, may be called overdue: it costs the holder."""

    def __init__(self) -> None:
        self._came: dict[Key, int] = {}
        self._asked: dict[tuple[str, str, int], int] = {}

    def asked(self, name: str, message: object) -> None:
        """A worker asks the PolicyHolder."""
        assert isinstance(message, PolicyRequest)
        key = (name, message.behavior, message.version)
        self._asked[key] = self._asked.get(key, 0) + 1

    def came(self, name: str, message: PolicyUpdate) -> None:
        """A policy has come."""
        key = (name, message.behavior)
        self._came[key] = max(message.version, self._came.get(key, -1))

    def overdue(self, name: str, message: object) -> None:
        """A worker calls a policy overdue."""
        assert isinstance(message, PolicyOverdue)
        behavior, version = message.behavior, message.version
        came, count = self._came.get((name, behavior), -1), self._asked.get((name, behavior, version), 0)
        if came >= version:
            raise InvariantError("ISOLATE", f"{name} calls {behavior} {version} overdue, and {came} has come")
        if count < 2:
            raise InvariantError("LIVE", f"{name} calls {behavior} {version} overdue and asked {count} times for it")
