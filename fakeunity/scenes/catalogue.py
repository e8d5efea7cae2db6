"""The scenes there are. A new one is a file beside this and an entry here; numpy is loaded only when a world opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeunity.rows import World

AGENTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class SceneCard:
    """What is known of a scene before it is opened.

    best_reward: the highest mean undiscounted return per episode; where a scene has several behaviors, it holds for
    each. agents: how many there are unless somebody asks for another number.
    """

    name: str
    world: str
    best_reward: float
    agents: int
    sentence: str


_CARDS = (
    SceneCard("basic", "basic:Basic", 0.93, 1, "walk a line of 20 cells to the larger of two prizes"),
    SceneCard("balance", "balance:Balance", 50.0, 4, "keep a rolling ball on a platform that tilts about two axes"),
    SceneCard("constant", "constant:Constant", 20.0, 4, "reward 1 whatever happens, under a time limit of 20 steps"),
    SceneCard("hybrid", "hybrid:Hybrid", 2.0, 4, "point at a target and press two buttons, seen by three sensors"),
    SceneCard("masked", "masked:Masked", 1.0, 4, "press the right one of 210 keys, 207 of which are locked"),
    SceneCard("crowd", "crowd:Crowd", 0.94, 8, "walkers come and go; a second behavior appears at env step 200"),
)
SCENES: Mapping[str, SceneCard] = MappingProxyType({card.name: card for card in _CARDS})


def open_world(scene: str, *, agents: int, handshake_seed: int, url_seed: int) -> World:
    """A new world of a scene of SCENES with `agents` agents (of each behavior)."""
    # numpy takes longer to load than everything else that a command line needs.
    from fakeunity.scenes.chance import Chance  # noqa: PLC0415 - see above

    module, _, name = SCENES[scene].world.partition(":")
    world: World = getattr(import_module(f"fakeunity.scenes.{module}"), name)(agents, Chance(handshake_seed, url_seed))
    return world
