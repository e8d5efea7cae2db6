"""Keys of trajectories: whose experience it is, over all environments, restarts and episodes of a run."""

from __future__ import annotations

import re
from typing import NamedTuple

from runtime.experience.brains import EnvId, Incarnation, agent_name

_NAME = re.compile(r"\$(0|[1-9]\d*)-(-?\d+)@(\d+)\.(\d+)/(.*)", re.ASCII | re.DOTALL)


class TrajectoryKey(NamedTuple):
    """One episode of one agent. A restarted player has another incarnation, so its ids continue no old trajectory.

    brain: wire name. agent: the player's id, any int64. episode: counts the agent's episodes in the incarnation from 0.
    """

    brain: str
    env_id: EnvId
    incarnation: Incarnation
    agent: int
    episode: int

    @property
    def name(self) -> str:
        """As text, like `$0-12@1.3/Basic`: agent, incarnation, episode, brain. Different keys have different names."""
        return f"{agent_name(self.env_id, self.agent)}@{self.incarnation}.{self.episode}/{self.brain}"


def trajectory_key(brain: str, *, env_id: int, incarnation: int, agent: int, episode: int) -> TrajectoryKey:
    """The key of an agent's episode. Raises ValueError for a negative environment, incarnation or episode."""
    if min(env_id, incarnation, episode) < 0:
        msg = (
            f"environment {env_id}, incarnation {incarnation} and episode {episode} cannot key a trajectory; expected "
            "numbers from 0"
        )
        raise ValueError(msg)
    return TrajectoryKey(brain, EnvId(env_id), Incarnation(incarnation), agent, episode)


def parse_trajectory_name(name: str) -> TrajectoryKey:
    """The key of a name. Raises ValueError for any other text."""
    found = _NAME.fullmatch(name)
    if found is None:
        msg = f"{name!r} is not the name of a trajectory; expected $<env>-<agent>@<incarnation>.<episode>/<brain>"
        raise ValueError(msg)
    env_id, agent, incarnation, episode = (int(each) for each in found.groups()[:4])
    return trajectory_key(found[5], env_id=env_id, incarnation=incarnation, agent=agent, episode=episode)
