"""What learning needs is compared with what the machine has, before it is taken."""

import gc
from dataclasses import replace

import numpy as np
import psutil
import pytest

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import BehaviorSettings, CloningSettings, LearnerOptions
from tests.support.demonstrations import demonstration_of, reads
from tests.support.experience_streams import (
    EYE,
    Feeder,
    random_life,
    small_brain,
    small_learner,
    small_settings,
)
from trainers.learner import PPOLearner
from trainers.memory import FIXED_BYTES, machine_memory, memory_need, refuse_beyond

CAMERA = replace(EYE, shape=(3, 84, 84))
SEEING = small_brain(sights=[CAMERA])


def learner_on(memory_bytes: int, settings: BehaviorSettings, *, keeps_versions: int = 1) -> PPOLearner:
    options = LearnerOptions(run_seed=0, settings_for=lambda _: settings, keeps_versions=keeps_versions)
    return PPOLearner(options, memory_bytes=memory_bytes)


def test_c40_images_that_cannot_fit_are_refused_with_the_numbers_and_a_size_that_fits() -> None:
    settings = small_settings(buffer_size=200_000, batch_size=64)
    with pytest.raises(UsageError) as caught:
        learner_on(4_000_000_000, settings).add_brain(SEEING)
    text = str(caught.value)
    assert "behavior 'Walker' needs about 5." in text
    assert "buffer_size 200000, 21,2" in text
    assert "this machine has (4.00 GB)" in text
    advice = text.rpartition("Lower buffer_size to ")[2]
    fits = int(advice.partition(" ")[0])
    assert 100_000 < fits < 150_000
    smaller = small_settings(buffer_size=fits, batch_size=64)
    assert learner_on(4_000_000_000, smaller).add_brain(SEEING) is not None


def test_a_batch_or_a_network_that_cannot_fit_is_refused_by_what_is_to_blame() -> None:
    with pytest.raises(UsageError, match=r"for a minibatch of batch_size 20000;.* Lower batch_size"):
        learner_on(4_000_000_000, small_settings(batch_size=20_000, buffer_size=20_000)).add_brain(SEEING)
    with pytest.raises(UsageError, match=r"GB for the network\. .* Lower network_settings\.hidden_units"):
        learner_on(4_000_000_000, small_settings(hidden_units=60_000, num_layers=2)).add_brain(small_brain())


def test_behaviors_share_the_machine() -> None:
    settings = small_settings(buffer_size=60_000)
    other = small_brain("Other", sights=[CAMERA])
    learner = learner_on(3_000_000_000, settings)
    assert learner.add_brain(SEEING) is not None
    with pytest.raises(UsageError, match="behavior 'Other' needs"):
        learner.add_brain(other)
    assert list(learner.progress()) == ["Walker"]


def test_agents_that_act_on_during_an_update_need_room_too() -> None:
    sync, also = (memory_need(SEEING, small_settings(), is_async=flag) for flag in (False, True))
    assert also.experience > 1.9 * sync.experience
    settings = small_settings(buffer_size=100_000)
    assert learner_on(4_000_000_000, settings).add_brain(SEEING) is not None
    with pytest.raises(UsageError, match="Lower buffer_size"):
        learner_on(4_000_000_000, settings, keeps_versions=3).add_brain(SEEING)


def test_demonstrations_are_counted_and_named_where_they_do_not_fit() -> None:
    need = memory_need(small_brain(), small_settings(), is_async=False)
    more = memory_need(small_brain(), small_settings(), is_async=False, demonstrations=5_000_000_000)
    assert more.total == need.total + 5_000_000_000
    refuse_beyond(need, small_settings(), others=(), memory_bytes=4_000_000_000)
    with pytest.raises(UsageError, match=r"5\.00 GB for demonstrations; .* Give it fewer demonstrations"):
        refuse_beyond(more, small_settings(), others=(), memory_bytes=4_000_000_000)


def test_what_a_learner_was_shown_is_part_of_what_it_needs() -> None:
    brain, settings = small_brain(), replace(small_settings(), behavioral_cloning=CloningSettings(demo_path="x.demo"))
    options = LearnerOptions(run_seed=0, settings_for=lambda _: settings, demonstrations=reads(demonstration_of(brain)))
    need = memory_need(brain, settings, is_async=False)
    learner = PPOLearner(options, memory_bytes=FIXED_BYTES + need.total)
    with pytest.raises(UsageError, match="for demonstrations"):
        learner.add_brain(brain)


def test_without_training_nothing_is_kept_and_nothing_refused() -> None:
    settings = small_settings(buffer_size=10**9)
    options = LearnerOptions(run_seed=0, settings_for=lambda _: settings, is_training=False)
    assert PPOLearner(options, memory_bytes=FIXED_BYTES).add_brain(SEEING) is not None


def test_the_usual_case_is_far_from_the_limit() -> None:
    need = memory_need(small_brain(), small_settings(buffer_size=10_240, batch_size=1024), is_async=True)
    assert need.total < 20_000_000


def test_this_machine_has_some_memory_and_no_more_than_it_says() -> None:
    assert 2**28 < machine_memory() <= psutil.virtual_memory().total


def _cycle(learner: PPOLearner, brain: BrainParameters, number: int) -> None:
    feeder = Feeder(learner, brain, incarnation=number, version=number)
    first, rest = random_life(brain, seed=number, agents=8, steps=40)
    feeder.reset(*first.rows)
    feeder.steps(*rest)
    learner.finish_update(learner.begin_update("Walker")())


@pytest.mark.slow
def test_c40_memory_does_not_grow_with_the_number_of_updates() -> None:
    learner = small_learner(small_settings(buffer_size=256, max_steps=10**6), brains=[SEEING])
    assert isinstance(learner, PPOLearner)
    resident = []
    for number in range(9):
        _cycle(learner, SEEING, number)
        gc.collect()
        resident.append(psutil.Process().memory_info().rss)
    experience = 256 * np.prod(CAMERA.shape)
    # Five more updates may leave less behind than one of them needed.
    assert resident[-1] - resident[3] < 5 * experience
