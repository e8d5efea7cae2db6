"""The model of a player that the machine of an EnvWorker is held against."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Player:
    """The model of one environment: its incarnation, whether an exchange is in flight, and what it may still do."""

    incarnation: int = 0
    in_flight: str = "open"
    is_lost_told: bool = False
    reset_id: int = -1
    newest_reset: int = -1
    taken: int = 0
    until: int = 0
    acted: dict[str, int] = field(default_factory=dict)
    open_steps: int = 0
    agents: int = 0
    more_at: int = 0
    arrived: int = 0
    own: int = 0
