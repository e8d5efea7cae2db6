"""Released clients and our trainer say the same for the same actions, and the released trainer reads our recordings."""

import json
from pathlib import Path

import numpy as np
import pytest

from runtime.experience.actions import Actions
from runtime.experience.demonstrations import demonstrated_steps
from runtime.experience.infos import observation_floats
from runtime.experience.parameters import GaussianDraw, MultiRangeDraw, ParameterValue, UniformDraw
from runtime.players import replies, replies_gen1
from runtime.players.demonstrations import read_demonstration
from runtime.players.side_channels import EngineSettings, engine_configuration, environment_parameters
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb2
from tests.peers.released import interpreter, run_client
from tests.unit.players.test_demonstrations import record_two_episodes

pytestmark = pytest.mark.peers
SIZES = {"Long": (9, 2, 2), "Short?team=1": (2, 0, 3), "Floats": (3, 3, 0)}


def need(peer: str) -> None:
    if not interpreter(peer):
        pytest.skip(f"FAKEUNITY_PEERS names no folder with {peer}, as tests/peers/build_peer.py builds it")


def drawn(count: int, continuous: int, branches: int, *, keeps: bool = False) -> Actions:
    rng = np.random.default_rng(count)
    return Actions(
        rng.normal(size=(count, continuous)).astype(np.float32),
        rng.integers(0, 300, (count, branches)).astype(np.int32),
        memories=rng.normal(size=(count, 2)).astype(np.float32) if keeps else None,
        texts=tuple(f"text {row}" for row in range(count)) if keeps else (),
        values=rng.normal(size=count).astype(np.float32) if keeps else None,
    )


def test_a_client_of_today_says_the_same() -> None:
    need("client-1.1.0")
    actions = {name: drawn(*sizes) for name, sizes in SIZES.items()}
    asked = {
        name: {"continuous": rows.continuous.tolist(), "discrete": rows.discrete.tolist()}
        for name, rows in actions.items()
    }
    theirs = run_client("client-1.1.0", "client_words.py", json.dumps(asked))
    parameters: dict[str, ParameterValue] = {
        "gravity": 9.8,
        "uniform": UniformDraw(min_value=0.5, max_value=2.0, seed=5),
        "gaussian": GaussianDraw(mean=1.0, st_dev=2.0, seed=6),
        "ranges": MultiRangeDraw(intervals=((0.0, 1.0), (2.0, 3.0)), seed=7),
    }
    ours = {
        "step": replies.encode_step(actions),
        "reset": replies.encode_reset(engine_configuration(EngineSettings()) + environment_parameters(parameters)),
    }
    for name, body in ours.items():
        heard = pb2.UnityMessageProto.FromString(bytes.fromhex(theirs[name]))
        assert pb2.UnityMessageProto.FromString(body) == heard, name


@pytest.mark.parametrize("client", ["client-0.8.2", "client-0.9.3"])
def test_a_client_of_2019_says_the_same(client: str) -> None:
    need(client)
    sizes = {"Floats": (9, 2, 0), "Branches": (2, 0, 3)}
    actions = {name: drawn(*each, keeps=True) for name, each in sizes.items()}
    asked = {
        name: {
            "vector": rows.to_array().tolist(),
            "memories": [] if rows.memories is None else rows.memories.tolist(),
            "texts": list(rows.texts),
            "values": [] if rows.values is None else rows.values.tolist(),
        }
        for name, rows in actions.items()
    }
    theirs = run_client(client, "old_client_words.py", json.dumps(asked))
    ours = {
        "step": replies_gen1.encode_step(actions),
        "reset": replies_gen1.encode_reset({"size": 2.0}, train_mode=False),
    }
    for name, body in ours.items():
        assert pb1.UnityMessage.FromString(body) == pb1.UnityMessage.FromString(bytes.fromhex(theirs[name])), name


def test_the_released_trainer_takes_the_same_samples_out_of_our_recording(tmp_path: Path) -> None:
    need("trainer-1.1.0")
    path = record_two_episodes(tmp_path / "Two", 2)
    (theirs,) = run_client("trainer-1.1.0", "loader_words.py", str(path))
    ours = demonstrated_steps(read_demonstration(path))
    # The released loader takes the end of an episode for one more sample, which we leave out: nothing was done on it.
    kept = [row for row in range(len(theirs["rewards"])) if row in set(ours.records.tolist())]
    assert len(kept) == len(ours.rewards)
    assert [theirs["discrete"][row] for row in kept] == ours.discrete.tolist()
    assert [theirs["rewards"][row] for row in kept] == ours.rewards.tolist()
    assert [theirs["done"][row] for row in kept] == ours.done.tolist()
    for index, shown in enumerate(ours.observations):
        sums = observation_floats(shown).reshape(len(shown), -1).sum(axis=1)
        assert [theirs["observations"][index][row] for row in kept] == pytest.approx(sums.tolist(), rel=1e-5)
