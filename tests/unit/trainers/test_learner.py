"""The port: brains that come, what is refused, progress, and no TensorFlow until it is needed."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runtime.errors import UsageError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.experience.columns import RowKind
from runtime.learner import CuriositySettings, LearnerOptions, RewardSignalSettings
from tests.support.experience_streams import (
    Act,
    Feeder,
    Row,
    Step,
    small_brain,
    small_learner,
    small_settings,
    walkers,
)
from trainers.learner import create_learner

BRAIN = small_brain()
ROOT = Path(__file__).parents[3]


def brain_with(*specs: ObservationSpec, actions: ActionSpec | None = None) -> BrainParameters:
    return BrainParameters(BrainName("Walker?team=1"), specs, ActionSpec(1) if actions is None else actions)


VECTOR = ObservationSpec((3,), name="vector")


@pytest.mark.parametrize(
    ("brain", "text"),
    [
        (brain_with(VECTOR, ObservationSpec((20, 0), name="stones")), r"'stones', is a buffer of shape \(20, 0\)"),
        (brain_with(VECTOR, actions=ActionSpec()), "takes no actions"),
        (brain_with(VECTOR, actions=ActionSpec(0, (3, 0))), "branch 1 has no actions"),
        (brain_with(), "observes nothing"),
        (brain_with(ObservationSpec((0,))), "observes nothing"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(brain: BrainParameters, text: str) -> None:
    with pytest.raises(UsageError, match=f"brain 'Walker\\?team=1'.*{text}|brain 'Walker\\?team=1'.*: {text}"):
        small_learner(brains=[brain])


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        ({"extrinsic": RewardSignalSettings(), "gail": RewardSignalSettings()}, "'gail' is not supported yet"),
        ({"curiosty": RewardSignalSettings()}, r"no reward signal 'curiosty' \(nearest: curiosity\)"),
        ({"extrinsic": CuriositySettings()}, "'extrinsic' knows no keyword 'learning_rate'; expected gamma or"),
        ({}, "no reward signal to learn from"),
    ],
)
def test_reward_signals_that_cannot_be_made_are_refused_by_name(
    signals: Mapping[str, RewardSignalSettings], words: str
) -> None:
    settings = small_settings()
    learner = create_learner(
        LearnerOptions(
            run_seed=0,
            settings_for=lambda _: type(settings)(hyperparameters=settings.hyperparameters, reward_signals=signals),
        )
    )
    with pytest.raises(UsageError, match=f"behavior 'Walker': .*{words}"):
        learner.add_brain(BRAIN)


def test_an_empty_observation_is_taken_and_says_nothing() -> None:
    brain = brain_with(VECTOR, ObservationSpec((0,)))
    assert small_learner(brains=[brain]).progress()["Walker"].version == 0


def test_another_team_shares_the_behavior_and_must_look_the_same() -> None:
    learner = small_learner()
    first = learner.add_brain(small_brain("Walker?team=0"))
    assert first is not None
    assert (first.behavior, first.version) == ("Walker", 0)
    assert learner.add_brain(small_brain("Walker?team=1")) is None
    with pytest.raises(UsageError, match="belong to one behavior but differ: observation shapes"):
        learner.add_brain(small_brain("Walker?team=2", observations=(4,)))
    with pytest.raises(UsageError, match="belong to one behavior but differ: actions"):
        learner.add_brain(small_brain("Walker?team=2", branches=(3, 3)))


def test_players_that_show_one_brain_differently_are_refused() -> None:
    learner = small_learner(brains=[small_brain("Walker")])
    with pytest.raises(UsageError, match=r"brain 'Walker' differs from player to player: .* players of one build"):
        learner.add_brain(small_brain("Walker", observations=(4,)))


def test_teams_fill_one_buffer_and_their_agents_are_not_mixed_up() -> None:
    teams = [small_brain(f"Walker?team={team}") for team in (1, 0)]
    learner = small_learner(brains=teams)
    for env_id, team in enumerate(teams):
        feeder = Feeder(learner, team, env_id=env_id)
        feeder.reset(Row(agent=1))
        feeder.steps(Step((Act(agent=1),), (Row(agent=1, reward=1.0, kind=RowKind.TERMINAL),)))
    progress = learner.progress()["Walker"]
    assert (progress.steps, progress.buffered, progress.episodes) == (2, 2, 2)


def test_an_update_is_due_when_the_buffer_is_full_and_the_behavior_not_done() -> None:
    learner = small_learner(small_settings(buffer_size=4, max_steps=6), brains=[BRAIN])
    feeder = Feeder(learner, BRAIN)
    feeder.reset(Row(agent=1))

    def go(steps: int) -> tuple[int, int, bool, bool]:
        feeder.steps(*(Step((Act(agent=1),), (Row(agent=1),)) for _ in range(steps)))
        found = learner.progress()["Walker"]
        return found.steps, found.buffered, found.is_ready_update, found.is_finished

    assert go(3) == (3, 3, False, False)
    assert go(1) == (4, 4, True, False)
    assert go(2) == (6, 6, False, True)
    assert go(2) == (8, 6, False, True)


def test_nothing_is_kept_for_learning_under_inference() -> None:
    learner = small_learner(brains=[BRAIN], is_training=False)
    walkers(learner, BRAIN, steps=40)
    progress = learner.progress()["Walker"]
    assert progress.steps > 32
    assert progress.episodes > 0
    assert (progress.buffered, progress.is_ready_update) == (0, False)


def test_progress_is_in_the_order_of_names() -> None:
    names = ["Zebra", "Ant", "Walker"]
    learner = small_learner(brains=[small_brain(name) for name in names])
    assert list(learner.progress()) == sorted(names)


def test_tensorflow_is_not_loaded_before_an_update_needs_it(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from tests.support.experience_streams import small_brain, small_learner, walkers
brain = small_brain()
learner = small_learner(brains=[brain])
walkers(learner, brain)
learner.progress(), learner.take_summaries(), learner.unity_model("Walker"), learner.cut(None)
learner.begin_update("Walker")
learner.begin_save({{"lesson": 1}})(Path({str(tmp_path)!r}) / "save")
again = small_learner()
again.load([Path({str(tmp_path)!r}) / "save"])
again.add_brain(brain)
assert not {{"tensorflow", "keras", "onnxruntime"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)
