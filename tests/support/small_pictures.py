"""A player of `gridworld` whose camera gives 36x36 pixels, as an executable that a run can launch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fakeunity import grpc_player
from fakeunity.memory import MemoryPlayer, open_dialect
from fakeunity.parameters import Parameters
from fakeunity.player import Player
from fakeunity.rows import Actions, BehaviorSpec, Pixels, Rows, World
from fakeunity.scenes.gridworld import PIXELS, paint
from fakeunity.spec import parse_url

ROOT = Path(__file__).parents[2]
SIDE = 36
CONNECT_S = 60.0
_PLACES = np.arange(SIDE) * PIXELS // SIDE


def paint_small(number: int) -> Pixels:
    """Every second or third pixel of the picture of that number."""
    small: Pixels = paint(number)[_PLACES][:, _PLACES]
    return small


class SmallPictures:
    """`world` with another camera; everything else is its own."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """The world's own, with the small camera."""
        (spec,) = self._world.specs
        (image,) = spec.images
        return (replace(spec, images=(replace(image, height=SIDE, width=SIDE, paint=paint_small),)),)

    @property
    def parameters(self) -> Parameters:
        """The world's own."""
        return self._world.parameters

    def reset(self) -> Mapping[str, Rows]:
        """The world's own."""
        return self._world.reset()

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """The world's own."""
        return self._world.step(actions)

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """The world's own."""
        return self._world.default_actions(spec, rows)


def small_pictures_executable(folder: Path) -> Path:
    """A file that starts such a player, as a Unity build is started."""
    file = folder / "small.x86_64"
    file.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.small_pictures import main\nmain(sys.argv[1:])\n"
    )
    file.chmod(0o755)
    return file


def main(words: Sequence[str]) -> None:
    """Plays for the trainer whose port stands in the words."""
    port = int(words[words.index("--mlagents-port") + 1])
    dialect = open_dialect(parse_url("fake:gridworld"))
    player = Player("gridworld", agents=2, seed=0, journal=None, dialect=dialect, wrap=SmallPictures)
    grpc_player.run(MemoryPlayer(player, None), port, connect_s=CONNECT_S, report=lambda _text: None)
