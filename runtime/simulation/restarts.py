"""What the oracle knows of restarts: each has a cause of its own, and budgets hold on the monotonic clock."""

from __future__ import annotations

from runtime.decisions.restarts import RESTARTABLE_LOSSES, RestartLimits
from runtime.messages import (
    EnvAssignment,
    PlayerLost,
    RestartDenied,
    StartPlayer,
    StartWorker,
    WorkerFailed,
)
from runtime.simulation.errors import InvariantError
from runtime.simulation.scenarios import Scenario

Key = tuple[int, int]


class RestartWatch:
    """An environment is started again only after its own loss, its worker's, or an order to start all again.

    denied: whether the run was told that a budget is spent. failures: EnvWorkers lost, by number.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._limits: RestartLimits = scenario.limits
        self._started: dict[int, int] = {}
        self._lost: dict[Key, PlayerLost] = {}
        self._told: set[Key] = set()
        self._excused: set[Key] = set()
        self._times: dict[object, list[float]] = {}
        self._is_planned = False
        self.plans = 0
        self.denied = False
        self.failures: dict[int, int] = {}

    def lost(self, message: PlayerLost) -> None:
        """A worker tells of a loss; of one incarnation only once."""
        key = (message.env_id, message.incarnation)
        if self._lost.get(key, message) is not message:
            raise InvariantError("CORR", f"the loss of {key} is told twice")
        self._lost[key] = message

    @property
    def has_losses(self) -> bool:
        """True once a player was lost, by a fault or by a delay that was too long."""
        return bool(self._lost or self.failures)

    def told(self, message: PlayerLost) -> None:
        """The Supervisor hears of a loss."""
        self._told.add((message.env_id, message.incarnation))

    def planned(self) -> None:
        """All players are to be started again."""
        self._is_planned = True
        self.plans += 1
        if self.plans > 1:
            raise InvariantError("RESUME", "all players are started again a second time")

    def spawned(self, name: str, generation: int, now_s: float) -> None:
        """The Supervisor starts a part; generation 0 is the first."""
        if generation:
            self._spend(name, now_s)

    def started(self, name: str) -> int:
        """How often a part was started again."""
        return len(self._times.get(name, ()))

    def ordered(self, message: StartPlayer | StartWorker | RestartDenied | WorkerFailed, now_s: float) -> None:
        """The Supervisor orders something about environments."""
        if isinstance(message, RestartDenied):
            self._denied(message, now_s)
        elif isinstance(message, WorkerFailed):
            self._excused.update(message.environments)
            self.failures[message.worker] = self.failures.get(message.worker, 0) + message.is_restarted
        elif isinstance(message, StartPlayer):
            self._start(message.environment, now_s, is_single=True)
        else:
            for each in message.environments:
                self._start(each, now_s, is_single=False)

    def _start(self, one: EnvAssignment, now_s: float, *, is_single: bool) -> None:
        env_id, incarnation = one.env_id, one.incarnation
        newest = self._started.get(env_id)
        if newest is None:
            self._started[env_id] = incarnation
            return
        before = (env_id, newest)
        if incarnation == newest and is_single:
            return  # the same order to the worker and to the controller
        if incarnation < newest or (incarnation == newest and before not in self._excused and is_single):
            raise InvariantError("ID", f"environment {env_id}: incarnation {incarnation} is started after {newest}")
        self._started[env_id] = incarnation
        if not is_single:
            return  # opened twice it would be found where players are opened
        is_lost = before in self._told
        if not is_lost and not self._is_planned:
            raise InvariantError("ISOLATE", f"environment {env_id} is started again although nothing was lost")
        if is_lost:
            if self._lost[before].kind not in RESTARTABLE_LOSSES:
                raise InvariantError(
                    "RESTART", f"environment {env_id} is started again after {self._lost[before].kind}"
                )
            self._spend(env_id, now_s)

    def _spend(self, what: object, now_s: float) -> None:
        times = self._times.setdefault(what, [])
        times.append(now_s)
        if self._refuses(times[:-1], now_s):
            raise InvariantError("RESTART", f"{what} is started again beyond its budget, at {times}")

    def _refuses(self, times: list[float], now_s: float) -> bool:
        limits = self._limits
        recent = [each for each in times if now_s - each < limits.period_s]
        return 0 <= limits.lifetime_max <= len(times) or 0 <= limits.rate_max <= len(recent)

    def _denied(self, message: RestartDenied, now_s: float) -> None:
        self.denied = True
        spent = any(self._refuses(times, now_s) for times in self._times.values())
        if not spent and min(self._limits.lifetime_max, self._limits.rate_max) != 0:
            raise InvariantError("RESTART", f"a restart is denied although no budget is spent: {message.cause}")
