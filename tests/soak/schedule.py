"""Who is killed when: a plan drawn from a seed, cut into legs. A leg is one life of the training command."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Victim = Literal["player", "worker", "holder", "controller", "launcher"]
Ends = Literal["killed", "interrupted", "completed"]

VICTIMS: Final[tuple[Victim, ...]] = ("player", "worker", "holder", "controller", "launcher")
PARTS: Final[tuple[Victim, ...]] = ("player", "worker", "holder")
WEIGHTS: Final = (5, 3, 2)
HEARTS: Final[tuple[Victim, ...]] = ("launcher", "controller")
KILLS_PER_MINUTE: Final = 15.0
KILLS_PER_MINUTE_MIN: Final = 200 / 15
HEART_EVERY: Final = 20
HEART_COST_S: Final = 7.0
NOTICE_COST_S: Final = 0.3
FRESH_S: Final = 3.0
LATEST_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One kill of the plan.

    number: from 1. which: of the players or EnvWorkers, modulo their number. gap: the pause before it, in shares of the
    mean pause, 0 to 2. is_sync: the collection of its run. is_fresh: the run is ended in order first, and this one dies
    soon after it was started again.
    """

    number: int
    victim: Victim
    which: int = 0
    gap: float = 1.0
    is_sync: bool = False
    is_fresh: bool = False

    @property
    def ends_run(self) -> bool:
        """Whether the run ends with this one."""
        return self.victim in HEARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One life of the command: its kills, and how it ends after them."""

    number: int
    is_sync: bool
    kills: tuple[Planned, ...]
    ends: Ends

    @property
    def title(self) -> str:
        """In words."""
        return f"leg {self.number} ({'sync' if self.is_sync else 'async'})"


def kills_planned(minutes: float) -> int:
    """How many kills a marathon of so many minutes plans: some more than it must reach."""
    return max(1, round(minutes * KILLS_PER_MINUTE))


def kills_wanted(minutes: float) -> int:
    """How many kills it must reach: 200 in 15 minutes."""
    return max(1, int(minutes * KILLS_PER_MINUTE_MIN))


def plan(seed: int, count: int, heart_every: int = HEART_EVERY) -> tuple[Planned, ...]:
    """`count` kills. Every `heart_every`-th ends the run: launcher and TrainerController in turn.

    Half of these come in a run that has lasted, half in one that has just been started; synchronous and asynchronous
    runs alternate. Each kill depends on the seed and its own number only, so a part of the plan can be repeated alone.
    """
    return tuple(_planned(seed, number, heart_every) for number in range(1, count + 1))


def _planned(seed: int, number: int, heart_every: int) -> Planned:
    rng = random.Random(f"{seed} {number}")
    gap, which, turn = rng.uniform(0.0, 2.0), rng.randrange(1 << 16), (number - 1) // heart_every
    # All eight kinds of end come in turn: (launcher or controller) x (sync or async) x (lasted or fresh).
    is_sync, is_fresh = (turn + turn // 2) % 2 == 1, (turn // 2 + turn // 4) % 2 == 1
    if number % heart_every:
        victim, is_fresh = rng.choices(PARTS, WEIGHTS)[0], False
    else:
        victim = HEARTS[turn % 2]
    return Planned(number=number, victim=victim, which=which, gap=gap, is_sync=is_sync, is_fresh=is_fresh)


def legs(kills: Sequence[Planned]) -> tuple[Leg, ...]:
    """The lives that these kills make up; one more is left to complete."""
    found: list[tuple[tuple[Planned, ...], Ends]] = []
    gathered: list[Planned] = []
    for kill in kills:
        if kill.is_fresh and gathered:
            found.append((tuple(gathered), "interrupted"))
            gathered = []
        gathered.append(kill)
        if kill.ends_run:
            found.append((tuple(gathered), "killed"))
            gathered = []
    if gathered:
        found.append((tuple(gathered), "interrupted"))
    found.append(((), "completed"))
    return tuple(
        Leg(number=number, is_sync=not of_leg or of_leg[0].is_sync, kills=of_leg, ends=ends)
        for number, (of_leg, ends) in enumerate(found, start=1)
    )


def pause_s(kill: Planned, *, left_s: float, left: Sequence[Planned]) -> float:
    """Seconds to wait before `kill`, so that all of `left` (it is the first of them) fit into `left_s`."""
    if kill.is_fresh:
        return kill.gap * FRESH_S
    hearts = sum(1 + each.is_fresh for each in left if each.ends_run)
    mean_s = (left_s - hearts * HEART_COST_S) / max(1, len(left)) - NOTICE_COST_S
    return min(kill.gap * max(0.0, mean_s), max(0.0, left_s - LATEST_S))
