"""Checkpoints of curious behaviors: going on bit for bit, and taking policies from runs with other signals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.learner import (
    BehaviorSettings,
    CloningSettings,
    CuriositySettings,
    Learner,
    LearnerOptions,
    NetworkSettings,
    RewardSignalSettings,
)
from tests.support.demonstrations import demonstration_of, reads
from tests.support.experience_streams import EYE, seeing_brain, small_brain, small_learner, small_settings, updated
from tests.unit.trainers.test_curiosity import behavior_of, lived, more
from tests.unit.trainers.test_reward_signals import curious
from trainers.learner import create_learner
from trainers.memory import memory_need
from trainers.networks import named_weights
from trainers.refusals import refuse_unsupported
from trainers.saved_state import behavior_arrays, behavior_state, refuse_other_shape

BRAIN = small_brain()


def saved(learner: Learner, folder: Path) -> Path:
    learner.begin_save({})(folder / "save")
    return folder / "save"


def test_training_goes_on_bit_for_bit_with_all_that_curiosity_has_learned(tmp_path: Path) -> None:
    learner = lived(curious())
    updated(learner)
    more(learner, number=1)
    learner.take_summaries()
    learner.cut(None)
    again = small_learner(curious(), seed=99)
    again.load([saved(learner, tmp_path)])
    again.add_brain(BRAIN)
    results = []
    for one in (learner, again):
        outcomes = [updated(one)]
        more(one, number=2)
        outcomes.append(updated(one))
        arrays = {name: each.tobytes() for name, each in behavior_arrays(behavior_of(one)).items()}
        results.append(([each.statistics for each in outcomes], arrays, one.take_summaries()))
    assert results[0] == results[1]
    assert results[0][0][0]["Policy/Curiosity Reward"] > 0.0


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (small_settings(), curious(), r"\['extrinsic'\] saved, \['extrinsic', 'curiosity \(hidden_units 6"),
        (curious(), small_settings(), r"curiosity \(hidden_units 6, num_layers 1\)'\] saved, \['extrinsic'\] now"),
        (
            curious(),
            curious(network_settings=NetworkSettings(hidden_units=5, num_layers=1)),
            r"hidden_units 6, num_layers 1\)'\] saved, .*hidden_units 5, num_layers 1\)'\] now",
        ),
    ],
)
def test_a_run_does_not_go_on_with_other_signals(
    tmp_path: Path, before: BehaviorSettings, after: BehaviorSettings, words: str
) -> None:
    folder = saved(lived(before), tmp_path)
    learner = small_learner(after)
    with pytest.raises(UsageError, match=f"does not fit the checkpoint: reward_signals: .*{words}"):
        learner.load([folder])


def swapped() -> BehaviorSettings:
    settings = curious()
    return replace(settings, reward_signals=dict(reversed([*settings.reward_signals.items()])))


@pytest.mark.parametrize(
    "after", [small_settings(), curious(strength=0.3), swapped()], ids=["plain", "same", "swapped"]
)
@pytest.mark.parametrize("before", [small_settings(), curious()], ids=["from plain", "from curious"])
def test_a_policy_is_taken_from_a_run_with_any_signals(
    tmp_path: Path, before: BehaviorSettings, after: BehaviorSettings
) -> None:
    learner = lived(before)
    flat = np.random.default_rng(0).normal(0, 1, behavior_of(learner).shape.full_size).astype(np.float32)
    behavior = behavior_of(learner)
    behavior.weights = replace(behavior.weights, flat=flat)
    learner.cut(None)
    again = small_learner(after)
    again.initialize_from([saved(learner, tmp_path)])
    again.add_brain(BRAIN)
    taken = behavior_of(again)
    assert again.unity_model("Walker") == learner.unity_model("Walker")
    assert taken.snapshots[0].flat.tobytes() == taken.policy_weights.tobytes()
    theirs, ours = named_weights(behavior.shape, flat), named_weights(taken.shape, taken.weights.flat)
    places = [[each.name for each in shape.signals] for shape in (behavior.shape, taken.shape)]
    for name in {"extrinsic", "curiosity"} & {*places[0]} & {*places[1]}:
        columns = [
            each["value.kernel"][:, place.index(name)] for each, place in zip((theirs, ours), places, strict=True)
        ]
        assert columns[0].tolist() == columns[1].tolist()
    if places[0] == places[1]:
        assert taken.weights.flat.tobytes() == flat.tobytes()


def test_a_checkpoint_from_before_there_were_signals_is_taken() -> None:
    behavior = behavior_of(lived(small_settings()))
    state = behavior_state(behavior)
    state["shape"]["reward_signals"] = 1
    refuse_other_shape(behavior, state)
    other = behavior_of(lived(curious()))
    with pytest.raises(UsageError, match=r"reward_signals: \['extrinsic'\] saved"):
        refuse_other_shape(other, state)


def test_demonstrations_teach_the_policy_and_not_its_curiosity() -> None:
    plain = lived(curious())
    options = LearnerOptions(
        run_seed=0,
        settings_for=lambda _: replace(curious(), behavioral_cloning=CloningSettings(demo_path="x.demo")),
        demonstrations=reads(demonstration_of(BRAIN)),
    )
    taught = create_learner(options)
    taught.add_brain(BRAIN)
    more(taught)
    size = behavior_of(plain).shape.size
    first, second = (updated(each).weights.flat for each in (plain, taught))
    assert first[size:].tobytes() == second[size:].tobytes()
    assert first[:size].tobytes() != second[:size].tobytes()


@given(units=st.integers(8, 512), layers=st.integers(1, 4))
def test_what_curiosity_needs_is_counted(units: int, layers: int) -> None:
    brain = seeing_brain(images=(EYE,))
    plain = memory_need(brain, small_settings(), is_async=False)
    network = NetworkSettings(hidden_units=units, num_layers=layers)
    need = memory_need(brain, curious(network_settings=network), is_async=False)
    larger = memory_need(brain, curious(network_settings=replace(network, hidden_units=units + 1)), is_async=False)
    assert plain.network < need.network < larger.network
    assert plain.minibatch < need.minibatch < larger.minibatch


def test_an_image_too_small_for_curiositys_encoder_is_refused() -> None:
    settings = replace(
        small_settings(),
        reward_signals={
            "extrinsic": RewardSignalSettings(),
            "curiosity": CuriositySettings(network_settings=NetworkSettings(vis_encode_type="nature_cnn")),
        },
    )
    with pytest.raises(UsageError, match=r"at least 36 on each side for reward_signals\.curiosity\.vis_encode_type"):
        refuse_unsupported(seeing_brain(images=(EYE,)), settings)
