"""Values that decay over a run."""

import pytest

from runtime.learner import PPOHyperparameters
from trainers.schedules import scheduled, scheduled_values


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, 1.0), (0.5, 0.55), (1.0, 0.1), (2.0, 0.1)],
)
def test_a_linear_schedule_goes_straight_to_its_floor_and_stays_there(progress: float, expected: float) -> None:
    assert scheduled(1.0, "linear", floor=0.1, progress=progress) == pytest.approx(expected)


def test_a_constant_schedule_stays() -> None:
    assert scheduled(1.0, "constant", floor=0.1, progress=0.9) == 1.0


def test_a_schedule_never_raises_a_value_that_is_below_the_floor() -> None:
    assert scheduled(0.05, "linear", floor=0.1, progress=1.0) == 0.05


def test_the_floors_are_those_of_ml_agents() -> None:
    values = scheduled_values(PPOHyperparameters(), steps=500, max_steps=500)
    assert (values.learning_rate, values.epsilon, values.beta) == pytest.approx((1e-10, 0.1, 1e-5))


def test_each_value_follows_its_own_schedule() -> None:
    settings = PPOHyperparameters(
        learning_rate_schedule="constant", beta_schedule="linear", epsilon_schedule="constant"
    )
    values = scheduled_values(settings, steps=250, max_steps=500)
    assert (values.learning_rate, values.epsilon) == (3e-4, 0.2)
    assert values.beta == pytest.approx((5e-3 + 1e-5) / 2)
