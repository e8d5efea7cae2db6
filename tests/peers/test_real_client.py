"""The released client of 1.1.0 sees in every scene, and every version of 1.x, what a player in memory tells."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fakeunity.memory import open_player
from fakeunity.protocols import since
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import from_options
from runtime.players.wire import communicator_pb2 as pb
from tests.peers.old_play import decision
from tests.peers.released import needs, run_client
from tests.support.driving import Driver

pytestmark = needs("client-1.1.0")

STEPS = 220
STEPS_OF_OTHER_VERSIONS = 40
GEN2 = since("1.0.0")

# Observation sizes, continuous actions, branches, and the step at which the behavior is first seen.
EXPECTED: dict[str, dict[str, tuple[list[list[int]], int, list[int], int]]] = {
    "basic": {"Basic": ([[20]], 0, [3], 0)},
    "balance": {"Balance": ([[8]], 2, [], 0)},
    "constant": {"Constant": ([[1]], 0, [2], 0)},
    "hybrid": {"Hybrid": ([[1], [2], [3]], 2, [3, 2], 0)},
    "masked": {"Masked": ([[3]], 0, [210, 4], 0)},
    "crowd": {"Crowd": ([[3]], 0, [3], 0), "CrowdLate": ([[1], [2]], 1, [], 200)},
    "gridworld": {"GridWorld": ([[3, 84, 84], [2]], 0, [5], 0)},
    "hallway": {"Hallway": ([[8]], 0, [4], 0)},
    "walljump": {"WallJump": ([[20]], 0, [3, 3, 3, 2], 0)},
    "pushblock_group": {"PushBlockGroup": ([[17]], 0, [3], 0)},
    "soccer": {f"Soccer?team={team}": ([[50]], 0, [5], 0) for team in range(2)},
    "buffer": {"Buffer": ([[8, 2]], 0, [2], 0)},
    "teacher": {"Student": ([[8]], 0, [4], 0), "Teacher": ([[8]], 0, [4], 0)},
    "vault": {"Vault": ([[22]], 0, [5], 0)},
}
Document = dict[str, Any]  # JSON: what the script prints


def versions_of(scene: str) -> tuple[str, ...]:
    """The versions of 1.x that can carry a scene."""
    return tuple(version for version in GEN2 if version in since(SCENES[scene].since))


def vector_of(info: pb.AgentInfoProto) -> list[float]:
    return [value for sensor in info.observations for value in sensor.float_data.data]


def act(brain: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """What the client's script does."""
    spec, vector = brain.action_spec, vector_of(info)
    action = pb.AgentActionProto()
    if spec.num_continuous_actions:
        action.continuous_actions.extend(decision(vector, (), spec.num_continuous_actions, ()))
    if spec.discrete_branch_sizes:
        allowed = [not masked for masked in info.action_mask]
        chosen = decision(vector, allowed, 0, spec.discrete_branch_sizes)
        action.discrete_actions.extend(int(branch) for branch in chosen)
    return action


def noted(info: pb.AgentInfoProto) -> list[Any]:
    """An agent's row as the client's script notes it."""
    files = [sensor.compressed_data for sensor in info.observations if sensor.compressed_data]
    pixels = [int(np.asarray(Image.open(io.BytesIO(file))).sum()) for file in files]
    facts = [info.id, info.reward, info.group_id, info.group_reward, info.done, info.max_step_reached]
    return [*facts, vector_of(info), pixels]


def in_memory(scene: str, steps: int) -> list[Document]:
    """What a player in memory tells in that many messages, in the client's terms."""
    driver = Driver(open_player(from_options(scene, [("agents", "4")])), act, seed=3)
    driver.start()
    told = []
    for _ in range(steps):
        output = pb.UnityMessageProto.FromString(driver.calls[-1]).unity_output.rl_output
        rows = {name: sorted(infos.value, key=lambda info: not info.done) for name, infos in output.agentInfos.items()}
        told.append({name: [noted(info) for info in infos] for name, infos in rows.items()})
        driver.step()
    return told


@pytest.mark.parametrize("scene", SCENES)
def test_the_released_client_sees_what_the_player_tells_in_every_version(
    scene: str, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    versions = versions_of(scene)
    files = [fake_unity_player(scene, agents=4, protocol=v, journal=tmp_path / f"journal-{v}") for v in versions]
    lengths = [STEPS if version == "1.5.0" else STEPS_OF_OTHER_VERSIONS for version in versions]
    plays = [[str(file), steps] for file, steps in zip(files, lengths, strict=True)]
    told = in_memory(scene, STEPS)
    for version, seen in zip(
        versions, run_client("client-1.1.0", "real_client.py", str(free_port), json.dumps(plays)), strict=True
    ):
        if scene == "gridworld" and version != "1.5.0":
            # Pictures of that time have their channels last, and this client does not know that there was such a time.
            assert "Decompressed observation did not have the expected shape" in seen["refused"]
            continue
        assert seen["seen"] == told[: len(seen["seen"])], version
        assert {
            name: (spec["observations"], spec["continuous"], spec["branches"], spec["first_step"])
            for name, spec in seen["specs"].items()
        } == {name: spec for name, spec in EXPECTED[scene].items() if spec[3] < len(seen["seen"])}
        check_journal(tmp_path / f"journal-{version}", seen["seen"])


def check_journal(folder: Path, seen: list[Document]) -> None:
    """The player's own account agrees with what the client noted."""
    (journal,) = folder.iterdir()
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["env_steps"] == len(seen)
    assert last["decisions"] == sum(not row[4] for told in seen for rows in told.values() for row in rows)


def test_the_client_is_told_what_its_observations_mean(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    plays = [[str(fake_unity_player(scene)), 1] for scene in ("gridworld", "buffer")]
    grid, buffer = run_client("client-1.1.0", "real_client.py", str(free_port), json.dumps(plays))
    spec = grid["specs"]["GridWorld"]
    assert (spec["names"], spec["kinds"]) == (["CameraSensor", "VectorSensor_size2"], ["DEFAULT", "GOAL_SIGNAL"])
    assert spec["properties"] == [[1, 2, 2], [1]]
    assert buffer["specs"]["Buffer"]["properties"] == [[4, 1]]


def test_stacked_pictures_reach_the_client(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    plays = [[str(fake_unity_player("gridworld", agents=2, stack=3)), 30]]
    (seen,) = run_client("client-1.1.0", "real_client.py", str(free_port), json.dumps(plays))
    assert seen["specs"]["GridWorld"]["observations"] == [[9, 84, 84], [2]]
    first, later = (seen["seen"][step]["GridWorld"][0][7][0] for step in (0, 20))
    assert later > 2.5 * first, "two of three pictures are black at first"


@pytest.mark.parametrize("scene", ["crowd", "hybrid", "masked", "pushblock_group"])
def test_the_released_client_keeps_the_contract_that_clients_are_checked_for(
    scene: str, fake_unity_player: Callable[..., Path], free_port: int
) -> None:
    facts = run_client("client-1.1.0", "checked_client.py", str(fake_unity_player(scene)), str(free_port), "60")
    assert facts["decisions"] > 60
    assert facts["behaviors"] == list(EXPECTED[scene])[:1]
