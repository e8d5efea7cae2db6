"""Restart budgets: a limit for life, a limit of the rate, and an account of what was spent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.decisions.restarts import RestartBudget, RestartLimits


def spent(*times: float, limits: RestartLimits) -> RestartBudget:
    budget = RestartBudget(limits=limits)
    for when in times:
        budget = budget.spend(when, f"cause at {when:g}")
    return budget


def test_a_budget_for_life_is_spent_after_its_restarts_however_long_they_took() -> None:
    limits = RestartLimits(lifetime_max=2, rate_max=-1)
    assert not spent(0, limits=limits).refusal(1e6)
    refusal = spent(0, 1e6, limits=limits).refusal(2e6)
    assert refusal == "all 2 restarts are spent (--max-lifetime-restarts)"


def test_a_rate_is_exceeded_within_the_period_and_forgiven_after_it() -> None:
    budget = spent(0, 10, limits=RestartLimits(lifetime_max=-1, rate_max=2, period_s=60))
    assert budget.refusal(59.9).startswith("2 restarts within 60 s are the limit (--restarts-rate-limit-n")
    assert not budget.refusal(60)


def test_minus_one_is_no_limit() -> None:
    budget = spent(*range(50), limits=RestartLimits(lifetime_max=-1, rate_max=-1))
    assert not budget.refusal(50)
    assert budget.spending == "restart 50"


def test_a_limit_of_zero_refuses_the_first_restart() -> None:
    refused = RestartBudget(limits=RestartLimits(lifetime_max=0))
    assert refused.refusal(0) == "it is not to be restarted (--max-lifetime-restarts 0)"
    assert refused.denial("why", 0) == "why"
    assert RestartBudget(limits=RestartLimits(rate_max=0)).refusal(0)


def test_a_cause_of_several_lines_stays_below_its_time() -> None:
    budget = (
        RestartBudget(limits=RestartLimits()).spend(1, "it ended; the last line of x.log:\n  broken").spend(2, "why")
    )
    assert budget.denial("no more", 5).splitlines()[1:] == [
        "  4.0 s ago: it ended; the last line of x.log:",
        "      broken",
        "  3.0 s ago: why",
    ]


def test_the_account_tells_when_and_why() -> None:
    budget = spent(1, 4, limits=RestartLimits())
    assert budget.denial("no more", 5) == (
        "no more; its restarts so far:\n  4.0 s ago: cause at 1\n  1.0 s ago: cause at 4"
    )
    assert budget.spending == "restart 2 of 10"


@given(
    times=st.lists(st.integers(0, 500), max_size=30).map(sorted),
    lifetime=st.integers(-1, 12),
    rate=st.integers(-1, 4),
)
def test_no_window_ever_holds_more_restarts_than_its_limit(times: list[int], lifetime: int, rate: int) -> None:
    limits = RestartLimits(lifetime_max=lifetime, rate_max=rate, period_s=60)
    budget = RestartBudget(limits=limits)
    for now_s in times:
        if not budget.refusal(now_s):
            budget = budget.spend(now_s, "")
    granted = [when for when, _ in budget.history]
    assert lifetime < 0 or len(granted) <= lifetime
    assert rate < 0 or all(sum(1 for each in granted if end - 60 < each <= end) <= rate for end in granted)
