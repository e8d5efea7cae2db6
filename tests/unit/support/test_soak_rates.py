"""When an environment is back at its full rate, worked out by hand from samples of its steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.rates import Trace, missed_goals


def as_usual(_at_s: float) -> float:
    return 1.0


def trace(*, killed_s: float, back_s: float, until_s: float = 30.0, per_s: float = 80.0, slow: float = 1.0) -> Trace:
    """Ten samples a second of steady steps, none from the kill until it is back, and `slow` of them after that."""
    found, steps = Trace(), 0.0
    for tick in range(int(until_s * 10)):
        at_s = tick / 10
        found.add(at_s, round(steps))
        if at_s < killed_s:
            steps += per_s / 10
        elif at_s >= back_s:
            steps += slow * per_s / 10
    return found


def test_steps_between_samples_lie_on_a_line_and_stand_still_beyond_them() -> None:
    found = Trace()
    found.add(1.0, 10)
    found.add(3.0, 30)
    assert [found.steps_at(each) for each in (0.0, 1.0, 2.5, 3.0, 9.0)] == [10.0, 10.0, 25.0, 30.0, 30.0]
    assert found.rate(1.0, 3.0) == 10.0


@given(idle_s=st.floats(0.5, 15.0))
def test_the_full_rate_counts_from_the_instant_from_which_steps_are_taken_again(idle_s: float) -> None:
    found = trace(killed_s=5.0, back_s=5.0 + idle_s).full_from(5.0, 80.0, as_usual)
    assert found is not None
    # A twentieth of the window may be missing, and samples stand a tenth of a second apart.
    assert idle_s - 0.16 <= found - 5.0 <= idle_s + 0.2


def test_who_never_stopped_is_back_at_once() -> None:
    assert trace(killed_s=5.0, back_s=5.0).full_from(5.0, 80.0, as_usual) == 5.0


def test_who_comes_back_slower_is_not_at_the_full_rate() -> None:
    assert trace(killed_s=5.0, back_s=7.0, slow=0.9).full_from(5.0, 80.0, as_usual) is None
    assert trace(killed_s=5.0, back_s=7.0, slow=0.97).full_from(5.0, 80.0, as_usual) == pytest.approx(7.0, abs=0.2)


def test_who_is_as_slow_as_everybody_else_has_recovered() -> None:
    slow = trace(killed_s=5.0, back_s=7.0, slow=0.9)
    assert slow.full_from(5.0, 80.0, lambda _: 0.9) == pytest.approx(7.0, abs=0.2)
    assert slow.full_from(5.0, 80.0, lambda _: 1.2) is None


def test_a_window_that_is_not_over_tells_nothing_yet() -> None:
    short = trace(killed_s=5.0, back_s=6.0, until_s=7.5)
    assert short.full_from(5.0, 80.0, as_usual) is not None
    assert short.full_from(5.0, 80.0, as_usual, needs_s=3.0) is None
    assert trace(killed_s=5.0, back_s=6.0, until_s=6.8).full_from(5.0, 80.0, as_usual) is None


def test_goals_are_missed_by_what_is_beyond_them_only() -> None:
    assert missed_goals("player", back_s_p95=5.6, start_s=0.6, others=0.95) == ()
    assert missed_goals("holder", back_s_p95=0.0, start_s=0.0, others=None) == ()
    late, slow = missed_goals("worker", back_s_p95=5.7, start_s=0.6, others=0.94)
    assert "5.70 s (p95)" in late
    assert "94.0%" in slow
