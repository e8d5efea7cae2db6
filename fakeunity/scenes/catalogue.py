"""The scenes there are. A new one is a file beside this and an entry here; numpy is loaded only when a world opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from fakeunity.protocols import OLDEST

if TYPE_CHECKING:
    from fakeunity.rows import World

AGENTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class SceneCard:
    """What is known of a scene before it is opened.

    best_reward: the highest mean undiscounted return per episode; where a scene has several behaviors, it holds for
    each. agents: how many there are unless somebody asks for another number. since: the oldest protocol that can carry
    it, because it `why_since`, as in "has groups".
    """

    name: str
    world: str
    best_reward: float
    agents: int
    sentence: str
    since: str = OLDEST
    why_since: str = ""


_BOTH_KINDS = "has continuous and discrete actions at once"
_CHANGING = "sees a changing number of things"
_GROUPS = "rewards groups"
_CARDS = (
    SceneCard("basic", "basic:Basic", 0.93, 1, "walk a line of 20 cells to the larger of two prizes"),
    SceneCard("balance", "balance:Balance", 50.0, 4, "keep a rolling ball on a platform that tilts about two axes"),
    SceneCard("constant", "constant:Constant", 20.0, 4, "reward 1 whatever happens, under a time limit of 20 steps"),
    SceneCard(
        "hybrid",
        "hybrid:Hybrid",
        2.0,
        4,
        "point at a target and press two buttons, seen by three sensors",
        since="1.3.0",
        why_since=_BOTH_KINDS,
    ),
    SceneCard("masked", "masked:Masked", 1.0, 4, "press the right one of 210 keys, 207 of which are locked"),
    SceneCard("crowd", "crowd:Crowd", 0.94, 8, "walkers come and go; a second behavior appears at env step 200"),
    SceneCard("gridworld", "gridworld:GridWorld", 1.0, 8, "walk to the plus or the cross, as told, seen from above"),
    SceneCard("hallway", "hallway:Hallway", 1.0, 8, "remember a sign for the length of a hallway, then turn that way"),
    SceneCard("walljump", "walljump:WallJump", 1.0, 8, "run up and jump a wall, whose height is a parameter"),
    SceneCard(
        "pushblock_group",
        "pushblock_group:PushBlockGroup",
        1.0,
        6,
        "push a block that no member of a group can move alone",
        since="1.5.0",
        why_since=_GROUPS,
    ),
    SceneCard("soccer", "soccer:Soccer", 1.0, 4, "two teams of one player each; what one wins the other loses"),
    SceneCard(
        "buffer",
        "buffer:Buffer",
        1.0,
        4,
        "weigh a changing number of stones on a seesaw",
        since="1.5.0",
        why_since=_CHANGING,
    ),
    SceneCard("teacher", "teacher:Teacher", 1.0, 2, "learn from a second brain, which the player plays by itself"),
    SceneCard("vault", "vault:Vault", 1.0, 8, "pull a lever, take a key, open a chest: nothing before that pays"),
)
SCENES: Mapping[str, SceneCard] = MappingProxyType({card.name: card for card in _CARDS})


def open_world(scene: str, *, agents: int, handshake_seed: int, url_seed: int) -> World:
    """A new world of a scene of SCENES with `agents` agents (of each behavior)."""
    # numpy takes longer to load than everything else that a command line needs.
    from fakeunity.scenes.chance import Chance  # noqa: PLC0415 - see above

    module, _, name = SCENES[scene].world.partition(":")
    world: World = getattr(import_module(f"fakeunity.scenes.{module}"), name)(agents, Chance(handshake_seed, url_seed))
    return world
