"""Finished episodes and summaries."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.columns import RowKind
from runtime.learner import Summary
from tests.support.experience_streams import Act, Feeder, Row, Step, small_brain, small_learner, small_settings
from trainers.statistics import EpisodeStatistics
from trainers.trajectories import FinishedEpisode

BRAIN = small_brain()


def episode(clock: int, *, agent: int = 0, reward: float = 0.0, group_reward: float = 0.0) -> FinishedEpisode:
    return FinishedEpisode(clock=clock, agent=agent, reward=reward, length=2, group_reward=group_reward)


def test_means_are_over_the_latest_hundred_episodes() -> None:
    statistics = EpisodeStatistics()
    assert statistics.mean_reward is None
    assert statistics.mean_length is None
    for clock in range(150):
        statistics.add(episode(clock, reward=float(clock)), period=0, env_id=0, brain="B")
    assert statistics.count == 150
    assert statistics.mean_reward == sum(range(50, 150)) / 100
    assert statistics.mean_length == 2.0


@given(order=st.permutations(range(130)))
def test_which_episodes_are_the_latest_does_not_depend_on_the_order_of_arrival(order: list[int]) -> None:
    straight, shuffled = EpisodeStatistics(), EpisodeStatistics()
    for statistics, numbers in ((straight, range(130)), (shuffled, order)):
        for number in numbers:
            one = episode(number % 13, agent=number, reward=1.0 / (number + 1))
            statistics.add(one, period=number % 3, env_id=number % 2, brain="B")
    assert straight.recent == shuffled.recent
    assert straight.mean_reward == shuffled.mean_reward
    assert [each.tolist() for each in straight.take_fresh()] == [each.tolist() for each in shuffled.take_fresh()]


def test_the_state_survives_json() -> None:
    statistics = EpisodeStatistics()
    for clock in range(5):
        statistics.add(episode(clock, reward=0.1 * clock, group_reward=1.0), period=1, env_id=2, brain="B")
    assert statistics.pays_groups
    assert EpisodeStatistics.restored(json.loads(json.dumps(statistics.state()))) == statistics


def act_and(*rows: Row) -> Step:
    return Step(tuple(Act(agent=row.agent) for row in rows[:1]), rows)


def test_a_summary_tells_what_happened_since_the_last_one() -> None:
    learner = small_learner(small_settings(summary_freq=4, max_steps=100), brains=[BRAIN])
    feeder = Feeder(learner, BRAIN)
    feeder.reset(Row(agent=1))
    end = Row(agent=1, reward=1.0, group_reward=0.5, kind=RowKind.TERMINAL)
    feeder.steps(act_and(end, Row(agent=1)), act_and(Row(agent=1, reward=2.0)), act_and(end, Row(agent=1)))
    assert learner.take_summaries() == []
    feeder.steps(act_and(Row(agent=1, reward=9.0)))
    learner.finish_update(learner.begin_update("Walker")())
    (summary,) = learner.take_summaries()
    assert (summary.behavior, summary.step) == ("Walker", 4)
    assert (summary.mean_reward, summary.std_reward, summary.mean_group_reward) == (2.0, 1.0, 0.5)
    assert set(summary.values) == {
        "Environment/Cumulative Reward",
        "Environment/Episode Length",
        "Environment/Group Cumulative Reward",
        "Is Training",
        "Losses/Policy Loss",
        "Losses/Value Loss",
        "Policy/Beta",
        "Policy/Entropy",
        "Policy/Epsilon",
        "Policy/Extrinsic Reward",
        "Policy/Extrinsic Value Estimate",
        "Policy/Learning Rate",
    }
    assert summary.values["Environment/Cumulative Reward"] == 2.0
    assert summary.values["Environment/Group Cumulative Reward"] == 0.5
    assert summary.values["Policy/Extrinsic Reward"] == 2.5  # what is learned from is both
    assert summary.values["Environment/Episode Length"] == 1.5
    assert learner.progress()["Walker"].mean_reward == 2.5
    assert summary.values["Is Training"] == 1.0
    assert learner.take_summaries() == []


def test_groups_that_were_paid_once_are_told_of_when_they_earn_nothing_too() -> None:
    learner = small_learner(small_settings(summary_freq=2, max_steps=100), brains=[BRAIN])
    feeder = Feeder(learner, BRAIN)
    feeder.reset(Row(agent=1))
    summaries: list[Summary] = []
    for paid in (0.0, 1.0, 0.0):
        end = Row(agent=1, group_reward=paid, kind=RowKind.TERMINAL)
        feeder.steps(act_and(end, Row(agent=1)), act_and(Row(agent=1)))
        summaries += learner.take_summaries()
    assert [each.mean_group_reward for each in summaries] == [None, 1.0, 0.0]
    tag = "Environment/Group Cumulative Reward"
    assert [each.values.get(tag) for each in summaries] == [None, 1.0, 0.0]


def test_every_multiple_gets_a_summary_and_one_without_episodes_says_so() -> None:
    learner = small_learner(small_settings(summary_freq=2), brains=[BRAIN])
    feeder = Feeder(learner, BRAIN)
    feeder.reset(Row(agent=1))
    feeder.steps(*(act_and(Row(agent=1, reward=1.0)) for _ in range(5)))
    summaries = learner.take_summaries()
    assert [each.step for each in summaries] == [2, 4]
    assert [each.mean_reward for each in summaries] == [None, None]
    assert "Environment/Cumulative Reward" not in summaries[0].values
    assert "Losses/Policy Loss" not in summaries[0].values


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 10_000)), max_size=100))
def test_means_are_those_of_numpy_to_the_bit(episodes: list[tuple[float, int]]) -> None:
    statistics = EpisodeStatistics()
    for number, (reward, length) in enumerate(episodes):
        episode = FinishedEpisode(clock=number, agent=0, reward=reward, length=length, group_reward=0.0)
        statistics.add(episode, period=0, env_id=0, brain="B")
    if not episodes:
        assert (statistics.mean_reward, statistics.mean_length) == (None, None)
        return
    rewards, lengths = zip(*episodes, strict=True)
    assert (statistics.mean_reward, statistics.mean_length) == (float(np.mean(rewards)), float(np.mean(lengths)))
