"""Images on their way through learning: refused or kept as they came, in one copy, and paired with the right rows."""

import re
from dataclasses import replace

import numpy as np
import pytest

from runtime.errors import InternalError, PlayerContentError, UsageError
from runtime.experience.brains import BrainParameters, ObservationSpec
from runtime.experience.columns import RowKind
from tests.support.experience_streams import (
    EYE,
    GRAY,
    Act,
    Feeder,
    Row,
    Step,
    block_of,
    observation_rows,
    random_life,
    seeing_brain,
    small_brain,
    small_learner,
    small_settings,
    walkers,
)
from trainers.batches import batch_of
from trainers.behavior import Behavior
from trainers.encoders import ENCODERS
from trainers.learner import PPOLearner

BRAIN = seeing_brain()
STEPS = [Step((Act(agent=4),), (Row(agent=4, x=0.5),)), Step((Act(agent=4),), (Row(agent=4, x=0.75),))]


def behavior_with(brain: BrainParameters = BRAIN) -> tuple[Feeder, Behavior]:
    learner = small_learner(brains=[brain])
    assert isinstance(learner, PPOLearner)
    return Feeder(learner, brain), learner._behaviors["Walker"]


def image_of(width: int, height: int, **changes: object) -> BrainParameters:
    eye = replace(EYE, shape=(3, height, width))
    return small_brain("Walker", sights=[replace(eye, **changes)])  # type: ignore[arg-type]  # a field each, by name


@pytest.mark.parametrize(
    ("brain", "kind", "text"),
    [
        (
            image_of(84, 84),
            "resnet18",
            "vis_encode_type 'resnet18' is not known, and observation 1, 'eye', is an image",
        ),
        (image_of(84, 84), "none", "expected simple or match3 or fully_connected or resnet or nature_cnn"),
        (image_of(14, 84), "resnet", r"'eye', is an image of 14x84 pixels; expected at least 15 on each side"),
        (image_of(84, 4), "match3", r"'eye', is an image of 84x4 pixels; expected at least 5 on each side"),
        (image_of(84, 0), "fully_connected", r"'eye', is an image of 84x0 pixels; expected at least 1 on each side"),
        (image_of(84, 19), "simple", r"'eye', is an image of 84x19 pixels; expected at least 20 on each side"),
        (
            image_of(84, 19),
            "simple",
            r"larger picture, or choose an encoder that takes it: match3, fully_connected, res",
        ),
        (image_of(35, 84), "nature_cnn", r"'eye', is an image of 35x84 pixels; expected at least 36 on each side"),
    ],
)
def test_an_image_that_no_encoder_takes_is_refused_by_name(brain: BrainParameters, kind: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"brain 'Walker': .*{text}"):
        small_learner(small_settings(vis_encode_type=kind), brains=[brain])


@pytest.mark.parametrize("kind", ["resnet", "match3", "fully_connected"])
def test_without_images_their_encoder_does_not_matter(kind: str) -> None:
    plain, named = (
        small_learner(settings, brains=[small_brain()])
        for settings in (small_settings(), small_settings(vis_encode_type=kind))
    )
    assert named.unity_model("Walker") == plain.unity_model("Walker")


@pytest.mark.parametrize("kind", sorted(ENCODERS))
def test_the_smallest_image_leaves_one_place_and_a_smaller_one_none(kind: str) -> None:
    encoder = ENCODERS[kind]
    side = encoder.side_min
    assert encoder.maps((3, side, side))[-1][1:] == (1, 1)
    assert min(encoder.maps((3, side - 1, side))[-1]) < 1


def test_the_encoders_have_the_known_sizes() -> None:
    assert ENCODERS["simple"].maps((3, 84, 84)) == ((16, 20, 20), (32, 9, 9))
    assert ENCODERS["nature_cnn"].maps((3, 84, 84)) == ((32, 20, 20), (64, 9, 9), (64, 7, 7))
    assert ENCODERS["match3"].maps((3, 8, 9)) == ((35, 6, 7), (144, 4, 5))
    assert ENCODERS["fully_connected"].maps((3, 8, 9)) == ((3, 8, 9),)
    assert [maps[0] for maps in ENCODERS["resnet"].maps((3, 84, 84))] == [16] * 6 + [32] * 12
    assert ENCODERS["resnet"].maps((3, 84, 84))[-1] == (32, 9, 9)
    assert ENCODERS["resnet"].kernels(4)[:2] == ((3, 3, 4, 16), (3, 3, 16, 16))
    assert ENCODERS["nature_cnn"].kernels(4) == ((8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64))


def test_every_row_of_the_batch_has_the_images_of_its_own_moment() -> None:
    feeder, behavior = behavior_with()
    first, rest = random_life(BRAIN, seed=3, agents=3, steps=25)
    feeder.reset(*first.rows)
    feeder.steps(*rest[:12])
    feeder.steps(*rest[12:])
    batch = batch_of(behavior.complete_buffer(), behavior.wires, 64)
    assert len(batch) > batch.count > 20
    x = batch.observations[:, 0]
    images = batch.sights.fetch(np.arange(len(batch)))
    for image, spec, number in zip(images, (EYE, GRAY), (1, 2), strict=True):
        assert image.dtype == spec.dtype
        np.testing.assert_array_equal(image, observation_rows(spec, x, number))


