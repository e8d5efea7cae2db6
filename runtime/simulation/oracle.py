"""The oracle of one run: it knows what parts sent each other, what players counted, and the ledger; not the machines.

Each invariant has a short name, after which failures are told apart (`docs/testing.md` lists them). What travels is
checked when it is sent, the ledger after every event of the controller, and the whole when the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.decisions import effects as fx
from runtime.decisions.ledger import Counters
from runtime.experience.columns import StepBlock
from runtime.messages import (
    EnvReset,
    HolderRestarted,
    PlayerLost,
    PolicyOverdue,
    PolicyRequest,
    PolicyUpdate,
    ResetRequest,
    RestartDenied,
    RestartPlayersRequest,
    StartPlayer,
    StartWorker,
    Status,
    StepGrant,
    StepsTaken,
    Stopped,
    WorkerFailed,
    WorkerReady,
)
from runtime.simulation.errors import InvariantError
from runtime.simulation.grants import GrantWatch
from runtime.simulation.lessons import LessonWatch
from runtime.simulation.players import SimPlayer
from runtime.simulation.policies import PolicyWatch
from runtime.simulation.restarts import RestartWatch
from runtime.simulation.scenarios import Scenario

LAG_MAX = 2
ORDERS = StartPlayer | StartWorker | RestartDenied | WorkerFailed
Key = tuple[int, int]


class Oracle:
    """What one run has shown so far.

    base: the totals that a resumed run went on from; lessons: those that it went on with; versions, learned: of its
    learner then, agent steps in all.
    """

    def __init__(
        self,
        scenario: Scenario,
        base: Counters,
        versions: Mapping[str, int],
        learned: int,
        lessons: Mapping[str, int],
    ) -> None:
        self.scenario = scenario
        self.base = base
        self._learned = learned
        self.players: dict[Key, SimPlayer] = {}
        self.delivered: dict[tuple[int, int, int], int] = {}
        self.accepted: dict[tuple[int, int, int], int] = {}
        self.grants = GrantWatch(scenario)
        self.lessons = LessonWatch(scenario, lessons)
        self.restarts = RestartWatch(scenario)
        self.policies = PolicyWatch()
        self.told: list[Stopped] = []
        self.saves = 0
        self._arrived = 0
        self._missing = 0
        self._accepted_agent_steps = 0
        self._accepted_env_steps = 0
        self._accepted_decisions = 0
        self._told: dict[Key, int] = {}
        self._sent_upto: dict[Key, int] = {}
        self._lost_told: set[Key] = set()
        self._versions_of: dict[tuple[int, int, str], int] = {}
        self._published: dict[str, int] = dict(versions)
        self._introduced: set[str] = set()
        self._republishes = False
        self._cached: dict[tuple[str, str], int] = {}
        self._status: tuple[int, ...] = ()
        self._last: Counters = base
        self._checks: dict[type, Callable[[str, fx.Role, object], None]] = {
            StepsTaken: self._steps_sent,
            PolicyUpdate: self._policy_sent,
            PlayerLost: self._loss_sent,
            Status: self._status_sent,
            Stopped: self._stopped_sent,
            PolicyRequest: lambda source, _, message: self.policies.asked(source, message),
            PolicyOverdue: lambda source, _, message: self.policies.overdue(source, message),
            StepGrant: self._grant_sent,
            ResetRequest: self._reset_asked,
            RestartPlayersRequest: lambda _source, _role, _message: self.restarts.planned(),
        }

    def forget(self) -> None:
        """Let go of its own methods."""
        self._checks.clear()

    # ---- on the wire

    def sent(self, source: str, role: fx.Role, message: object, now_s: float) -> None:
        """A part sends a message. source: the process's name; role: whose it is."""
        check = self._checks.get(type(message))
        if check is not None:
            check(source, role, message)
        elif role.kind == "supervisor" and isinstance(
            message, StartPlayer | StartWorker | RestartDenied | WorkerFailed
        ):
            self.restarts.ordered(message, now_s)

    def received(self, name: str, role: fx.Role, message: object) -> None:
        """A message is handed to a part that lives, in the process of this name."""
        kind = role.kind
        if kind == "controller":
            if isinstance(message, StepsTaken):
                for block in message.blocks:
                    self._arrive(block)
            elif isinstance(message, HolderRestarted):
                self._republishes = True
            elif isinstance(message, WorkerReady | EnvReset | PlayerLost | WorkerFailed):
                self.grants.heard(message)
        elif isinstance(message, PlayerLost):
            if kind == "supervisor":
                self.restarts.told(message)
        elif isinstance(message, PolicyUpdate):
            if kind == "worker" and not message.grants.keys() <= {role.number}:
                raise InvariantError("CORR", f"{name} hears of grants of EnvWorkers {sorted(message.grants)}")
            self.policies.came(name, message)

    def _arrive(self, block: StepBlock) -> None:
        key = (block.env_id, block.incarnation, block.first_step)
        upto = self.grants.waited_for(block)
        if upto is not None and upto < block.first_step:
            journal = self.players[key[:2]].journal
            self._missing += journal[block.first_step] - journal[upto]
        # What was lost and comes a second time, by a duplicate, behind those that follow it, is in the bound already.
        is_behind = self.grants.reached(block) > block.first_step
        # What comes after the last word was written off with its grant.
        if key not in self.delivered and not self.told and not is_behind:
            self.delivered[key] = block.agent_steps
            self._arrived += block.agent_steps
        self.grants.arrived(block)

    def _grant_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, StepGrant)
        self.grants.granted(message)
        self.lessons.told(message)
        self._versions_known(message.versions, "granted")

    def _reset_asked(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, ResetRequest)
        self.grants.asked(message, is_free=self.lessons.resets_players)
        self.lessons.asked(message)

    def _steps_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, StepsTaken)
        for block in message.blocks:
            key = (block.env_id, block.incarnation)
            first, end = block.first_step, block.first_step + block.steps
            upto = self._sent_upto.get(key, 0)
            if first != upto:
                raise InvariantError("ONCE", f"{source} sends step {first} of {key}, expected {upto}")
            if key in self._lost_told:
                raise InvariantError("LEDGER", f"{source} sends steps of {key} after it told that it was lost")
            self._sent_upto[key] = end
            self.grants.used(block)
            player = self.players[key]
            counted = (player.journal[end] - player.journal[first], player.decided[end] - player.decided[first])
            if (block.agent_steps, block.decisions) != counted:
                raise InvariantError("ONCE", f"block {first} of {key} counts differently from its player: {counted}")
            # What waited before the block came with the block before, or with a reset.
            told = max(self._told.get(key, 0), player.waiting[first])
            if any(count > told for count in player.waiting[first + 1 : end]):
                raise InvariantError("BOUND", f"{key} steps on with more agents than the {told} that were told")
            self._told[key] = max(told, player.waiting[end])
            for name, version in block.versions.items():
                self._acted(key, name, version)

    def _acted(self, key: Key, name: str, version: int) -> None:
        if version > self._published.get(name, -1):
            raise InvariantError("VER", f"{key} acted with version {version} of {name}, which was never published")
        if version < self._versions_of.get((*key, name), 0):
            raise InvariantError("VER", f"the version of {name} fell in {key}")
        self._versions_of[*key, name] = version

    def _versions_known(self, versions: Mapping[str, int], what: str) -> None:
        for name, version in versions.items():
            if version > self._published.get(name, -1):
                raise InvariantError("VER", f"version {version} of {name} was {what}, but not published before")

    def _policy_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, PolicyUpdate)
        name, version = message.behavior, message.version
        if role == fx.CONTROLLER:
            known = self._published.get(name, -1)
            may_repeat = self._republishes or name not in self._introduced
            if version < known or (version == known and not may_repeat):
                raise InvariantError("VER", f"{name} {version} was published after {known}")
            self._published[name] = version
            self._introduced.add(name)
            for _, grant in sorted(message.grants.items()):
                self._grant_sent(source, role, grant)
            return
        before = self._cached.get((source, name), -1)
        if version < before:
            raise InvariantError("VER", f"{source} sent version {version} of {name} after {before}")
        self._cached[source, name] = version

    def _loss_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, PlayerLost)
        if role.kind == "worker":
            self._lost_told.add((message.env_id, message.incarnation))
            self.restarts.lost(message)

    def _status_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, Status)
        totals = (message.env_steps, message.agent_steps, message.decisions, sum(message.lost_steps.values()))
        if any(new < old for new, old in zip(totals, self._status, strict=False)):
            raise InvariantError("LEDGER", f"totals on screen fell from {self._status} to {totals}")
        self._status = totals

    def _stopped_sent(self, source: str, role: fx.Role, message: object) -> None:
        assert isinstance(message, Stopped)
        if role == fx.CONTROLLER:
            self.told.append(message)
            if len(self.told) > 1:
                raise InvariantError("EXIT", "the TrainerController ended twice")

    # ---- the ledger

    def accept(self, blocks: tuple[StepBlock, ...]) -> None:
        """The controller gives blocks to the learner."""
        for block in blocks:
            if not block.steps:
                continue
            key = (block.env_id, block.incarnation, block.first_step)
            if key in self.accepted:
                raise InvariantError("ONCE", f"block {key} was accepted twice")
            if key not in self.delivered:
                raise InvariantError("LEDGER", f"block {key} was accepted and never arrived")
            self.lessons.accepted(block)
            self.accepted[key] = block.agent_steps
            self._accepted_agent_steps += block.agent_steps
            self._accepted_env_steps += block.steps
            self._accepted_decisions += block.decisions

    def ledger(self, counters: Counters, *, is_over: bool = False) -> None:
        """The controller has handled an event. is_over: nothing may be in flight any more."""
        if counters is self._last and not is_over:
            return
        base, self._last = self.base, counters
        found = (
            counters.env_steps - base.env_steps,
            counters.agent_steps - base.agent_steps,
            counters.decisions - base.decisions,
        )
        expected = (self._accepted_env_steps, self._accepted_agent_steps, self._accepted_decisions)
        if found != expected:
            raise InvariantError(
                "ONCE", f"the ledger has {found} env steps, agent steps, decisions; accepted: {expected}"
            )
        lost = sum(counters.lost.values()) - sum(base.lost.values())
        in_flight = self._arrived - self._accepted_agent_steps - lost
        if in_flight < 0 or (is_over and in_flight):
            raise InvariantError("LEDGER", f"{in_flight} agent steps are neither accepted nor lost ({lost} are)")
        if counters.unreported_max - base.unreported_max < self._missing:
            text = f"the bound on unreported steps is {counters.unreported_max}, {self._missing} never came"
            raise InvariantError("LEDGER", text)

    @property
    def is_whole(self) -> bool:
        """Every block that arrived was accepted, or may be yet; none was declared lost, not even an empty one."""
        return self.accepted.keys() >= {key for key, _ in self.delivered.items()}

    def saved(self, run_state: Mapping[str, object], last: Counters, learner_steps: int, *, is_final: bool) -> None:
        """A save begins with this state, when the ledger is `last`."""
        self.saves += 1
        expected: dict[str, object] = {
            "env_steps": self.base.env_steps + self._accepted_env_steps,
            "agent_steps": self.base.agent_steps + self._accepted_agent_steps,
            "decisions": self.base.decisions + self._accepted_decisions,
            "lost": dict(last.lost),
            "unreported_max": last.unreported_max,
        }
        for name, value in expected.items():
            if run_state.get(name) != value:
                raise InvariantError("RESUME", f"a save holds {name} {run_state.get(name)}, the ledger {value}")
        self.lessons.saved(run_state["lessons"])
        # Outcomes behind a hole have lost their actions: the learner knows fewer then.
        learned, accepted = learner_steps - self._learned, self._accepted_agent_steps
        if learned > accepted or (is_final and learned != accepted and self.is_whole):
            raise InvariantError(
                "RESUME", f"the learner saves {learned} agent steps of this run, the ledger {accepted}"
            )
