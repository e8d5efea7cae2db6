"""What a Status says of each environment and each behavior."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.experience.brains import EnvId, Incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvStatus:
    """One environment in a Status: where it is and what happened to it."""

    env_id: EnvId
    incarnation: Incarnation
    worker: int
    state: str
    player_pid: int
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainStatus:
    """One behavior in a Status. acted_version: of the newest accepted block."""

    behavior: str
    steps: int
    max_steps: int
    episodes: int
    mean_reward: float | None
    mean_episode_length: float | None
    policy_version: int
    acted_version: int
    policy_sha256: str = ""