def test_rows_that_are_not_there_show_zeros() -> None:
    feeder, behavior = behavior_with()
    feeder.reset(Row(agent=4, x=0.25))
    feeder.steps(*STEPS)
    batch = batch_of(behavior.complete_buffer(), behavior.wires, 64)
    eye, gray = batch.sights.fetch(np.asarray([-1, 0, -1]))
    assert not eye[[0, 2]].any()
    assert not gray[[0, 2]].any()
    assert eye[1].any()


def test_images_are_kept_as_bytes_and_only_once() -> None:
    feeder, behavior = behavior_with()
    walkers(feeder.learner, BRAIN)
    kept = behavior.buffer.observations()
    assert [each.dtype for each in kept] == [np.float32, np.uint8, np.float32]
    batch = batch_of(behavior.buffer, behavior.wires, 64)
    for copy in (behavior.complete_buffer().observations()[1:], batch.sights.kept):
        assert all(np.shares_memory(ours, theirs) for ours, theirs in zip(kept[1:], copy, strict=True))


def test_a_copy_of_the_buffer_is_independent_of_what_comes_later() -> None:
    feeder, behavior = behavior_with()
    for count in (0, 8):
        copy, doubled = behavior.buffer.copy(), behavior.buffer.copy()
        before = {name: array.tobytes() for name, array in copy.arrays()}
        doubled.extend(copy)
        feeder.reset(Row(agent=1, x=0.5))
        feeder.steps(*(Step((Act(agent=1),), (Row(agent=1, x=0.5 + step),)) for step in range(8)))
        feeder.learner.cut()
        assert len(behavior.buffer) == count + 8
        assert {name: array.tobytes() for name, array in copy.arrays()} == before
        assert len(doubled) == 2 * count


def test_an_image_that_is_not_finite_is_named_with_its_place() -> None:
    feeder, _ = behavior_with()
    feeder.reset(Row(agent=4))
    sound = block_of({"Walker": STEPS}, [BRAIN])
    columns = sound.brains["Walker"]
    gray = columns.observations[2].copy()
    gray[1, 0, 21, 3] = np.inf
    spoiled = replace(columns, observations=(*columns.observations[:2], gray, columns.observations[3]))
    text = re.escape("brain 'Walker', agent 4: observation 2 index (0, 21, 3) is inf at env step 2")
    with pytest.raises(PlayerContentError, match=text):
        feeder.learner.accept(replace(sound, brains={"Walker": spoiled}))
    assert feeder.learner.progress()["Walker"].buffered == 0


def test_an_image_of_another_type_than_announced_is_our_own_bug() -> None:
    feeder, _ = behavior_with()
    sound = block_of({"Walker": STEPS}, [BRAIN])
    columns = sound.brains["Walker"]
    floats = columns.observations[1].astype(np.float32)
    other = replace(columns, observations=(columns.observations[0], floats, *columns.observations[2:]))
    with pytest.raises(InternalError, match="observation 1 of brain 'Walker' as float32; expected uint8"):
        feeder.learner.accept(replace(sound, brains={"Walker": other}))


def test_teams_must_send_images_of_one_type() -> None:
    learner = small_learner(brains=[seeing_brain("Walker?team=0")])
    raw = seeing_brain("Walker?team=1", images=[replace(EYE, dtype="float32"), GRAY])
    with pytest.raises(UsageError, match=r"types of observations .*'uint8'.*PNG files are uint8"):
        learner.add_brain(raw)


def test_a_brain_may_observe_images_alone() -> None:
    brain = small_brain("Walker", observations=(), sights=[EYE])
    feeder, behavior = behavior_with(brain)
    walkers(feeder.learner, brain)
    assert behavior.shape.vector_size == 0
    outcome = feeder.learner.begin_update("Walker")()
    assert feeder.learner.finish_update(outcome).version == 1


def test_goals_may_be_images() -> None:
    goal = ObservationSpec((3, 20, 20), (), 1, "wanted", "uint8")
    feeder, behavior = behavior_with(seeing_brain(images=[EYE, goal]))
    walkers(feeder.learner, behavior.brain)
    assert behavior.shape.goals == (2,)
    assert behavior.shape.sight_places(goals=True) == (1,)
    assert feeder.learner.finish_update(feeder.learner.begin_update("Walker")()).version == 1


def test_an_interrupted_episode_is_bootstrapped_from_its_own_image() -> None:
    feeder, behavior = behavior_with()
    feeder.reset(Row(agent=1, x=0.0))
    ends = Row(agent=1, x=0.5, kind=RowKind.INTERRUPTED)
    feeder.steps(Step((Act(agent=1),), (ends, Row(agent=1, x=0.875))))
    batch = batch_of(behavior.complete_buffer(), behavior.wires, 64)
    (shown,) = batch.sights.fetch(batch.next_rows[:1])[:1]
    np.testing.assert_array_equal(shown, observation_rows(EYE, np.asarray([0.5], np.float32), 1))
