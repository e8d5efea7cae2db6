"""Steps that a shell takes without asking come to the same as those that it asks for; any other message ends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.decisions.effects import PlayerStepped, SendBlocks, StepPlayer
from runtime.decisions.env_worker_state import Phase
from runtime.decisions.own_steps import OwnSteps, told_before
from runtime.experience.brains import EnvId
from tests.support.bench_worker import WorkerBench, closed, replied, stepped
from tests.support.builders_messages import assignment, env_grant, policy, step_grant, stop_request


def granted(until: int, block_steps: int, first: int) -> tuple[WorkerBench, int]:
    """A worker in the step after `first` replies of its grant; how many more it may answer by itself."""
    bench = WorkerBench(block_steps_max=20).ready()
    (*_, step) = bench.take(policy(), step_grant(env_grant(until=until), block_steps=block_steps))
    for _ in range(first):
        step = next(each for each in bench.take(replied()) if isinstance(each, StepPlayer))
    assert isinstance(step, StepPlayer)
    return bench, step.own


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, int]:
    until = draw(st.integers(1, 30))
    return until, draw(st.integers(1, 12)), draw(st.integers(0, until - 1))


@given(histories())
def test_steps_told_together_come_to_the_same_as_replies_told_one_by_one(history: tuple[int, int, int]) -> None:
    alone, own = granted(*history)
    asking, _ = granted(*history)
    for left in range(own - 1, -1, -1):
        (step,) = asking.take(replied())
        assert isinstance(step, StepPlayer)
        assert step.own == left
        assert not step.begins_block
    if own:
        assert alone.take(stepped(steps=own)) == ()
    assert alone.core.state == asking.core.state
    assert alone.take(replied()) == asking.take(replied())


def test_the_reply_that_fills_a_block_is_the_machines() -> None:
    bench, own = granted(until=10, block_steps=4, first=0)
    assert own == 3
    bench.take(stepped(steps=own))
    assert SendBlocks((EnvId(0),)) in bench.take(replied())


def test_the_reply_that_uses_up_the_credit_is_the_machines() -> None:
    bench, own = granted(until=3, block_steps=10, first=0)
    assert own == 2
    bench.take(stepped(steps=own))
    assert bench.take(replied())[0] == SendBlocks((EnvId(0),))
    assert bench.slot().phase is Phase.IDLE


def test_a_block_of_an_older_version_is_left_to_the_machine() -> None:
    bench = WorkerBench(block_steps_max=20).stepping(until=10)
    bench.take(step_grant(env_grant(until=10), versions={"Walker": 1}, block_steps=10), policy(1))
    (step,) = [each for each in bench.take(replied()) if isinstance(each, StepPlayer)]
    assert (step.begins_block, step.own) == (True, 0)


def test_a_reply_is_answered_unasked_while_it_shows_the_same_agents() -> None:
    own = OwnSteps()
    assert not own.take({"B": 2}, has_news=False)
    own.left = 2
    assert own.take({"B": 2}, has_news=False)
    assert (own.left, own.untold) == (1, 1)
    for pending, has_news in (({"B": 1}, False), ({"B": 1}, True), ({"B": 1, "C": 0}, False)):
        assert not own.take(pending, has_news=has_news)
    assert (own.left, own.untold) == (1, 1)
    assert own.take({"B": 1, "C": 0}, has_news=False)
    assert not own.take({"B": 1, "C": 0}, has_news=False), "no permission is left"


@pytest.mark.parametrize("message", [stop_request(), closed(1), policy(), step_grant(env_grant(until=3))])
def test_whatever_else_comes_ends_all_permissions_and_what_was_done_is_told_first(message: object) -> None:
    players = [(assignment(0), OwnSteps(left=3)), (assignment(1), OwnSteps(left=2, untold=4))]
    assert told_before(replied(), players) == [PlayerStepped(EnvId(1), assignment(1).incarnation, 4)]
    assert [(own.left, own.untold) for _, own in players] == [(3, 0), (2, 0)]
    players[0][1].untold = 1
    assert told_before(message, players) == [PlayerStepped(EnvId(0), assignment(0).incarnation, 1)]
    assert [(own.left, own.untold) for _, own in players] == [(0, 0), (0, 0)]
