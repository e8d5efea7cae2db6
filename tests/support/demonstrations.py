"""Demonstrations made of numbers, for tests of what learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from runtime.experience.brains import BrainParameters
from runtime.experience.demonstrations import Demonstration, DemonstrationMeta
from tests.support.experience_streams import observation_rows


def demonstration_of(
    brain: BrainParameters, *, records: int = 40, episode: int = 10, seed: int = 0, masked: bool = False
) -> Demonstration:
    """Episodes of `episode` records each, the last of which is an end; what is done follows from what is seen.

    Of what is seen, x in -1..1, the first continuous action is x / 2, the others 0; index 1 is chosen where x > 0.
    """
    rng, spec = np.random.default_rng(seed), brain.action_spec
    x = rng.uniform(-1.0, 1.0, records).astype(np.float32)
    continuous = np.zeros((records, spec.continuous_size), np.float32)
    continuous[:, :1] = x[:, None] / 2
    last = np.asarray(spec.discrete_branches, np.int32) - 1
    discrete = np.minimum((x > 0).astype(np.int32)[:, None], last)
    done = (np.arange(records) % episode) == episode - 1
    masks = None
    if masked:
        masks = np.ones((records, spec.mask_size), np.bool_)
        masks[::3, spec.discrete_branches[0] - 1] = False
    return Demonstration(
        meta=DemonstrationMeta(name="test", api_version=1, steps=records, episodes=int(done.sum()), mean_reward=0.0),
        generation=2,
        brain=brain,
        observations=tuple(observation_rows(each, x, index) for index, each in enumerate(brain.observation_specs)),
        rewards=np.zeros(records, np.float32),
        group_rewards=np.zeros(records, np.float32),
        done=done,
        interrupted=np.zeros(records, np.bool_),
        agents=np.ones(records, np.int64),
        continuous=continuous,
        discrete=discrete,
        masks=masks,
    )


def reads(*demonstrations: Demonstration) -> Callable[[str], Sequence[Demonstration]]:
    """A reader of demonstrations that finds these under every path."""

    def read(path: str) -> Sequence[Demonstration]:
        assert Path(path).suffix == ".demo"
        return demonstrations

    return read
