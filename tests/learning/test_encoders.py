"""What an encoder sees is learned from: a world of one step, whose picture says which action pays."""

from __future__ import annotations

import numpy as np
import pytest

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, ImageSpec, Ints, Pixels
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld
from runtime.learner import BehaviorSettings, NetworkSettings, PPOHyperparameters
from tests.support.training import TrainingLoop
from trainers.encoders import ENCODERS

pytestmark = [pytest.mark.learning, pytest.mark.slow]

COLOURS = np.array([[220, 40, 40], [40, 180, 60], [40, 60, 220]], np.uint8)
CORNERS = 4
AGENTS = 32
SIDES = {"match3": 8, "fully_connected": 8, "resnet": 16, "simple": 20, "nature_cnn": 36}
HYPER = PPOHyperparameters(batch_size=64, buffer_size=512, learning_rate=3e-4, learning_rate_schedule="constant")
STEPS_MAX = 8_192


class Colours(SteadyWorld):
    """A patch of one of three colours in one of four corners; the action with its number pays 1, and all is over."""

    steps_max = 100

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.colour: Ints = np.zeros(agents, np.int64)
        self.corner: Ints = np.zeros(agents, np.int64)

    def begin(self, who: Ints) -> None:
        drawn = uniforms(self.keys[who], 0, 2)
        self.colour[who] = (drawn[:, 0] * len(COLOURS)).astype(np.int64)
        self.corner[who] = (drawn[:, 1] * CORNERS).astype(np.int64)

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        return (actions.discrete[:, 0] == self.colour).astype(np.float32), ~self._nobody

    def observe(self) -> tuple[Floats, ...]:
        return ()

    def pictures(self) -> tuple[Ints, ...]:
        return (self.colour * CORNERS + self.corner,)


def seen_by_a_camera_of(side: int) -> Colours:
    """That world with pictures of so many pixels."""

    def paint(number: int) -> Pixels:
        colour, corner = divmod(number, CORNERS)
        picture = np.full((side, side, 3), 128, np.uint8)
        half = side // 2
        top, left = half * (corner // 2), half * (corner % 2)
        picture[top : top + half, left : left + half] = COLOURS[colour]
        return picture

    class Seen(Colours):
        spec = BehaviorSpec(
            f"Colours{side}", (), branches=(len(COLOURS),), images=(ImageSpec("CameraSensor", side, side, paint),)
        )

    return Seen(AGENTS, Chance(1, 0))


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_every_encoder_tells_pictures_apart(encoder: str) -> None:
    network = NetworkSettings(hidden_units=32, num_layers=1, vis_encode_type=encoder)
    settings = BehaviorSettings(hyperparameters=HYPER, network_settings=network, time_horizon=8)
    loop = TrainingLoop("basic", settings, agents=AGENTS, block_steps=16)
    loop.environments[0].world = seen_by_a_camera_of(SIDES[encoder])
    # Once all is right, advantages are noise and nothing more is to be learned: the first 100 good episodes count.
    means = [loop.train(steps).mean_reward or 0.0 for steps in range(1_024, STEPS_MAX, 1_024)]
    assert max(means) >= 0.95, means
