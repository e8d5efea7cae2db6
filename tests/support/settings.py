"""Settings parsed from a text, as tests need them."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.settings import RunSettings, Surroundings, parse_run_settings

SCENES = frozenset(
    {
        *("basic", "balance", "constant", "hybrid", "masked", "crowd", "hallway", "walljump"),
        *("pushblock_group", "soccer", "buffer", "teacher", "gridworld", "vault"),
    }
)

BASE = """\
behaviors:
  Bot:
    trainer_type: ppo
    hyperparameters:
      batch_size: 32
      buffer_size: 128
    max_steps: 2000
    time_horizon: 16
    summary_freq: 200
env_settings:
  seed: 7
"""


def surroundings(
    *,
    seed: int = 1,
    cores: int = 2,
    check_scene_url: Callable[[str], object] | None = None,
) -> Surroundings:
    return Surroundings(scenes=SCENES, rng=random.Random(seed), cores=cores, check_scene_url=check_scene_url)


def parse(*argv: str, around: Surroundings | None = None) -> RunSettings:
    """The settings of a command line."""
    return parse_run_settings(argv, around or surroundings(), version="1.2.3")


def parse_text(folder: Path, text: str | bytes, argv: Sequence[str] = ("--env", "fake:basic")) -> RunSettings:
    """The settings of a configuration called trainer.yaml, and of flags."""
    path = folder / "trainer.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return parse(str(path), *argv)
