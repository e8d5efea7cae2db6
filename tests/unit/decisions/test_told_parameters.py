"""Parameters that come with a grant: an EnvWorker adds what is new to each player's next step, and nothing old."""

from __future__ import annotations

from dataclasses import replace

from runtime.decisions.effects import StepPlayer
from runtime.experience.parameters import ParameterValue, UniformDraw
from runtime.messages import EnvGrant, ResetRequest, StepGrant
from tests.support.bench_worker import WorkerBench as Bench
from tests.support.bench_worker import connected, replied
from tests.support.builders_messages import env_grant, of_type, policy, reset_request, step_grant


def given_in(effects: tuple[object, ...]) -> list[tuple[int, dict[str, ParameterValue]]]:
    """(environment, parameters) of the steps begun."""
    return [(each.env_id, dict(each.parameters)) for each in of_type(effects, StepPlayer)]


def telling(number: int, *grants: EnvGrant, **parameters: ParameterValue) -> StepGrant:
    return replace(step_grant(*grants), parameters=parameters, parameters_id=number)


def reset_with(number: int, **parameters: ParameterValue) -> ResetRequest:
    return replace(reset_request(), parameters=parameters, parameters_id=number)


def ready_with(number: int, **parameters: ParameterValue) -> Bench:
    bench = Bench()
    bench.take(connected(), reset_with(number, **parameters), replied(), policy())
    return bench


def test_new_parameters_go_with_the_next_step_once_and_only_those_that_changed() -> None:
    bench = ready_with(0, height=1.0, mass=7.0)
    draw = UniformDraw(min_value=0.0, max_value=1.0, seed=3)
    effects = bench.take(telling(1, env_grant(until=3), height=2.0, mass=7.0, wind=draw))
    assert given_in(effects) == [(0, {"height": 2.0, "wind": draw})]
    assert given_in(bench.take(replied())) == [(0, {})]


def test_parameters_that_come_while_a_step_is_under_way_go_with_the_one_after_it() -> None:
    bench = ready_with(0, height=1.0)
    assert given_in(bench.take(step_grant(env_grant(until=3)))) == [(0, {})]
    assert given_in(bench.take(telling(1, env_grant(until=3), height=2.0))) == []
    assert given_in(bench.take(replied())) == [(0, {"height": 2.0})]


def test_an_older_grant_brings_no_old_parameters_back() -> None:
    bench = ready_with(0, height=1.0)
    bench.take(telling(2, env_grant(until=1), height=3.0), replied())
    assert given_in(bench.take(telling(1, env_grant(until=2), height=2.0))) == [(0, {})]


def test_a_player_that_was_reset_since_has_newer_parameters_than_the_grant() -> None:
    bench = ready_with(2, height=3.0)
    assert given_in(bench.take(telling(1, env_grant(until=2), height=2.0))) == [(0, {})]
