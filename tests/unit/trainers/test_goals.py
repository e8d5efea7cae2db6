"""Goal signals: what they do to the network, and when they are observations like any other."""

from dataclasses import replace

import pytest

from runtime.experience.brains import BrainParameters, ObservationSpec
from runtime.learner import BehaviorSettings
from tests.support.experience_streams import small_brain, small_learner, small_settings, walkers
from trainers.networks import NetworkShape

GOAL = ObservationSpec((2,), (), 1, "wanted")


def told(*others: ObservationSpec, goal: ObservationSpec = GOAL) -> BrainParameters:
    return replace(small_brain(), observation_specs=(*others, goal))


VECTOR = ObservationSpec((3,), name="vector")


@pytest.mark.parametrize(
    ("brain", "settings", "goals"),
    [
        (told(VECTOR), small_settings(), (1,)),
        (told(VECTOR), small_settings(goal_conditioning_type="none"), ()),
        (told(), small_settings(), ()),
        (told(ObservationSpec((0,))), small_settings(), ()),
        (told(VECTOR, goal=replace(GOAL, shape=(0,))), small_settings(), ()),
    ],
)
def test_a_goal_conditions_what_else_is_observed_unless_told_otherwise(
    brain: BrainParameters,
    settings: BehaviorSettings,
    goals: tuple[int, ...],
) -> None:
    shape = NetworkShape.of(brain, settings)
    assert shape.goals == goals
    assert any("generated" in name for name, _ in shape.layout) == bool(goals)


@pytest.mark.parametrize("kind", ["hyper", "none"])
def test_a_brain_with_a_goal_learns_and_goes_on(kind: str) -> None:
    brain = told(VECTOR)
    learner = small_learner(small_settings(goal_conditioning_type=kind, normalize=True), brains=[brain])
    walkers(learner, brain)
    before = learner.unity_model("Walker")
    assert learner.finish_update(learner.begin_update("Walker")()).version == 1
    assert learner.unity_model("Walker") != before


def test_without_conditioning_a_goal_is_one_more_vector() -> None:
    plain = small_brain(observations=(3, 2))
    settings = small_settings(goal_conditioning_type="none")
    as_goal, as_vector = (small_learner(settings, brains=[each]) for each in (told(VECTOR), plain))
    assert as_goal.unity_model("Walker") == as_vector.unity_model("Walker")
