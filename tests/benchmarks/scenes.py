"""What the bundled scenes that are measured announce."""

from __future__ import annotations

from functools import cache

from fakeunity.rows import BehaviorSpec
from fakeunity.scenes.catalogue import open_world


@cache
def behavior_of(scene: str) -> BehaviorSpec:
    """The scene's first behavior: its wire name, its actions."""
    return open_world(scene, agents=1, handshake_seed=0, url_seed=0).specs[0]
