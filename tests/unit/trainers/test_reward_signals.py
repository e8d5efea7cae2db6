"""Reward signals by name: what the factory makes, what it refuses, and what each stream's return is made of."""

from dataclasses import fields, replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.experience.columns import RowKind
from runtime.learner import BehaviorSettings, CuriositySettings, NetworkSettings, RewardSignalSettings
from tests.support.experience_streams import (
    Act,
    Feeder,
    Row,
    Step,
    block_of,
    small_brain,
    small_learner,
    small_settings,
)
from trainers.batches import Batch, batch_of
from trainers.behavior import Behavior
from trainers.learner import PPOLearner
from trainers.ppo.advantages import advantages
from trainers.ppo.inputs import update_inputs
from trainers.randomness import generator
from trainers.reward_signals.curiosity import Curiosity
from trainers.reward_signals.factory import SIGNALS, make_signal, signals_of
from trainers.schedules import scheduled_values

BRAIN = small_brain()


def curious(settings: BehaviorSettings | None = None, **changes: object) -> BehaviorSettings:
    """Small settings with both signals."""
    curiosity = replace(CuriositySettings(network_settings=NetworkSettings(hidden_units=6, num_layers=1)), **changes)  # type: ignore[arg-type]  # the caller's names
    plain = settings or small_settings()
    return replace(plain, reward_signals={"extrinsic": RewardSignalSettings(gamma=0.9), "curiosity": curiosity})


@given(gamma=st.floats(0, 1), strength=st.floats(-5, 5), rate=st.floats(1e-6, 1), units=st.integers(1, 64))
def test_a_signal_says_what_its_settings_say(gamma: float, strength: float, rate: float, units: int) -> None:
    network = NetworkSettings(hidden_units=units, num_layers=3, vis_encode_type="resnet")
    settings = replace(
        BehaviorSettings(),
        reward_signals={
            "curiosity": CuriositySettings(
                gamma=gamma, strength=strength, learning_rate=rate, network_settings=network
            ),
            "extrinsic": RewardSignalSettings(gamma=gamma / 2, strength=2 * strength),
        },
    )
    curiosity, extrinsic = signals_of(settings)
    assert (curiosity.gamma, curiosity.strength, curiosity.learning_rate) == (gamma, strength, rate)
    assert curiosity.network == Curiosity(units, 3, "resnet")
    assert (extrinsic.gamma, extrinsic.strength, extrinsic.network.name) == (gamma / 2, 2 * strength, "extrinsic")
    assert [each.network.ends_with_episode for each in (curiosity, extrinsic)] == [False, True]
    assert curiosity.network.reward_tag == "Policy/Curiosity Reward"
    assert extrinsic.network.value_tag == "Policy/Extrinsic Value Estimate"


