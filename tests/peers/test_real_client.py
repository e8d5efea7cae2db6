"""The released client of ML-Agents 1.1.0 drives every scene from an installed file."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakeunity.scenes.catalogue import SCENES

CLIENT = os.environ.get("FAKEUNITY_PEER_CLIENT", "")
SCRIPT = Path(__file__).with_name("real_client.py")
STEPS = 300

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not CLIENT, reason="FAKEUNITY_PEER_CLIENT does not name the interpreter of a released client"),
]

# Observation sizes, continuous actions, branches, and the step at which the behavior is first seen.
EXPECTED: dict[str, dict[str, tuple[list[list[int]], int, list[int], int]]] = {
    "basic": {"Basic": ([[20]], 0, [3], 0)},
    "balance": {"Balance": ([[8]], 2, [], 0)},
    "constant": {"Constant": ([[1]], 0, [2], 0)},
    "hybrid": {"Hybrid": ([[1], [2], [3]], 2, [3, 2], 0)},
    "masked": {"Masked": ([[3]], 0, [210, 4], 0)},
    "crowd": {"Crowd": ([[3]], 0, [3], 0), "CrowdLate": ([[1], [2]], 1, [], 200)},
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_released_client_drives_the_scene(
    scene: str, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    file = fake_unity_player(scene, agents=4, journal=tmp_path / "journal")
    command = [CLIENT, str(SCRIPT), str(file), str(free_port), str(STEPS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])  # counts by behavior, as the script prints them
    assert {
        name: (count["observations"], count["continuous"], count["branches"], count["first_step"])
        for name, count in seen.items()
    } == EXPECTED[scene]
    (journal,) = (tmp_path / "journal").iterdir()
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["env_steps"] == STEPS
    assert last["decisions"] == sum(count["decisions"] for count in seen.values())
    if scene == "crowd":
        assert seen["Crowd"]["agents_min"] == 0
    assert all(count["terminals"] for count in seen.values())


def test_the_same_seed_gives_the_client_the_same_rewards(
    fake_unity_player: Callable[..., Path], free_port: int
) -> None:
    file = fake_unity_player("hybrid", agents=4)
    command = [CLIENT, str(SCRIPT), str(file), str(free_port), "50"]
    outputs = [
        subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()[-1]
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1]
