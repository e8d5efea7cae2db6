"""What a behavior reports: finished episodes, and the means of a summary."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from runtime.learner import BehaviorSettings, Summary
from trainers.reward_signals.factory import signals_of
from trainers.schedules import scheduled_values
from trainers.trajectories import FinishedEpisode

Doubles = npt.NDArray[np.float64]

RECENT_EPISODES = 100

EpisodeKey = tuple[int, int, int, str, int]
"""(updates begun, env step, environment, brain, agent): a total order that the cutting into blocks does not change."""


@dataclass(slots=True)
class EpisodeStatistics:
    """Finished training episodes: how many, the latest 100, and those since the last summary.

    The latest are the greatest by `EpisodeKey`, not the last to arrive, so that one worker with four environments and
    four with one report the same means to the bit. pays_groups: True once an episode had a reward of its group.
    """

    count: int = 0
    recent: list[tuple[EpisodeKey, float, int]] = field(default_factory=list)
    fresh: list[tuple[float, int, float]] = field(default_factory=list)
    pays_groups: bool = False

    def add(self, episode: FinishedEpisode, *, period: int, env_id: int, brain: str) -> None:
        """Counts one finished episode."""
        self.count += 1
        key = (period, episode.clock, env_id, brain, episode.agent)
        insort(self.recent, (key, episode.reward + episode.group_reward, episode.length))
        del self.recent[: -RECENT_EPISODES or None]
        self.pays_groups = self.pays_groups or episode.group_reward != 0.0
        self.fresh.append((episode.reward, episode.length, episode.group_reward))

    @property
    def mean_reward(self) -> float | None:
        """Mean undiscounted return of the latest episodes, rewards of groups included; None without any."""
        return _mean([reward for _, reward, _ in self.recent])

    @property
    def mean_length(self) -> float | None:
        """Mean number of agent steps of the latest episodes; None without any."""
        return _mean([length for _, _, length in self.recent])

    def take_fresh(self) -> tuple[Doubles, Doubles, Doubles]:
        """float64 (n,) each: own rewards, lengths, group rewards since the last call, in an order of their own."""
        rows = np.asarray(sorted(self.fresh), np.float64).reshape(-1, 3)
        self.fresh = []
        return rows[:, 0], rows[:, 1], rows[:, 2]

    def state(self) -> dict[str, object]:
        """As JSON, independent of what happens later."""
        return {
            "count": self.count,
            "recent": list(self.recent),
            "fresh": list(self.fresh),
            "pays_groups": self.pays_groups,
        }

    @staticmethod
    def restored(state: Mapping[str, object]) -> EpisodeStatistics:
        """From `state()`, read back from JSON."""
        count, recent, fresh = state["count"], state["recent"], state["fresh"]
        assert isinstance(count, int)
        assert isinstance(recent, list)
        assert isinstance(fresh, list)
        return EpisodeStatistics(
            count,
            [(tuple(key), reward, length) for key, reward, length in recent],
            [(reward, length, group_reward) for reward, length, group_reward in fresh],
            bool(state.get("pays_groups", False)),
        )


def _mean(values: Sequence[float]) -> float | None:
    """`np.mean` to the bit, in half the time for the few that they are; None without any."""
    return float(np.add.reduce(np.array(values, np.float64)) / len(values)) if values else None


@dataclass(slots=True)
class SummaryWriter:
    """Makes a Summary of one behavior at each multiple of `summary_freq`."""

    next_step: int
    updates: list[dict[str, float]] = field(default_factory=list)

    def take(
        self,
        behavior: str,
        settings: BehaviorSettings,
        *,
        steps: int,
        episodes: EpisodeStatistics,
        is_training: bool,
    ) -> list[Summary]:
        """The summaries that are due after `steps` agent steps, oldest first.

        When several multiples passed at once, the first tells what happened and the others hold the schedules alone.
        """
        summaries = []
        while self.next_step <= steps:
            rewards, lengths, group_rewards = episodes.take_fresh()
            has_groups = bool(len(rewards)) and episodes.pays_groups
            values = self._values(settings, steps=self.next_step, is_training=is_training)
            per_step = {tag: values.pop(tag) for tag in reward_tags(settings) if tag in values}
            if len(rewards):
                values["Environment/Cumulative Reward"] = float(rewards.mean())
                values["Environment/Episode Length"] = float(lengths.mean())
                values |= _returns(settings, float((rewards + group_rewards).mean()), per_step, float(lengths.mean()))
                if has_groups:
                    values["Environment/Group Cumulative Reward"] = float(group_rewards.mean())
            summaries.append(
                Summary(
                    behavior=behavior,
                    step=self.next_step,
                    mean_reward=float(rewards.mean()) if len(rewards) else None,
                    std_reward=float(rewards.std()) if len(rewards) else None,
                    mean_group_reward=float(group_rewards.mean()) if has_groups else None,
                    values=values,
                ),
            )
            self.next_step += settings.summary_freq
        return summaries

    def _values(self, settings: BehaviorSettings, *, steps: int, is_training: bool) -> dict[str, float]:
        scheduled = scheduled_values(settings.hyperparameters, steps=steps, max_steps=settings.max_steps)
        values = {"Is Training": float(is_training)}
        if is_training:
            values["Policy/Learning Rate"] = scheduled.learning_rate
            if settings.trainer_type == "ppo":
                values["Policy/Epsilon"] = scheduled.epsilon
                values["Policy/Beta"] = scheduled.beta
        for tag in sorted({tag for update in self.updates for tag in update}):
            values[tag] = float(np.mean([update[tag] for update in self.updates if tag in update]))
        self.updates = []
        return values


def reward_tags(settings: BehaviorSettings) -> tuple[str, ...]:
    """Tags of the signals that updates tell of: there they are means per agent step."""
    return tuple(each.network.reward_tag for each in signals_of(settings) if each.network.has_weights)


def _returns(
    settings: BehaviorSettings, earned: float, per_step: Mapping[str, float], length: float
) -> dict[str, float]:
    """Mean returns per episode by tag; earned: of the player's rewards; length: of an episode.

    Most episodes span several updates. What a step brings, times the mean length, is a return as comparable as one of
    the player's.
    """
    found = {
        each.network.reward_tag: earned * each.strength for each in signals_of(settings) if not each.network.has_weights
    }
    return found | {tag: value * length for tag, value in per_step.items()}
