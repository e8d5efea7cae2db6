"""What the scenes' docstrings promise: rules, the best reward, and how much worse chance is."""

import importlib
import re

import numpy as np
import pytest

from fakeunity.rows import Actions
from fakeunity.scenes.balance import sine
from fakeunity.scenes.catalogue import SCENES, open_world
from fakeunity.testing.expected import best_reward
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Driver, observations, random_choice
from tests.support.scripted import actions
from tests.support.scripted import best as best_choice
from tests.unit.fakeunity.opening import started

STEPS = {"balance": 510, "crowd": 450}
RANDOM_SHARE_MAX = {
    "basic": 0.3,
    "balance": 0.1,
    "hybrid": 0.3,
    "masked": 0.5,
    "crowd": 0.3,
    "gridworld": 0.4,
    "hallway": 0.7,
    "pushblock_group": 0.7,
    "soccer": 0.3,
    "buffer": 0.65,
    "vault": 0.01,
}


def played(scene: str, *, best: bool) -> Driver:
    driver = started(f"{scene}?agents=8", best_choice(scene) if best else random_choice(3))
    driver.steps(STEPS.get(scene, 210))
    return driver


def mean_return(driver: Driver) -> float:
    return float(np.mean([value for values in driver.returns.values() for value in values]))


@pytest.mark.parametrize("scene", SCENES)
def test_scripted_play_reaches_the_best_reward_in_every_episode(scene: str) -> None:
    driver = played(scene, best=True)
    for name, returns in driver.returns.items():
        assert len(returns) >= 8, name
        # In soccer only one team can win.
        expected = -best_reward(scene) if name == "Soccer?team=1" else best_reward(scene)
        assert returns == pytest.approx([expected] * len(returns), abs=1e-4), name


@pytest.mark.parametrize("scene", RANDOM_SHARE_MAX)
def test_random_play_is_clearly_worse(scene: str) -> None:
    driver = played(scene, best=False)
    assert driver.count.episodes >= 8
    assert mean_return(driver) < RANDOM_SHARE_MAX[scene] * best_reward(scene)


@pytest.mark.parametrize("scene", SCENES)
def test_docstring_states_the_best_return_of_the_catalogue(scene: str) -> None:
    module, _, _ = SCENES[scene].world.partition(":")
    text = " ".join((importlib.import_module(f"fakeunity.scenes.{module}").__doc__ or "").split())
    stated = re.search(r"Best return(?: of either behavior)?: (\d+(?:\.\d+)?)", text)
    assert stated is not None
    assert float(stated.group(1)) == best_reward(scene)


def test_no_scene_has_no_best_reward() -> None:
    with pytest.raises(ValueError, match="did you mean 'basic'"):
        best_reward("basix")


def cells(info: pb.AgentInfoProto) -> int:
    return list(observations(info)[0]).index(1.0)


def test_basic_moves_clamps_and_pays_as_written() -> None:
    driver = started("basic?agents=1", lambda _p, _i: actions(discrete=[1]))
    assert cells(driver.waiting["Basic"][0]) == 10
    driver.steps(3)
    assert driver.returns["Basic"] == pytest.approx([0.07])
    assert driver.endings["Basic"] == [False]


def test_basic_is_interrupted_after_100_steps_of_standing_still() -> None:
    driver = started("basic?agents=2", lambda _p, _i: actions(discrete=[0]))
    driver.steps(100)
    assert driver.returns["Basic"] == pytest.approx([-1.0, -1.0])
    assert driver.endings["Basic"] == [True, True]
    assert driver.lengths["Basic"] == [100, 100]


def test_an_arrival_at_the_hundredth_step_is_a_true_end() -> None:
    moves = iter([0] * 93 + [2] * 7)
    driver = started("basic?agents=1", lambda _p, _i: actions(discrete=[next(moves)]))
    driver.steps(100)
    assert driver.endings["Basic"] == [False]


def test_constant_gives_one_at_every_step_and_is_only_ever_interrupted() -> None:
    driver = started("constant?agents=1")
    driver.steps(60)
    assert driver.returns["Constant"] == [20.0, 20.0, 20.0]
    assert driver.endings["Constant"] == [True] * 3


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_balance_lasts_less_than_60_steps_with_zero_or_random_actions(size: float) -> None:
    rng = np.random.default_rng(0)
    world = open_world("balance", agents=1000, handshake_seed=1, url_seed=0)
    rows = world.reset()["Balance"]
    lengths = np.zeros(1000, np.int64)
    for step in range(1, 501):
        moves = rng.uniform(-size, size, (1000, 2)).astype(np.float32)
        rows = world.step({"Balance": Actions(moves, np.zeros((1000, 0), np.int64))})["Balance"]
        finished = rows.ids[rows.done]
        lengths[finished] = np.where(lengths[finished] == 0, step, lengths[finished])
    assert lengths.all(), "the first episode of each agent has ended"
    assert 10 < lengths.mean() < 60


