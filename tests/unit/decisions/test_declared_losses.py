"""What is counted of losses: restarts that were made, and a bound on what nobody could tell any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.decisions.effects import CONTROLLER, HOLDER, PartExited, Send, worker_role
from runtime.decisions.ledger import EnvRecord, seen_block, unreported_bound
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import HolderFailed, StepGrant, Stopped, StopRequest, WorkerFailed
from tests.support.bench_controller import ControllerBench as Bench
from tests.support.bench_controller import in_round, three_versions_ahead
from tests.support.builders_messages import RUN, WALKER, block, player_lost, progress, sent, start_worker, steps_taken


def supervisor(restarts: int) -> SupervisorCore:
    """One whose parts may be started again so often."""
    options = SupervisorOptions(
        run=RUN,
        worker_envs=((EnvId(0),),),
        template=start_worker(()),
        ports={},
        limits=RestartLimits(lifetime_max=restarts, rate_max=-1),
    )
    core = SupervisorCore(options)
    core.begin()
    return core


def told(core: SupervisorCore, fact: object) -> list[object]:
    """What the TrainerController is told."""
    effects = core.handle(From(None, fact), 0.0)
    return [each.message for each in effects if isinstance(each, Send) and each.to == CONTROLLER]


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_news_of_a_failure_says_whether_it_is_made_good(restarts: int) -> None:
    worker = told(supervisor(restarts), PartExited(worker_role(0), 0, "killed"))[0]
    assert isinstance(worker, WorkerFailed)
    holder = told(supervisor(restarts), PartExited(HOLDER, 0, "killed"))[0]
    assert isinstance(holder, HolderFailed)
    assert worker.is_restarted is holder.is_restarted is bool(restarts)


def test_a_failure_while_the_run_ends_is_not_made_good() -> None:
    core = supervisor(9)
    core.handle(From(None, StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0)), 0.0)
    core = supervisor(9)
    core.handle(From(None, Stopped(run=RUN, part="worker 0")), 0.0)
    (failed,) = told(core, PartExited(worker_role(0), 0, "killed"))
    held = ((EnvId(0), Incarnation(0)),)
    assert failed == WorkerFailed(
        run=RUN, worker=0, environments=held, cause="killed", is_restarted=False, restarts={EnvId(0): 0}
    )


@pytest.mark.parametrize("is_restarted", [True, False])
def test_only_restarts_that_are_made_are_counted_and_each_once(is_restarted: bool) -> None:  # noqa: FBT001
    bench = in_round()
    held = ((EnvId(0), Incarnation(0)),)
    failed = WorkerFailed(run=RUN, worker=0, environments=held, cause="killed", is_restarted=is_restarted)
    gone = HolderFailed(run=RUN, incarnation=Incarnation(0), cause="killed", is_restarted=is_restarted)
    bench.take(failed, failed, gone, gone)
    assert bench.state.worker_restarts == {0: int(is_restarted)}
    assert bench.state.holder_restarts == int(is_restarted)


def ending() -> Bench:
    """A run that was asked to end in mid-round, with two env steps granted and not yet reported."""
    bench = in_round()
    bench.take(StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0))
    assert bench.env().until > bench.env().received
    return bench


def lost_at_the_end(bench: Bench) -> None:
    held = ((EnvId(0), Incarnation(0)),)
    bench.take(WorkerFailed(run=RUN, worker=0, environments=held, cause="killed", is_restarted=False))


def test_a_worker_that_ended_and_died_before_its_last_steps_came_leaves_a_bound() -> None:
    bench = ending()
    unused = bench.env().until - bench.env().received
    lost_at_the_end(bench)
    assert bench.state.counters.unreported_max == unused * bench.state.agents_max > 0


def test_a_worker_whose_last_word_came_leaves_none() -> None:
    bench = ending()
    bench.take(Stopped(run=RUN, part="worker 0"))
    lost_at_the_end(bench)
    assert bench.state.counters.unreported_max == 0


def test_more_agents_are_answered_with_what_has_arrived_while_their_environment_may_step() -> None:
    bench = in_round()
    until = bench.env().until
    effects = bench.take(steps_taken(block(pending={WALKER: 2})))
    (grant,) = sent(effects, StepGrant, worker_role(0))
    assert [(each.until_step, each.accepted_step) for each in grant.grants] == [(until, 1)]
    assert bench.state.agents_max == 2
    assert not sent(bench.take(steps_taken(block(first=1, pending={WALKER: 2}))), StepGrant, worker_role(0))


def test_outcomes_of_decisions_before_a_loss_are_in_its_bound() -> None:
    record = EnvRecord(env_id=EnvId(0), incarnation=Incarnation(0), reset_id=0, state="stepping", until=4)
    record = seen_block(record, replace(block(agent_steps=0), decisions=3))
    assert (record.unanswered, unreported_bound(record, 2)) == (3, 3 * 2 + 3)
    answered = replace(block(first=1, agent_steps=3), decisions=0)
    assert unreported_bound(seen_block(record, answered), 2) == 2 * 2


def test_more_agents_of_steps_that_come_too_late_are_answered_all_the_same() -> None:
    bench = three_versions_ahead()
    bench.progress = progress()
    effects = bench.take(steps_taken(block(1, steps=1, version=0, pending={WALKER: 2})))
    assert bench.state.counters.lost == {"stale": 1}
    answered = [each for grant in sent(effects, StepGrant) for each in grant.grants if each.env_id == 1]
    assert [each.accepted_step for each in answered][:1] == [1]


def test_a_worker_of_which_nothing_was_known_when_the_run_was_told_to_end_is_asked_too() -> None:
    bench = Bench(2)
    bench.reset(0)
    assert sent(bench.take(StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0)), StopRequest)
    effects = bench.take(player_lost(1, worker=1))
    assert [each.reason for each in sent(effects, StopRequest, worker_role(1))] == ["interrupted"]
    assert not sent(bench.take(player_lost(1, 1, worker=1)), StopRequest)
