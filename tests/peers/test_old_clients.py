"""The released clients of 2019 see in every scene of their time what a player of their version in memory tells."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fakeunity.memory import open_player
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import from_options
from runtime.players.wire import communicator_gen1_pb2 as pb
from tests.peers.old_play import memories
from tests.peers.released import interpreter, needs, run_client
from tests.support.gen1_driving import Gen1Driver, acts

pytestmark = needs("client-0.9.3")

CLIENTS = {"client-0.8.2": "API-8", "client-0.9.3": "API-9"}
SCENES_OF_THEIR_TIME = [name for name, card in SCENES.items() if card.since == "API-8"]
STEPS = 60
Document = dict[str, Any]  # JSON: what the script prints


def act(brain: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """What the client's script does, remembers and says."""
    action = acts(brain, info)
    vector = list(info.stacked_vector_observation)
    action.memories.extend(memories(vector))
    action.text_actions = f"{len(vector)}"
    return action


def noted(brain: pb.BrainParametersProto, info: pb.AgentInfoProto, client: str) -> list[Any]:
    """An agent's row as the client's script notes it."""
    width = sum(brain.vector_action_size) if brain.vector_action_space_type == pb.discrete else 0
    allowed = [int(not masked) for masked in info.action_mask] or [1] * width
    return [
        info.id if client == "client-0.8.2" else f"$0-{info.id}",
        info.reward,
        info.done,
        info.max_step_reached,
        list(info.stacked_vector_observation),
        list(info.stored_vector_actions),
        list(info.memories),
        info.text_observation,
        allowed,
        [int(np.asarray(Image.open(io.BytesIO(file))).sum()) for file in info.visual_observations],
    ]


def in_memory(
    client: str, scene: str, options: Mapping[str, str], steps: int, parameters: Mapping[str, float]
) -> Document:
    """What a player in memory tells over the same run, in the client's terms."""
    driver = Gen1Driver(open_player(from_options(scene, list(options.items()))), act, seed=3)
    driver.start(parameters)
    seen: list[Any] = []

    def note() -> None:
        brains = driver.brains.items()
        rows = {name: [noted(brain, info, client) for info in driver.infos(name)] for name, brain in brains}
        for told in rows.values():
            # The clients fill memories up to the longest of a brain.
            longest = max((len(row[6]) for row in told), default=0)
            for row in told:
                row[6] += [0.0] * (longest - len(row[6]))
        seen.append([driver.latest.global_done, rows])

    for _ in range(steps):
        note()
        # The client resends the parameters that it sent first.
        driver.reset(parameters) if driver.latest.global_done else driver.step()
    note()
    driver.reset(parameters)
    note()
    external = [name for name, brain in driver.brains.items() if brain.is_training]
    return {"brains": sorted(driver.brains), "external": external, "defaults": driver.defaults, "seen": seen}


def check(
    play: tuple[Path, int],
    client: str,
    scene: str,
    options: Mapping[str, str],
    *,
    steps: int = STEPS,
    parameters: Mapping[str, float] | None = None,
) -> Document:
    """The client's run of that file equals the run in memory; gives back what was seen."""
    file, port = play
    sent = dict(parameters or {})
    seen: Document = run_client(client, "old_client.py", str(file), str(port), str(steps), json.dumps(sent))
    expected = in_memory(client, scene, options, steps, sent)
    for step, (is_seen, is_expected) in enumerate(zip(seen.pop("seen"), expected["seen"], strict=True)):
        assert without_masks_of_nobody(is_seen) == without_masks_of_nobody(is_expected), step
    assert seen == {key: value for key, value in expected.items() if key != "seen"}
    return expected


def without_masks_of_nobody(told: list[Any]) -> list[Any]:
    """The same, but of continuous brains no mask: the clients make one up for them."""
    is_done, brains = told
    return [
        is_done,
        {
            name: [[*row[:8], row[8] if len(row[8]) > 2 else [], row[9]] for row in rows]
            for name, rows in brains.items()
        },
    ]


@pytest.mark.parametrize("scene", SCENES_OF_THEIR_TIME)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_2019_sees_what_the_player_tells(
    client: str, scene: str, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    options = {"agents": "3", "protocol": CLIENTS[client]}
    file = fake_unity_player(scene, **options, journal=tmp_path / "journal")
    expected = check((file, free_port), client, scene, options, steps=210 if scene == "crowd" else STEPS)
    (journal,) = (tmp_path / "journal").iterdir()
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["env_steps"] == len(expected["seen"]) - 2
    assert last["episodes"] == sum(row[2] for _, brains in expected["seen"] for rows in brains.values() for row in rows)


def test_reset_parameters_reach_the_scene(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    options = {"agents": "2", "protocol": "API-9"}
    file = fake_unity_player("walljump", **options)
    seen = check((file, free_port), "client-0.9.3", "walljump", options, parameters={"wall_height": 3.0})
    assert seen["defaults"] == {"wall_height": 0.0}
    assert seen["seen"][0][1]["WallJump"][0][4][19] == 0.75


@pytest.mark.parametrize("client", CLIENTS)
def test_an_academy_with_an_end_is_done_for_the_client_too(
    client: str, fake_unity_player: Callable[..., Path], free_port: int
) -> None:
    options = {"agents": "3", "protocol": CLIENTS[client], "academy_steps": "7"}
    file = fake_unity_player("balance", **options)
    seen = check((file, free_port), client, "balance", options, steps=30)
    assert [step for step, (is_done, _) in enumerate(seen["seen"]) if is_done] == [7, 15, 23]


def test_stacked_vectors_are_what_the_client_expects(fake_unity_player: Callable[..., Path], free_port: int) -> None:
    options = {"agents": "2", "protocol": "API-9", "stack": "3"}
    seen = check((fake_unity_player("masked", **options), free_port), "client-0.9.3", "masked", options)
    assert len(seen["seen"][0][1]["Masked"][0][4]) == 9


def test_a_client_refuses_a_player_of_another_version_and_the_player_ends(
    fake_unity_player: Callable[..., Path], free_port: int
) -> None:
    file = fake_unity_player("basic", protocol="API-8")
    with pytest.raises(AssertionError, match="API-8") as caught:
        run_client("client-0.9.3", "old_client.py", str(file), str(free_port), "1", "{}")
    assert "API-9" in str(caught.value)
    assert interpreter("client-0.9.3")
