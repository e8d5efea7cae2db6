"""What the oracle knows of credit: what was granted to whom, and what came of it."""

from __future__ import annotations

from runtime.decisions.collecting import BLOCKS_AHEAD
from runtime.experience.columns import StepBlock
from runtime.messages import (
    EnvReset,
    PlayerLost,
    ResetRequest,
    StepGrant,
    WorkerFailed,
    WorkerReady,
)
from runtime.simulation.errors import InvariantError
from runtime.simulation.scenarios import Scenario

Key = tuple[int, int]


class GrantWatch:
    """Credit is bounded, goes to those that live and were reset, and ends with the run.

    has_ended: the controller has begun to end the run.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._window_max = scenario.block_steps_max * (1 if scenario.is_sync else BLOCKS_AHEAD)
        self._granted: dict[Key, int] = {}
        self._arrived: dict[Key, int] = {}
        self._ready: set[Key] = set()
        self._reset: dict[Key, int] = {}
        self._asked: dict[Key, int] = {}
        self._lost: set[Key] = set()
        self._newest: dict[int, int] = {}
        self._workers_versions: set[tuple[str, int]] = set()
        self.has_ended = False

    def granted(self, message: StepGrant) -> None:
        """The controller grants steps."""
        scenario = self._scenario
        if self.has_ended:
            raise InvariantError("EXIT", "steps are granted after the run was told to end")
        if message.block_steps < 1 or message.block_steps > scenario.block_steps_max:
            raise InvariantError("BOUND", f"blocks of {message.block_steps} steps are granted")
        window_max = self._window_max
        for each in message.grants:
            key = (each.env_id, each.incarnation)
            if key in self._lost or each.incarnation < self._newest.get(each.env_id, 0):
                raise InvariantError("CORR", f"steps are granted to {key}, which is not there")
            if not each.reset_id == self._reset.get(key) == self._asked.get(key):
                raise InvariantError(
                    "CORR", f"steps are granted to {key} after reset {each.reset_id}, of which nothing was heard"
                )
            if each.until_step < self._granted.get(key, 0):
                raise InvariantError("CORR", f"a grant of {key} was taken back")
            if each.accepted_step > self._arrived.get(key, 0):
                raise InvariantError("LEDGER", f"{key}: step {each.accepted_step} is acknowledged and never arrived")
            if not 0 <= each.until_step - each.accepted_step <= window_max:
                raise InvariantError("BOUND", f"{key}: a window from {each.accepted_step} to {each.until_step}")
            self._granted[key] = each.until_step
            # A version is granted to the whole worker, and so to environments that wait for it.
            self._workers_versions.update(message.versions.items())

    def used(self, block: StepBlock) -> None:
        """A worker sends a block."""
        key = (block.env_id, block.incarnation)
        end = block.first_step + block.steps
        if end > self._granted.get(key, 0):
            raise InvariantError("BOUND", f"{key} took step {end - 1}, granted were {self._granted.get(key, 0)}")
        if not block.versions.items() <= self._workers_versions:
            raise InvariantError("VER", f"{key} acted with {dict(block.versions)}, which was not granted")
        if block.steps > self._window_max:
            raise InvariantError("BOUND", f"{key} sends a block of {block.steps} steps")

    def arrived(self, block: StepBlock) -> None:
        """A block arrives at the controller."""
        key = (block.env_id, block.incarnation)
        self._arrived[key] = max(self._arrived.get(key, 0), block.first_step + block.steps)

    def reached(self, block: StepBlock) -> int:
        """The step that comes after all that has arrived of a block's incarnation."""
        return self._arrived.get((block.env_id, block.incarnation), 0)

    def waited_for(self, block: StepBlock) -> int | None:
        """The step that is to come next of a block's environment; None for one that is lost, or was started again."""
        key = (block.env_id, block.incarnation)
        if key in self._lost or block.incarnation < self._newest.get(block.env_id, 0):
            return None
        return self.reached(block)

    def asked(self, message: ResetRequest, *, is_free: bool) -> None:
        """The controller asks for a reset. is_free: something but its own loss may reset a player once more."""
        key = (message.env_id, message.incarnation)
        before = self._asked.get(key, -1)
        if before >= 0 and not is_free:
            raise InvariantError("ISOLATE", f"{key} is reset a second time; only its own loss may do that")
        if message.reset_id != before + 1:
            raise InvariantError("CORR", f"reset {message.reset_id} of {key} is asked for after {before}")
        if key not in self._ready:
            raise InvariantError("CORR", f"{key} is reset before it is ready")
        if self._granted.get(key, 0) > self._arrived.get(key, 0):
            raise InvariantError("CORR", f"{key} is reset while it takes steps that were granted")
        self._asked[key] = message.reset_id

    def heard(self, message: WorkerReady | EnvReset | PlayerLost | WorkerFailed) -> None:
        """The controller hears of an environment."""
        if isinstance(message, WorkerReady):
            self._ready.add((message.env_id, message.incarnation))
            self._see(message.env_id, message.incarnation)
        elif isinstance(message, EnvReset):
            first = message.first
            key = (first.env_id, first.incarnation)
            self._reset[key] = max(self._reset.get(key, -1), first.reset_id)
        elif isinstance(message, PlayerLost):
            self._lost.add((message.env_id, message.incarnation))
            self._see(message.env_id, message.incarnation)
        else:
            for env_id, incarnation in message.environments:
                self._lost.add((env_id, incarnation))
                self._see(env_id, incarnation)

    def _see(self, env_id: int, incarnation: int) -> None:
        self._newest[env_id] = max(self._newest.get(env_id, 0), incarnation)
