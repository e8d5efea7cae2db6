"""A whole run of real actors in one process through any history, legal or not: it goes on, loses nothing, and ends."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from runtime.decisions.effects import CONTROLLER, HOLDER, SUPERVISOR, Role, worker_role
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    EnvGrant,
    PolicyUpdate,
    ResetRequest,
    StepGrant,
    StepsTaken,
    StopRequest,
    WorkerFailed,
)
from tests.support.builders_messages import status
from tests.support.house import GRAPH, NAME, WORKERS, House

environments = st.sampled_from([each for envs in WORKERS for each in envs])
workers = st.sampled_from(range(len(WORKERS)))
GENERATIONS_MAX = 40


class WholeRun(RuleBasedStateMachine):
    """The model: how often each player and each EnvWorker was lost, and whether anything was."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.player_losses: dict[int, int] = {}
        self.worker_losses: dict[int, int] = {}
        self.is_exact = True
        self.house: House | None = None

    @initialize(is_sync=st.booleans(), steps=st.integers(0, 40))
    def begins(self, is_sync: bool, steps: int) -> None:  # noqa: FBT001 - drawn
        self.house = House(self.root, is_sync=is_sync)
        if steps:
            self.the_house.await_steps(steps)

    @property
    def the_house(self) -> House:
        assert self.house is not None
        return self.house

    def send(self, to: Role, message: object) -> None:
        self.the_house.system.send_from_outside(to, message)

    # ---- what is legal

    @rule(steps=st.integers(1, 60))
    def steps_are_taken(self, steps: int) -> None:
        self.the_house.await_steps(steps)

    @rule()
    def policies_are_learned(self) -> None:
        house, before = self.the_house, self.the_house.versions
        while house.versions == before:
            house.await_steps(1)

    @rule(env_id=environments)
    def a_player_dies(self, env_id: int) -> None:
        house = self.the_house
        house.await_steps(1)
        house.await_status(lambda each: env_id in house.players and is_ready(each, env_id), "the player")
        self.player_losses[env_id] = expected = self.player_losses.get(env_id, 0) + 1
        house.players[env_id].die()
        house.await_status(lambda each: each.environments[env_id].restarts >= expected, "the player's restart")

    @rule(worker=workers)
    def a_worker_is_killed(self, worker: int) -> None:
        house, self.is_exact = self.the_house, False
        house.await_steps(1)
        expected = self.worker_losses[worker] = self.worker_losses.get(worker, 0) + 1
        house.system.post(SUPERVISOR, lambda: house.system.kill(worker_role(worker), expected - 1))
        house.await_status(lambda each: each.worker_restarts.get(worker, 0) >= expected, "the worker's restart")

    @rule()
    def the_holder_is_killed(self) -> None:
        system = self.the_house.system

        def kill() -> None:
            for generation in range(GENERATIONS_MAX):
                system.kill(HOLDER, generation)

        system.post(SUPERVISOR, kill)

    # ---- what is late, comes twice, or is for somebody else

    @rule(env_id=environments, reset_id=st.integers(-1, 0))
    def a_reset_comes_twice_or_late(self, env_id: int, reset_id: int) -> None:
        again = ResetRequest(
            run=self.the_house.run,
            env_id=EnvId(env_id),
            incarnation=Incarnation(0),
            reset_id=reset_id,
            parameters={},
            train_mode=True,
        )
        self.send(worker_of(env_id), again)

    @rule(env_id=environments)
    def a_grant_of_an_older_life_comes(self, env_id: int) -> None:
        grant = EnvGrant(
            env_id=EnvId(env_id), incarnation=Incarnation(-1), reset_id=0, until_step=10**6, accepted_step=0
        )
        self.send(
            worker_of(env_id),
            StepGrant(run=self.the_house.run, grants=(grant,), versions={}, block_steps=4, gathers=False),
        )

    @rule()
    def steps_come_twice(self) -> None:
        house, block = self.the_house, self.the_house.last_block
        if block is not None:
            self.send(CONTROLLER, StepsTaken(run=house.run, worker=0, blocks=(block, block)))

    @rule(worker=workers)
    def the_first_loss_of_a_worker_is_told_again(self, worker: int) -> None:
        if self.worker_losses.get(worker, 0):
            held = tuple((each, Incarnation(0)) for each in WORKERS[worker])
            self.send(CONTROLLER, WorkerFailed(run=self.the_house.run, worker=worker, environments=held, cause="again"))

    @rule(
        run=st.sampled_from(["another run", ""]), to=st.sampled_from([CONTROLLER, HOLDER, SUPERVISOR, worker_role(0)])
    )
    def messages_of_another_run_come(self, run: str, to: Role) -> None:
        self.send(to, StopRequest(run=run or "no run", reason="interrupted", saves=False, deadline_s=0.0))

    @rule(run_matters=st.booleans())
    def an_old_policy_comes(self, run_matters: bool) -> None:  # noqa: FBT001 - drawn
        run = self.the_house.run if run_matters else "another run"
        update = PolicyUpdate(run=run, behavior=NAME, version=0, kind="onnx", body=GRAPH)
        self.send(HOLDER, update)
        self.send(worker_role(0), update)

    @rule(worker=workers)
    def a_worker_is_sent_what_is_not_for_it(self, worker: int) -> None:
        self.send(worker_role(worker), status())

    # ---- what always holds

    @invariant()
    def nothing_wrong_was_accepted(self) -> None:
        if self.house is not None:
            assert not self.house.wrong
            assert not self.house.system.lost()

    def teardown(self) -> None:
        try:
            if self.house is not None:
                self.ends()
        finally:
            if self.house is not None:
                self.house.close()
            shutil.rmtree(self.root)

    def ends(self) -> None:
        """Whatever happened, the run goes on, and ends with every step accounted for and every loss counted."""
        house = self.the_house
        house.await_steps(1)
        last = house.stop()
        assert (last.exit_reason, last.exit_code) == ("interrupted", 130), last.cause
        accepted, counted = house.accepted, house.counted
        assert (last.env_steps, last.agent_steps, last.decisions) == (
            accepted.env_steps,
            accepted.agent_steps,
            accepted.decisions,
        )
        known = last.agent_steps + sum(last.lost_steps.values())
        assert known <= counted.agent_steps <= known + last.unreported_steps_max
        if self.is_exact and not self.player_losses:
            assert (last.unreported_steps_max, counted.agent_steps) == (0, known)
        assert {each: count for each, count in last.worker_restarts.items() if count} == self.worker_losses
        restarts = {int(each.env_id): each.restarts for each in last.environments if each.restarts}
        assert restarts == self.player_losses
        assert house.saved["agent_steps"] == last.agent_steps
        assert not house.wrong


def worker_of(env_id: int) -> Role:
    """The EnvWorker that has this environment."""
    return next(worker_role(number) for number, envs in enumerate(WORKERS) if env_id in envs)


def is_ready(now: object, env_id: int) -> bool:
    """True while an environment's player is there and was reset."""
    return getattr(now, "environments")[env_id].state in {"ready", "stepping"}  # noqa: B009


QUICK = settings(
    max_examples=12,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
LONG = settings(QUICK, max_examples=300, stateful_step_count=30)


def test_a_whole_run_goes_on_and_ends_through_any_history() -> None:
    run_state_machine_as_test(WholeRun, settings=QUICK)


@pytest.mark.slow
def test_a_whole_run_goes_on_and_ends_through_many_and_long_histories() -> None:
    run_state_machine_as_test(WholeRun, settings=LONG)
