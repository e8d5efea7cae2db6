"""Grants that travel with a new policy, and what becomes of them when the PolicyHolder does not pass them on."""

from __future__ import annotations

from runtime.decisions import effects as fx
from runtime.decisions.effects import HOLDER, InstallPolicy, Reply, Send, StepPlayer
from runtime.decisions.policy_holder import From, PolicyHolderCore
from runtime.experience.brains import Incarnation
from runtime.messages import HolderRestarted, PolicyRequest, PolicyUpdate, StepGrant
from tests.support.bench_controller import ControllerBench, grants_in
from tests.support.bench_worker import WorkerBench, replied
from tests.support.builders_messages import (
    RUN,
    WALKER,
    block,
    env_grant,
    of_type,
    player_lost,
    policy,
    progress,
    sent,
    step_grant,
    steps_taken,
)

STATUS = fx.TimerFired("status")


def updated(environments: int = 2, workers: int = 1) -> tuple[ControllerBench, tuple[object, ...]]:
    """A round of one step each is followed by an update; its effects."""
    bench = ControllerBench(environments)
    for each in range(environments):
        bench.reset(each, worker=each % workers)
    bench.progress = progress(is_ready=True)
    for each in range(environments):
        bench.take(steps_taken(block(each, steps=4), worker=each % workers))
    return bench, bench.finish_update(1)


def straight(effects: tuple[object, ...]) -> list[int]:
    """EnvWorkers that are sent a grant of their own."""
    return [each.to.number for each in effects if isinstance(each, Send) and isinstance(each.message, StepGrant)]


def test_grants_of_all_who_have_acted_travel_with_the_policy() -> None:
    _, effects = updated(workers=2)
    (update,) = sent(effects, PolicyUpdate, HOLDER)
    assert {worker: [each.until_step for each in grant.grants] for worker, grant in update.grants.items()} == {
        0: [8],
        1: [8],
    }
    assert not straight(effects)


def test_a_worker_that_has_not_acted_yet_is_told_straight() -> None:
    bench = ControllerBench(2)
    bench.reset(0)
    bench.reset(1, worker=1)
    bench.progress = progress(is_ready=True)
    bench.take(player_lost(1, worker=1), steps_taken(block(0, steps=4)))
    bench.reset(1, 1, worker=1)
    effects = bench.finish_update(1)
    assert straight(effects) == [1]
    (update,) = sent(effects, PolicyUpdate, HOLDER)
    assert list(update.grants) == [0]


def test_a_grant_that_may_have_died_with_the_policy_holder_is_given_again() -> None:
    bench, effects = updated()
    again = bench.take(HolderRestarted(run=RUN, incarnation=Incarnation(1)))
    assert straight(again) == [0]
    assert grants_in(again) == grants_in(effects)
    assert not straight(bench.take(HolderRestarted(run=RUN, incarnation=Incarnation(2))))


def test_a_grant_that_nobody_acts_on_is_given_again_after_two_periods() -> None:
    bench, effects = updated()
    assert not straight(bench.take(STATUS))
    again = bench.take(STATUS)
    assert straight(again) == [0]
    assert grants_in(again) == grants_in(effects)
    assert not straight(bench.take(STATUS, STATUS, STATUS))


def test_a_grant_that_was_acted_on_is_not_given_again() -> None:
    bench, _ = updated(1)
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, first=4, steps=4)))  # the next update begins; nobody steps
    assert not straight(bench.take(STATUS, STATUS, STATUS))


def test_the_policy_holder_gives_each_worker_its_own_grant_alone() -> None:
    core, first, second = PolicyHolderCore(RUN), step_grant(env_grant(until=3)), step_grant(env_grant(1, until=5))
    for worker in (0, 1, -1):
        core.handle(From(f"asker {worker}", PolicyRequest(run=RUN, behavior=WALKER, version=0, worker=worker)), 0.0)
    update = policy(1, grants={0: first, 1: second})
    effects = core.handle(From("controller", update), 0.0)
    told = {each.to: each.message.grants for each in effects if isinstance(each, Reply)}  # type: ignore[attr-defined]
    assert told == {"asker 0": {0: first}, "asker 1": {1: second}, "asker -1": {}}


def test_who_asks_late_is_told_its_grant_with_the_policy() -> None:
    core, grant = PolicyHolderCore(RUN), step_grant(env_grant(until=3))
    core.handle(From("controller", policy(1, grants={0: grant})), 0.0)
    (effect,) = core.handle(From("asker", PolicyRequest(run=RUN, behavior=WALKER, version=1, worker=0)), 0.0)
    assert isinstance(effect, Reply)
    assert effect.message == policy(1, grants={0: grant})


def test_a_worker_steps_with_a_policy_and_the_grant_that_came_with_it() -> None:
    bench = WorkerBench().stepping(until=1)
    bench.take(replied())
    grant = step_grant(env_grant(until=3), versions={WALKER: 1})
    effects = bench.take(policy(1, grants={0: grant, 1: step_grant(env_grant(1, until=9))}))
    kinds = [type(each) for each in effects]
    assert kinds.index(InstallPolicy) < kinds.index(StepPlayer)
    (step,) = of_type(effects, StepPlayer)
    assert step.versions == {WALKER: 1}
    assert bench.slot().until_step == 3


def test_a_policy_that_is_there_already_still_brings_its_grant() -> None:
    bench = WorkerBench().ready()
    bench.take(policy(1))
    effects = bench.take(policy(1, grants={0: step_grant(env_grant(until=2), versions={WALKER: 1})}))
    assert len(of_type(effects, StepPlayer)) == 1
