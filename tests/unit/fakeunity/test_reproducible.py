"""The same seeds give the same episodes to the bit, and nothing but the seeds, the agent and the episode decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.scenes.catalogue import SCENES
from fakeunity.scenes.chance import Chance, uniforms
from tests.support.driving import Driver, fixed_choice, observations, rows_of_agent
from tests.unit.fakeunity.opening import started

NAMES = {scene: scene.capitalize() for scene in SCENES} | {
    "gridworld": "GridWorld",
    "walljump": "WallJump",
    "pushblock_group": "PushBlockGroup",
    "soccer": "Soccer?team=0",
    "teacher": "Student",
}
RANDOM = [scene for scene in SCENES if scene not in {"basic", "constant"}]


def calls(url: str, *, seed: int = 5, steps: int = 230) -> list[bytes]:
    driver = started(url, fixed_choice(1), seed=seed)
    driver.steps(steps)
    return driver.calls


@pytest.mark.parametrize("scene", SCENES)
def test_two_players_of_one_seed_send_the_same_bytes(scene: str) -> None:
    assert calls(f"{scene}?agents=5") == calls(f"{scene}?agents=5")


@pytest.mark.parametrize("scene", RANDOM)
@pytest.mark.parametrize("other", [("agents=5", 6), ("agents=5&seed=1", 5)])
def test_another_handshake_or_url_seed_gives_other_episodes(scene: str, other: tuple[str, int]) -> None:
    options, seed = other
    assert calls(f"{scene}?agents=5", steps=3)[2] != calls(f"{scene}?{options}", seed=seed, steps=3)[2]


@pytest.mark.parametrize("scene", SCENES)
def test_an_agent_lives_the_same_life_whoever_is_beside_it(scene: str) -> None:
    few, many = calls(f"{scene}?agents=3"), calls(f"{scene}?agents=17")
    name = NAMES[scene]
    for agent in (0, 2):
        rows = rows_of_agent(few, name, agent)
        assert rows
        assert rows == rows_of_agent(many, name, agent)


def first_observations(driver: Driver, name: str) -> list[list[float]]:
    return [[value for sensor in observations(info) for value in sensor] for info in driver.waiting[name]]


@pytest.mark.parametrize("scene", RANDOM)
def test_a_reset_starts_the_next_episode_and_never_rewinds(scene: str) -> None:
    driver = started(f"{scene}?agents=16", fixed_choice(1))
    starts = [first_observations(driver, NAMES[scene])]
    for _ in range(4):
        driver.reset()
        starts.append(first_observations(driver, NAMES[scene]))
    assert all(a != b for at, a in enumerate(starts) for b in starts[:at])


@pytest.mark.parametrize("scene", ["balance", "hybrid", "masked"])
def test_an_episode_starts_the_same_however_the_one_before_it_ended(scene: str) -> None:
    by_reset = started(f"{scene}?agents=1", fixed_choice(1))
    by_reset.steps(2)
    by_reset.reset()
    by_end = started(f"{scene}?agents=1", fixed_choice(2))
    while not by_end.returns[NAMES[scene]]:
        by_end.step()
    assert first_observations(by_reset, NAMES[scene]) == first_observations(by_end, NAMES[scene])


@given(
    seeds=st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)),
    agents=st.lists(st.integers(0, 2000), min_size=1, max_size=20, unique=True),
    episode=st.integers(0, 10**6),
    moment=st.integers(0, 500),
)
def test_a_draw_does_not_depend_on_who_else_draws(
    seeds: tuple[int, int], agents: list[int], episode: int, moment: int
) -> None:
    chance = Chance(*seeds)
    indices = np.array(agents, np.int64)
    together = uniforms(chance.episodes(indices, np.full(len(agents), episode)), moment, 3)
    alone = [
        uniforms(chance.episodes(indices[n : n + 1], np.array([episode])), moment, 3)[0] for n in range(len(agents))
    ]
    assert (together == np.array(alone)).all()
    assert ((together >= 0) & (together < 1)).all()


def test_draws_are_spread_evenly_and_unrelated() -> None:
    keys = Chance(1, 2).episodes(np.arange(20000), np.zeros(20000, np.int64))
    drawn = uniforms(keys, 0, 2)
    assert np.abs(np.histogram(drawn[:, 0], 10, (0, 1))[0] - 2000).max() < 250
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[1:, 0], drawn[:-1, 0])[0, 1]) < 0.03
    assert len(np.unique(drawn)) == drawn.size


def test_behaviors_of_one_scene_draw_differently() -> None:
    agents, episodes = np.arange(4), np.zeros(4, np.int64)
    assert (Chance(1, 2, 0).episodes(agents, episodes) != Chance(1, 2, 1).episodes(agents, episodes)).all()
