"""The Supervisor through any history: incarnations rise, budgets hold, and the run is over once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.decisions import effects as fx
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId
from runtime.messages import (
    LossKind,
    PolicyOverdue,
    RestartDenied,
    RestartPlayersRequest,
    StartPlayer,
    StartWorker,
    StatusRequest,
    Stopped,
    WorkerAlive,
    WorkerFailed,
)
from tests.support.builders_messages import (
    OTHER_RUN,
    RUN,
    env_reset,
    player_lost,
    start_worker,
    status,
    stop_request,
    stopped,
)

LIFETIME_MAX, RATE_MAX, PERIOD_S = 4, 2, 10.0
WORKER_ENVS = ((EnvId(0), EnvId(1)), (EnvId(2),))
WORKER_OF = {0: 0, 1: 0, 2: 1}
ROLES = (fx.CONTROLLER, fx.HOLDER, fx.worker_role(0), fx.worker_role(1))

roles = st.sampled_from(ROLES)
lesser_roles = st.sampled_from(ROLES[1:])
shifts = st.sampled_from((0, 0, 0, -1, 1))
kinds = st.sampled_from(("died", "died", "died", "timeout", "content"))


class SupervisorMachine(RuleBasedStateMachine):
    """`incarnations`, `generations`, restarts by whom, and `dropped` are the model."""

    def __init__(self) -> None:
        super().__init__()
        options = SupervisorOptions(
            run=RUN,
            worker_envs=WORKER_ENVS,
            template=start_worker(),
            ports={},
            limits=RestartLimits(lifetime_max=LIFETIME_MAX, rate_max=RATE_MAX, period_s=PERIOD_S),
        )
        self.core = SupervisorCore(options)
        self.incarnations = dict.fromkeys(WORKER_OF, 0)
        self.generations: dict[fx.Role, int] = {}
        self.alive: set[fx.Role] = set()
        self.timers: set[Hashable] = set()
        self.restarts: dict[object, list[float]] = {}
        self.told = Counter[str]()
        self.failed: set[tuple[int, int]] = set()
        self.killed: set[tuple[fx.Role, int]] = set()
        self.dropped = 0
        self.now_s = 0.0
        self.perform(self.core.begin())

    def take(self, message: object) -> None:
        self.perform(self.core.handle(From("somebody", message), self.now_s))

    def perform(self, effects: tuple[object, ...]) -> None:
        """What the shell would do, in the model."""
        for effect in effects:
            match effect:
                case fx.SpawnPart(role, generation):
                    assert generation == self.generations.get(role, -1) + 1, "a generation was left out or came twice"
                    assert role not in self.alive, "a part was started beside itself"
                    assert not generation or not self.is_ending, "a part was started while the run ended"
                    self.generations[role] = generation
                    self.alive.add(role)
                    if generation:
                        self.restarts.setdefault(role, []).append(self.now_s)
                case fx.KillPart(role, generation):
                    self.killed.add((role, generation))
                case fx.SetTimer(token):
                    self.timers.add(token)
                case fx.CancelTimer(token):
                    self.timers.discard(token)
                case fx.Finish():
                    self.told["finish"] += 1
                case fx.Send(to, StartPlayer() as order) if to != fx.CONTROLLER:
                    environment = order.environment
                    assert environment.incarnation == self.incarnations[environment.env_id] + 1
                    self.incarnations[environment.env_id] += 1
                    assert to.number == WORKER_OF[environment.env_id]
                case fx.Send(fx.CONTROLLER, StartPlayer() as order):
                    self.restarts.setdefault(order.environment.env_id, []).append(self.now_s)
                case fx.Send(to, StartWorker() as start):
                    found = {int(each.env_id): int(each.incarnation) for each in start.environments}
                    held = {each: self.incarnations[each] for each, worker in WORKER_OF.items() if worker == to.number}
                    assert found == held, "a worker was told other incarnations than the present ones"
                case fx.Send(fx.CONTROLLER, WorkerFailed() as failed):
                    for env_id, incarnation in failed.environments:
                        assert (env_id, incarnation) not in self.failed, "a failure was told twice"
                        self.failed.add((env_id, incarnation))
                        assert incarnation == self.incarnations[env_id]
                        self.incarnations[env_id] += 1
                case fx.Send(fx.CONTROLLER, RestartDenied()):
                    self.told["denied"] += 1
                case _:
                    pass

    @property
    def is_ending(self) -> bool:
        return bool(self.told["denied"] or self.told["finish"] or self.told["stop"])

    # ---- parts

    @rule(role=roles, shift=shifts)
    def a_part_is_ready(self, role: fx.Role, shift: int) -> None:
        self.dropped += shift != 0
        self.take(fx.PartReady(role, self.generations[role] + shift, 1))
        assert shift or ("start", role, self.generations[role]) not in self.timers

    @rule(role=lesser_roles, shift=shifts)
    def a_part_exits(self, role: fx.Role, shift: int) -> None:
        generation = self.generations[role] + shift
        is_known = shift == 0 and role in self.alive
        if is_known:
            self.alive.discard(role)
        elif not shift:
            return  # a process exits once
        self.dropped += bool(shift or self.told["finish"])
        self.take(fx.PartExited(role, generation, "it has ended"))

    @rule(kind=kinds, env_id=st.sampled_from((0, 1, 2, 9)), shift=shifts)
    def a_player_is_lost(self, kind: LossKind, env_id: int, shift: int) -> None:
        incarnation = self.incarnations.get(env_id, 0) + shift
        is_stale = shift != 0 or env_id not in self.incarnations or bool(self.told["finish"])
        self.dropped += is_stale
        before = dict(self.incarnations)
        self.take(player_lost(env_id, incarnation, worker=WORKER_OF.get(env_id, 0), kind=kind))
        assert not is_stale or self.incarnations == before

    @rule()
    def players_are_to_be_restarted(self) -> None:
        before, is_late = dict(self.incarnations), self.is_ending
        self.dropped += is_late
        self.take(RestartPlayersRequest(run=RUN))
        assert self.incarnations == {env_id: each + (not is_late) for env_id, each in before.items()}

    @rule(worker=st.sampled_from((0, 1)))
    def a_worker_beats(self, worker: int) -> None:
        self.take(WorkerAlive(run=RUN, worker=worker))

    @rule(waited_s=st.floats(1, 90))
    def a_policy_is_overdue(self, waited_s: float) -> None:
        self.take(PolicyOverdue(run=RUN, worker=0, behavior="A", version=1, waited_s=waited_s))

    # ---- the end

    @rule()
    def a_status_comes(self) -> None:
        self.take(status((0, "line")))

    @rule(part=st.sampled_from(("worker 0", "worker 1", "worker 0", "controller")), really=st.integers(0, 5))
    def a_part_says_that_it_has_stopped(self, part: str, really: int) -> None:
        if part != "controller" or not really:
            self.take(stopped(part))

    @rule(really=st.integers(0, 5))
    def the_run_is_to_stop(self, really: int) -> None:
        if not really:
            self.take(stop_request())
            self.told["stop"] += 1

    @rule(really=st.integers(0, 9))
    def the_controller_dies(self, really: int) -> None:
        if not really and fx.CONTROLLER in self.alive:
            self.alive.discard(fx.CONTROLLER)
            self.dropped += bool(self.told["finish"])
            self.take(fx.PartExited(fx.CONTROLLER, 0, "it has ended"))
            assert self.told["finish"] == 1

    # ---- time, and what is for nobody

    @rule(data=st.data(), seconds=st.floats(0, 8))
    def a_timer_fires(self, data: st.DataObject, seconds: float) -> None:
        if self.timers:
            token = data.draw(st.sampled_from(sorted(self.timers, key=repr)))
            self.timers.discard(token)
            self.now_s += seconds
            self.take(fx.TimerFired(token))

    @rule()
    def somebody_asks(self) -> None:
        before = self.core.state
        (effect,) = self.core.handle(From("launcher", StatusRequest(run=RUN, request_id=1)), self.now_s)
        assert isinstance(effect, fx.Reply)
        assert self.core.state is before

    @rule()
    def a_message_of_another_run_comes(self) -> None:
        self.dropped += 1
        self.take(Stopped(run=OTHER_RUN, part="controller", exit_reason="max_steps", exit_code=0))

    @rule()
    def a_message_for_somebody_else_comes(self) -> None:
        before = self.core.state
        with pytest.raises(ActorProtocolError):
            self.take(env_reset())
        assert self.core.state is before

    # ---- what always holds

    @invariant()
    def the_state_equals_the_model(self) -> None:
        state = self.core.state
        assert dict(state.incarnations) == self.incarnations
        assert dict(state.generations) == self.generations
        assert state.dropped == self.dropped

    @invariant()
    def no_budget_is_exceeded(self) -> None:
        for times in self.restarts.values():
            assert len(times) <= LIFETIME_MAX
            assert all(later - earlier >= PERIOD_S for earlier, later in zip(times, times[RATE_MAX:], strict=False))
            assert all(earlier <= later for earlier, later in pairwise(times))

    @invariant()
    def the_run_is_over_once_and_denied_once(self) -> None:
        assert self.told["finish"] <= 1
        assert self.told["denied"] <= 1
        assert (self.core.state.outcome is not None) == bool(self.told["finish"])

    @invariant()
    def every_wait_has_a_timer(self) -> None:
        state = self.core.state
        if state.outcome is not None:
            return
        assert "watch" in self.timers, "nobody watches for silence any more"
        if state.stop is not None:
            assert "stop" in self.timers
        for role in self.alive - state.ready:
            generation = self.generations[role]
            is_killed = (role, generation) in self.killed
            assert is_killed or ("start", role, generation) in self.timers, "a part is awaited without a deadline"


TestSupervisorMachine = SupervisorMachine.TestCase