def test_balance_starts_within_its_bounds_and_shows_eight_numbers() -> None:
    driver = started("balance?agents=500")
    seen = np.array([observations(info)[0] for info in driver.waiting["Balance"]])
    assert seen.shape == (500, 8)
    tilt, place = np.abs(seen[:, :2]) * 45, np.abs(seen[:, [2, 4]]) * 5
    assert 9.5 < tilt.max() <= 10.0
    assert 1.4 < place.max() <= 1.5
    assert not seen[:, 5:].any(), "the ball starts at rest"


def test_balance_ends_with_minus_one_when_the_ball_is_off() -> None:
    driver = started("balance?agents=1", lambda _p, _i: actions(continuous=[1.0, 0.0]))
    while not driver.returns["Balance"]:
        driver.step()
    steps = driver.lengths["Balance"][0]
    assert driver.returns["Balance"] == pytest.approx([0.1 * (steps - 1) - 1.0], abs=1e-5)
    assert driver.endings["Balance"] == [False]


def test_balance_cuts_actions_off_at_one() -> None:
    ends = []
    for size in (1.0, 7.0):
        driver = started("balance?agents=1", lambda _p, _i, size=size: actions(continuous=[size, -size]))  # type: ignore[misc]
        driver.steps(5)
        ends.append(driver.calls[-1])
    assert ends[0] == ends[1]


def test_the_sine_of_balance_is_a_sine_over_the_whole_tilt() -> None:
    angles = np.linspace(-0.5, 0.5, 101)
    assert sine(angles) == pytest.approx(np.sin(angles), abs=2e-6)


def test_masked_leaves_one_key_of_each_colour_and_changes_them_at_every_step() -> None:
    driver = started("masked?agents=20")
    masks = []
    for _ in range(12):
        driver.step()
        masks.append([tuple(info.action_mask) for info in driver.waiting["Masked"]])
    free = np.array([[[not masked for masked in mask] for mask in row] for row in masks])
    assert (free[:, :, :210].reshape(12, 20, 3, 70).sum(axis=3) == 1).all()
    levers = free[:, :, 210:].sum(axis=2)
    assert set(levers.ravel().tolist()) == {1, 2, 3}
    assert (free[1:, :, :210] != free[:-1, :, :210]).any(axis=2).mean() > 0.9


def test_crowd_agents_come_and_go_and_some_steps_have_none() -> None:
    driver = started("crowd?agents=8")
    counts, both, ids = [], 0, set()
    for _ in range(199):
        driver.step()
        infos = pb.UnityMessageProto.FromString(driver.calls[-1]).unity_output.rl_output.agentInfos["Crowd"].value
        done = {info.id for info in infos if info.done}
        waiting = {info.id for info in infos if not info.done}
        counts.append(len(infos))
        both += len(done & waiting)
        ids |= done | waiting
        assert len(waiting) <= 8
    assert min(counts) == 0
    assert len(set(counts)) > 5
    assert both > 5, "no agent ended and began again in one message"
    assert len(ids) > 20, "agents that enter again have new ids"


def test_crowd_keeps_some_agents_out_of_a_message_between_decision_and_outcome() -> None:
    driver = started("crowd?agents=8")
    behind = 0
    for _ in range(20):
        driver.step()
        behind = max(behind, driver.count.decisions - driver.count.agent_steps)
    assert behind > 0


def test_crowd_late_appears_at_env_step_200_and_not_before() -> None:
    driver = started("crowd?agents=3")
    driver.steps(199)
    assert set(driver.specs) == {"Crowd"}
    driver.step()
    assert set(driver.specs) == {"Crowd", "CrowdLate"}
    assert len(driver.waiting["CrowdLate"]) == 3


def test_crowd_late_counts_env_steps_across_resets() -> None:
    driver = started("crowd?agents=3")
    driver.steps(150)
    driver.reset()
    driver.steps(49)
    assert "CrowdLate" not in driver.specs
    driver.step()
    assert "CrowdLate" in driver.specs
    driver.reset()
    assert len(driver.waiting["CrowdLate"]) == 3
