"""What a simulation raises: an invariant that does not hold, with its name."""

from __future__ import annotations

from runtime.errors import InternalError


class InvariantError(InternalError):
    """An invariant does not hold. invariant: its short name, as `docs/testing.md` lists them."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class CrashError(InternalError):
    """Raised inside a simulated process to end it between two effects; never seen outside."""
