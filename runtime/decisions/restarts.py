"""How often something may be started again: a lifetime budget and a rate limit, on the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.decisions.frozen import replace
from runtime.messages import LossKind

RESTARTABLE_LOSSES: Final[frozenset[LossKind]] = frozenset({"died", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """Restarts allowed in all, and within any period of `period_s` seconds; -1 is no limit."""

    lifetime_max: int = 10
    rate_max: int = 3
    period_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBudget:
    """What one environment or one EnvWorker has spent.

    history: (monotonic seconds, cause) of every restart granted so far.
    """

    limits: RestartLimits
    history: tuple[tuple[float, str], ...] = ()

    @property
    def spent(self) -> int:
        """Restarts granted so far."""
        return len(self.history)

    @property
    def spending(self) -> str:
        """Which restart the last one was, in words."""
        limit = self.limits.lifetime_max
        return f"restart {self.spent}" if limit < 0 else f"restart {self.spent} of {limit}"

    def refusal(self, now_s: float) -> str:
        """Why one more restart at `now_s` is not allowed; empty when it is."""
        limits = self.limits
        if limits.lifetime_max == 0:
            return "it is not to be restarted (--max-lifetime-restarts 0)"
        if 0 <= limits.lifetime_max <= self.spent:
            return f"all {limits.lifetime_max} restarts are spent (--max-lifetime-restarts)"
        if limits.rate_max < 0:
            return ""
        recent = sum(1 for when, _ in self.history if now_s - when < limits.period_s)
        if recent >= limits.rate_max:
            return (
                f"{recent} restarts within {limits.period_s:g} s are the limit "
                f"(--restarts-rate-limit-n, --restarts-rate-limit-period-s)"
            )
        return ""

    def spend(self, now_s: float, cause: str) -> RestartBudget:
        """The budget after one more restart."""
        return replace(self, history=(*self.history, (now_s, cause)))

    def denial(self, refusal: str, now_s: float) -> str:
        """`refusal` with times and causes of all restarts there were, as the user reads it."""
        if not self.history:
            return refusal
        # A cause of several lines stays together below its time.
        causes = [(when, cause.replace("\n", "\n    ")) for when, cause in self.history]
        lines = [f"  {now_s - when:.1f} s ago: {cause}" for when, cause in causes]
        return "\n".join([f"{refusal}; its restarts so far:", *lines])
