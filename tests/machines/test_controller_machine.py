"""The TrainerController through any history: every step accepted once or declared lost once, and one end."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime.decisions import effects as fx
from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions, ControllerPhase
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.columns import StepBlock
from runtime.learner import BrainProgress
from runtime.messages import HolderRestarted, PolicyUpdate, ResetRequest, RestartDenied, StepGrant, Stopped, StopRequest
from tests.support.builders_messages import (
    OTHER_RUN,
    RUN,
    WALKER,
    block,
    brains_found,
    env_reset,
    player_lost,
    progress,
    release,
    start_player,
    status,
    steps_taken,
    stop_request,
    stopped,
    worker_failed,
    worker_ready,
)

ENVS = (0, 1, 2)
WORKER_OF = {0: 0, 1: 0, 2: 1}
BLOCK_STEPS_MAX = 4
BUFFER_SIZE, MAX_STEPS, INTERVAL = 12, 60, 20

envs = st.sampled_from(ENVS)
shifts = st.sampled_from((0, 0, 0, -1, 1))

Key = tuple[int, int, int]


@dataclass
class Env:
    """The model of one environment: what its worker has of it, and what it has taken and sent."""

    incarnation: int = -1
    is_up: bool = False
    is_reset: bool = False
    until: int = 0
    taken: int = 0


class ControllerMachine(RuleBasedStateMachine):
    """Plays environments, learner and Supervisor; `delivered`, `accepted` and `envs` are the model."""

    is_sync = True
    takes_parameters = False

    def __init__(self) -> None:
        super().__init__()
        options = ControllerOptions(
            run=RUN, environments=len(ENVS), is_sync=self.is_sync, block_steps_max=BLOCK_STEPS_MAX
        )
        self.core = ControllerCore(options)
        self.envs = {each: Env() for each in ENVS}
        self.history: list[StepBlock] = []
        self.delivered: dict[Key, int] = {}
        self.accepted: dict[Key, int] = {}
        self.steps = self.buffered = self.version = 0
        self.is_updating = self.is_saving = False
        self.published = -1
        self.timers: set[Hashable] = set()
        self.ends: list[str] = []
        self.is_final = False
        self.perform(self.core.begin())

    # ---- handing over

    def take(self, message: object) -> None:
        """Hand a message over, and the learner's answers to what it brings about."""
        waiting = [message]
        while waiting:
            effects = self.core.handle(waiting.pop(0), 0.0)
            waiting[:0] = self.perform(effects)

    def perform(self, effects: tuple[object, ...]) -> list[object]:
        """What the shell would do, in the model; gives the learner's answers."""
        answers: list[object] = []
        for effect in effects:
            match effect:
                case fx.AcceptBlocks(blocks):
                    for each in blocks:
                        self.accept(each)
                    answers.append(fx.BlocksAccepted(self.progress()))
                case fx.AddBrain(brain):
                    new = release() if self.published < 0 else None
                    answers.append(fx.BrainAdded(brain, new, self.progress(), INTERVAL))
                case fx.StartUpdate():
                    assert not self.is_updating, "an update was begun while one was under way"
                    self.is_updating, self.buffered = True, 0
                case fx.StartSave(_, is_final):
                    assert not self.is_saving, "a save was begun while one was under way"
                    self.is_saving, self.is_final = True, is_final
                case fx.Send(_, StepGrant() as grant):
                    self.grant(grant)
                case fx.Send(_, ResetRequest() as request):
                    assert request.incarnation == self.envs[request.env_id].incarnation
                case fx.Send(fx.HOLDER, PolicyUpdate() as update):
                    assert update.version >= self.published, "an older policy was published"
                    self.published = update.version
                    for worker, grant in update.grants.items():
                        assert all(self.core.state.envs[each.env_id].worker == worker for each in grant.grants)
                        self.grant(grant)
                case fx.Send(fx.SUPERVISOR, Stopped() as end):
                    self.ends.append(end.exit_reason)
                case fx.SetTimer(token):
                    self.timers.add(token)
                case fx.CancelTimer(token):
                    self.timers.discard(token)
                case _:
                    pass
        return answers

    def accept(self, each: StepBlock) -> None:
        """The learner takes a block."""
        key = (int(each.env_id), int(each.incarnation), each.first_step)
        if each.steps:
            assert key not in self.accepted, f"{key} was accepted twice"
            self.accepted[key] = each.agent_steps
        self.steps += each.agent_steps
        self.buffered += each.agent_steps

    def grant(self, message: StepGrant) -> None:
        """Credit reaches the model's environments; it is for those that were reset, and bounded."""
        assert not self.ends
        assert self.core.state.ending is None, "steps were granted while the run ended"
        assert message.versions == {WALKER: self.published}, "a grant without the newest version"
        window = BLOCK_STEPS_MAX * (1 if self.is_sync else 2)
        for each in message.grants:
            assert each.until_step - each.accepted_step <= window, "a window longer than allowed"
            env = self.envs[each.env_id]
            if env.incarnation == each.incarnation and env.is_up:
                assert env.is_reset, "steps were granted before the reset"
                env.until = max(env.until, each.until_step)

    def progress(self) -> dict[str, BrainProgress]:
        return progress(
            steps=self.steps,
            max_steps=MAX_STEPS,
            buffered=self.buffered,
            buffer_size=BUFFER_SIZE,
            is_ready=self.buffered >= BUFFER_SIZE and self.steps < MAX_STEPS,
            version=self.version,
        )

    def deliver(self, each: StepBlock) -> None:
        """A block reaches the controller, for the first time or again."""
        if self.core.state.phase is not ControllerPhase.ENDED:
            self.delivered.setdefault((int(each.env_id), int(each.incarnation), each.first_step), each.agent_steps)
        self.take(steps_taken(each, worker=WORKER_OF[each.env_id]))

    # ---- environments

    @initialize(does=st.sampled_from((True, True, True, False)))
    def all_come_up(self, does: bool) -> None:  # noqa: FBT001 - drawn
        if does:
            for env_id in ENVS:
                self.a_player_connects(env_id)
                self.an_environment_is_reset(env_id, shift=0)

    @rule(env_id=envs)
    def a_player_connects(self, env_id: int) -> None:
        env = self.envs[env_id]
        if not env.is_up:
            self.envs[env_id] = env = Env(incarnation=env.incarnation + 1, is_up=True)
        told = self.takes_parameters
        self.take(worker_ready(env_id, env.incarnation, WORKER_OF[env_id], takes_parameters=told))
        self.take(brains_found(env_id=env_id))

    @rule(env_id=envs, shift=shifts)
    def an_environment_is_reset(self, env_id: int, shift: int) -> None:
        env = self.envs[env_id]
        if env.is_up and not shift:
            env.is_reset = True
            self.take(env_reset(env_id, incarnation=env.incarnation))
        elif shift:
            before = self.core.state.envs[EnvId(env_id)]
            self.take(env_reset(env_id, incarnation=env.incarnation + shift))
            assert self.core.state.envs[EnvId(env_id)] == before

    @rule(env_id=envs, agents=st.integers(0, 3), steps=st.integers(1, 3))
    def an_environment_takes_steps(self, env_id: int, agents: int, steps: int) -> None:
        env = self.envs[env_id]
        steps = min(steps, env.until - env.taken)
        if not env.is_up or steps < 1:
            return
        version = max(0, self.published)
        each = block(
            env_id,
            first=env.taken,
            steps=steps,
            agent_steps=agents * steps,
            incarnation=env.incarnation,
            version=version,
            pending={WALKER: agents},
        )
        env.taken += steps
        self.history.append(each)
        self.deliver(each)

    @rule(times=st.integers(1, 4))
    def all_goes_well(self, times: int) -> None:
        for _ in range(times):
            for env_id in ENVS:
                self.an_environment_takes_steps(env_id, agents=1, steps=4)
            if self.is_updating:
                self.an_update_has_ended()

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def a_block_comes_again(self, data: st.DataObject) -> None:
        before = self.core.state.counters
        self.deliver(data.draw(st.sampled_from(self.history)))
        after = self.core.state.counters
        assert after == replace(before, dropped=after.dropped), "a block that came twice changed the counters"
        assert sum(after.dropped.values()) == sum(before.dropped.values()) + 1

    @rule(env_id=envs, unreported=st.integers(0, 3), is_told=st.booleans())
    def a_player_is_lost(self, *, env_id: int, unreported: int, is_told: bool) -> None:
        env = self.envs[env_id]
        if not env.is_up:
            return
        env.is_up = False
        if is_told:  # else its successor is heard of first
            lost = player_lost(env_id, env.incarnation, worker=WORKER_OF[env_id], unreported=unreported)
            self.take(lost)
            before = self.core.state.counters.unreported_max
            self.take(lost)
            assert self.core.state.counters.unreported_max == before
            self.take(start_player(env_id, env.incarnation + 1))

    @rule(worker=st.sampled_from((0, 1)), is_twice=st.booleans())
    def a_worker_is_lost(self, *, worker: int, is_twice: bool) -> None:
        held = [(env_id, self.envs[env_id].incarnation) for env_id in ENVS if WORKER_OF[env_id] == worker]
        if any(incarnation < 0 for _, incarnation in held) or not all(self.envs[each].is_up for each, _ in held):
            return
        for env_id, _ in held:
            self.envs[env_id].is_up = False
        for _ in range(1 + is_twice):
            self.take(worker_failed(*held, worker=worker))

    # ---- learning

    @precondition(lambda self: self.is_updating)
    @rule()
    def an_update_has_ended(self) -> None:
        self.is_updating, self.version = False, self.version + 1
        self.take(fx.UpdateFinished(release(self.version), self.progress()))

    @precondition(lambda self: self.is_saving)
    @rule(error=st.sampled_from(("", "", "full")))
    def a_save_has_ended(self, error: str) -> None:
        self.is_saving = False
        self.take(fx.SaveFinished(self.is_final, error))

    @rule()
    def the_holder_is_started_again(self) -> None:
        self.take(HolderRestarted(run=RUN, incarnation=Incarnation(1)))

    # ---- the end

    @rule(really=st.integers(0, 7), which=st.integers(0, 2))
    def the_run_is_to_end(self, really: int, which: int) -> None:
        causes = (stop_request(), RestartDenied(run=RUN, cause="spent"), fx.LearnerFailed("nan", 4))
        if not really:
            self.take(causes[which])

    @precondition(lambda self: self.core.state.ending is not None)
    @rule(worker=st.sampled_from((0, 1)))
    def a_worker_has_stopped(self, worker: int) -> None:
        for env_id, env in self.envs.items():
            if WORKER_OF[env_id] == worker:
                env.is_up = False
        self.take(stopped(f"worker {worker}", reason=""))

    # ---- time, and what is for nobody

    @rule(data=st.data())
    def a_timer_fires(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.timers, key=repr)))
        self.timers.discard(token)
        self.take(fx.TimerFired(token))
        if self.ends:
            self.timers.add("status")  # nothing is waited for any more

    @rule()
    def a_message_of_another_run_comes(self) -> None:
        before = self.core.state
        self.take(StopRequest(run=OTHER_RUN, reason="interrupted", saves=True, deadline_s=1.0))
        assert replace(self.core.state, counters=before.counters) == before
        assert self.core.state.counters.dropped["other run"] == before.counters.dropped.get("other run", 0) + 1

    @rule()
    def a_message_for_somebody_else_comes(self) -> None:
        if self.core.state.phase is ControllerPhase.ENDED:
            return
        before = self.core.state
        with pytest.raises(ActorProtocolError):
            self.core.handle(status(), 0.0)
        assert self.core.state is before

    # ---- what always holds

    @invariant()
    def every_step_is_accepted_once_or_lost_once_or_kept(self) -> None:
        state = self.core.state
        counters = state.counters
        held = sum(each.agent_steps for blocks in state.round_blocks.values() for each in blocks)
        assert sum(self.accepted.values()) == counters.agent_steps
        assert sum(self.delivered.values()) == counters.agent_steps + held + sum(counters.lost.values())
        assert counters.unreported_max >= 0

    @invariant()
    def steps_of_players_that_live_are_never_declared_lost(self) -> None:
        state = self.core.state
        if state.phase is ControllerPhase.ENDED:
            return
        for env_id, env in self.envs.items():
            record = state.envs[EnvId(env_id)]
            if env.is_up and env.is_reset and record.state in {"ready", "stepping"}:
                assert (record.incarnation, record.received) == (env.incarnation, env.taken)
                assert record.state == "ready" or record.received < record.until

    @invariant()
    def a_run_ends_once_and_every_wait_has_a_timer(self) -> None:
        state = self.core.state
        assert len(self.ends) <= 1
        assert (state.phase is ControllerPhase.ENDED) == bool(self.ends)
        assert "status" in self.timers
        if state.phase is ControllerPhase.STOPPING:
            missing = state.workers - state.stopped
            assert "stop" in self.timers or not missing, "workers are waited for without a deadline"
            assert "update" in self.timers or not state.updating, "an update is waited for without a deadline"

    @invariant()
    def a_run_that_can_go_on_does(self) -> None:
        state = self.core.state
        if state.ending is not None or state.updating or not state.behaviors:
            return
        states = {each.state for each in state.envs.values()}
        if not state.waits_for_all and "ready" in states and self.is_sync:
            assert "stepping" in states, "environments are ready and nobody steps"
        if states == {"ready"}:
            pytest.fail("all environments are ready and nothing goes on")


class FreeControllerMachine(ControllerMachine):
    """The same in asynchronous collection."""

    is_sync = False


TestControllerMachine = ControllerMachine.TestCase
TestFreeControllerMachine = FreeControllerMachine.TestCase