@given(name=st.text(max_size=20).filter(lambda word: word not in SIGNALS and word not in {"gail", "rnd"}))
def test_an_unknown_name_is_named_with_those_that_are_known(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_signal(name, {})
    assert repr(name) in str(caught.value)
    assert "expected extrinsic or curiosity" in str(caught.value)


@pytest.mark.parametrize("name", ["extrinsic", "curiosity"])
@given(
    keyword=st.from_regex(r"[a-z_]{1,20}", fullmatch=True).filter(
        lambda word: word not in {each.name for each in fields(CuriositySettings)}
    )
)
def test_an_unknown_keyword_is_named_with_those_that_are_known(name: str, keyword: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_signal(name, {"gamma": 0.5, keyword: 1})
    assert f"{name!r} knows no keyword {keyword!r}" in str(caught.value)
    assert "gamma" in str(caught.value)
    assert "strength" in str(caught.value)


@pytest.mark.parametrize("name", ["gail", "rnd"])
def test_what_comes_later_is_refused_as_not_yet(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is not supported yet"):
        make_signal(name, {"strength": 1.0})


def test_every_stream_has_a_discount_and_an_end_of_its_own() -> None:
    # Two rows of which the second really ends, with a last observation worth 8 in row 2. lambda 0: only the deltas.
    # Stream 0 (gamma 0.5) ends: 1 + 0.5*3 - 2 = 0.5, then 1 - 3 = -2.
    # Stream 1 (gamma 0.25) goes on: 1 + 0.25*3 - 2 = -0.25, then 1 + 0.25*8 - 3 = 0.
    found = advantages(
        rewards=tf.ones([3, 2]),
        values=tf.constant([[2.0, 2.0], [3.0, 3.0], [8.0, 8.0]]),
        next_rows=tf.constant([1, 2, 0]),
        continues=tf.constant([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]),
        is_linked=tf.constant([1.0, 0.0, 0.0]),
        gammas=tf.constant([0.5, 0.25]),
        lambda_=tf.constant(0.0),
    )
    assert np.asarray(found)[:2].tolist() == [[0.5, -0.25], [-2.0, 0.0]]


def played(kind: RowKind, settings: BehaviorSettings, *, shows_ends: bool) -> tuple[Behavior, Batch]:
    """Two steps of one agent, from 0 over 1 to an end of that kind at 2, as one generation of players shows it."""
    learner = small_learner(settings, brains=[BRAIN])
    assert isinstance(learner, PPOLearner)
    last = 2.0 if shows_ends else 1.0
    Feeder(learner, BRAIN).reset(Row(agent=1))
    steps = [
        Step((Act(agent=1),), (Row(agent=1, x=1.0),)),
        Step((Act(agent=1),), (Row(agent=1, x=last, kind=kind), Row(agent=1, x=9.0))),
    ]
    block = block_of({BRAIN.brain_name: steps}, [BRAIN])
    columns = {name: replace(each, shows_ends=shows_ends) for name, each in block.brains.items()}
    learner.accept(replace(block, brains=columns))
    behavior = learner._behaviors["Walker"]
    return behavior, batch_of(behavior.complete_buffer(), behavior.wires, 64)


def continues_of(behavior: Behavior, batch: Batch) -> list[list[float]]:
    """By stream: which of the two rows' values go on."""
    inputs = update_inputs(
        batch,
        behavior._capacity(len(batch)),
        behavior.settings,
        snapshots=behavior.snapshots,
        snapshots_max=2,
        scheduled=scheduled_values(behavior.settings.hyperparameters, steps=0, max_steps=10),
        rng=generator("key", "minibatches"),
    )
    streams: list[list[float]] = inputs["continues"][:2].T.tolist()
    return streams


def test_the_last_observation_of_an_episode_is_kept_for_curiosity() -> None:
    behavior, batch = played(RowKind.TERMINAL, curious(), shows_ends=True)
    assert batch.observations[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert batch.next_rows[:2].tolist() == [1, 2]
    assert batch.follows[:2].tolist() == [True, True]
    assert continues_of(behavior, batch) == [[1.0, 0.0], [1.0, 1.0]]


def test_an_end_that_was_not_shown_is_no_surprise_and_worth_nothing() -> None:
    behavior, batch = played(RowKind.TERMINAL, curious(), shows_ends=False)
    assert len(batch) == batch.count == 2
    assert batch.follows.tolist() == [True, False]
    assert continues_of(behavior, batch) == [[1.0, 0.0], [1.0, 0.0]]


def test_a_time_limit_whose_observation_was_not_shown_bootstraps_and_is_no_surprise() -> None:
    behavior, batch = played(RowKind.INTERRUPTED, curious(), shows_ends=False)
    assert batch.observations[:, 0].tolist() == [0.0, 1.0, 1.0]
    assert batch.follows[:2].tolist() == [True, False]
    assert continues_of(behavior, batch) == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("shows_ends", [True, False])
def test_without_curiosity_nothing_more_is_kept(*, shows_ends: bool) -> None:
    behavior, batch = played(RowKind.TERMINAL, small_settings(), shows_ends=shows_ends)
    assert len(batch) == 2
    assert continues_of(behavior, batch) == [[1.0, 0.0]]
