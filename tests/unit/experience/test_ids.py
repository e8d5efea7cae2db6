"""Keys of trajectories and public ids of agents never coincide for different agents, players or episodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.brains import agent_name, parse_agent_name
from runtime.experience.ids import TrajectoryKey, parse_trajectory_name, trajectory_key
from tests.support.strategies_experience import agent_ids

numbers = st.integers(0, 1 << 40)


@given(brain=st.text(), env_id=numbers, incarnation=numbers, agent=agent_ids(), episode=numbers)
def test_a_trajectorys_name_gives_its_key_back(
    brain: str, env_id: int, incarnation: int, agent: int, episode: int
) -> None:
    key = trajectory_key(brain, env_id=env_id, incarnation=incarnation, agent=agent, episode=episode)
    assert parse_trajectory_name(key.name) == key


small = st.builds(
    trajectory_key,
    st.sampled_from(["Bot", "Bot?team=1", "1", "/Bot"]),
    env_id=st.integers(0, 12),
    incarnation=st.integers(0, 12),
    agent=st.one_of(st.integers(-12, 12), agent_ids()),
    episode=st.integers(0, 12),
)


@given(first=small, second=small)
def test_names_and_keys_are_equal_for_the_same_trajectory_only(first: TrajectoryKey, second: TrajectoryKey) -> None:
    assert (first.name == second.name) == (first == second)


def test_a_restarted_player_continues_no_trajectory() -> None:
    old = trajectory_key("Bot", env_id=1, incarnation=0, agent=7, episode=0)
    new = trajectory_key("Bot", env_id=1, incarnation=1, agent=7, episode=0)
    assert old != new
    assert (old.name, new.name) == ("$1-7@0.0/Bot", "$1-7@1.0/Bot")


@pytest.mark.parametrize("wrong", [{"env_id": -1}, {"incarnation": -1}, {"episode": -1}])
def test_negative_places_are_refused(wrong: dict[str, int]) -> None:
    place = {"env_id": 0, "incarnation": 0, "agent": 0, "episode": 0} | wrong
    with pytest.raises(ValueError, match="expected numbers from 0"):
        trajectory_key("Bot", **place)


@pytest.mark.parametrize("name", ["", "$0-1@2.3", "$0-1@2/Bot", "$00-1@2.3/Bot", "0-1@2.3/Bot", "$0-x@2.3/Bot"])
def test_other_texts_are_no_trajectory_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected \$<env>-<agent>@<incarnation>"):
        parse_trajectory_name(name)


@given(env_id=numbers, agent=agent_ids())
def test_an_agents_public_id_gives_environment_and_agent_back(env_id: int, agent: int) -> None:
    assert parse_agent_name(agent_name(env_id, agent)) == (env_id, agent)


@given(first=st.tuples(st.integers(0, 12), agent_ids()), second=st.tuples(st.integers(0, 12), agent_ids()))
def test_public_ids_are_equal_for_the_same_agent_only(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert (agent_name(*first) == agent_name(*second)) == (first == second)
