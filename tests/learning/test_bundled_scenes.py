"""The command learns the bundled scenes with their bundled configurations, for every seed and as well as promised."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import yaml

from fakeunity.rows import Actions
from fakeunity.scenes.catalogue import open_world
from runtime.learner import LearnerOptions
from tests.support.events import scalars_in
from tests.support.runs import FinishedRun, train
from tests.support.settings import parse
from tests.support.training import brain_of
from trainers.learner import create_learner

pytestmark = [pytest.mark.learning, pytest.mark.slow]

BASIC = "fake:basic?link=memory"
BALANCE = "fake:balance?agents=8&link=memory"
EPISODES = 100


def trained(folder: Path, *argv: str) -> FinishedRun:
    """A run to its max_steps: nothing stops on a reward."""
    run = train(folder, "r", *argv)
    assert run.code == 0, run.text
    assert run.summary["exit_reason"] == "max_steps"
    return run


def frozen(folder: Path, scene: str) -> str:
    """The bundled configuration with a learning rate that learns nothing."""
    content = yaml.safe_load((files("runtime") / "configs" / f"{scene}.yaml").read_text())
    for behavior in content["behaviors"].values():
        behavior["hyperparameters"]["learning_rate"] = 1e-10
    path = folder / "frozen.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize("seed", range(20))
def test_basic_is_solved_by_every_seed_and_so_is_its_exported_model(tmp_path: Path, seed: int) -> None:
    run = trained(tmp_path, "--env", BASIC, "--seed", str(seed))
    mean_reward = run.summary["mean_reward"]["Basic"]
    assert mean_reward >= 0.9
    model = run.folder / "Basic.onnx"
    assert earned(model, "discrete_actions") == pytest.approx(mean_reward, abs=0.03)
    assert earned(model, "deterministic_discrete_actions") >= 0.92


def earned(model: Path, output: str) -> float:
    """The mean return of 100 episodes of `basic`, acted by a bare onnxruntime with nothing but what Unity names."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    world = open_world("basic", agents=1, handshake_seed=99, url_seed=0)
    rows, total, episodes = world.reset()["Basic"], 0.0, 0
    while episodes < EPISODES:
        waiting = rows.observations[0][~rows.done]
        feed = {"obs_0": waiting, "action_masks": np.ones((len(waiting), 3), np.float32)}
        (actions,) = session.run([output], feed)
        rows = world.step({"Basic": Actions(np.zeros((len(waiting), 0), np.float32), actions)})["Basic"]
        total += float(rows.rewards.sum(dtype=np.float64))
        episodes += int(rows.done.sum())
    return total / episodes


@pytest.mark.parametrize("seed", range(3))
def test_basic_is_not_solved_without_learning(tmp_path: Path, seed: int) -> None:
    run = trained(tmp_path, frozen(tmp_path, "basic"), "--env", BASIC, "--seed", str(seed))
    assert run.summary["mean_reward"]["Basic"] < 0.5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_balance_is_learned_within_150_000_steps(tmp_path: Path, seed: int) -> None:
    run = trained(tmp_path, "--env", BALANCE, "--num-envs", "2", "--seed", str(seed))
    assert run.summary["agent_steps"] <= 150_000
    assert run.summary["mean_episode_length"]["Balance"] >= 450.0


def test_balance_is_not_learned_without_learning(tmp_path: Path) -> None:
    run = trained(tmp_path, frozen(tmp_path, "balance"), "--env", BALANCE, "--num-envs", "2", "--seed", "1")
    assert run.summary["mean_episode_length"]["Balance"] < 60.0


@pytest.mark.parametrize("seed", range(3))
def test_the_value_of_an_endless_reward_is_known(tmp_path: Path, seed: int) -> None:
    # Reward 1 at every step and a time limit that is no end: V = 1 / (1 - gamma), with the bundled gamma of 0.9.
    run = trained(tmp_path, "--env", "fake:constant?link=memory&agents=2", "--seed", str(seed))
    _, values = scalars_in(run.folder / "Constant")[-1]
    assert values["Policy/Extrinsic Value Estimate"] == pytest.approx(10.0, abs=0.5)
    assert saved_values(run) == pytest.approx(10.0, abs=0.5)


def saved_values(run: FinishedRun) -> npt.NDArray[np.float32]:
    """What the policy in the last checkpoint thinks of the observations that its players make."""
    settings = parse("--env", "fake:constant").settings_for
    learner = create_learner(LearnerOptions(run_seed=0, settings_for=settings))
    learner.load([run.folder / "checkpoints" / str(run.summary["agent_steps"])])
    world = open_world("constant", agents=4, handshake_seed=5, url_seed=0)
    release = learner.add_brain(brain_of(world.specs[0]))
    assert release is not None
    session = onnxruntime.InferenceSession(release.body, providers=["CPUExecutionProvider"])
    (observations,) = world.reset()["Constant"].observations
    values: npt.NDArray[np.float32] = session.run(["value"], {"obs_0": observations})[0]
    return values


@pytest.mark.parametrize(
    ("scene", "least"),
    [("hybrid", {"Hybrid": 1.8}), ("masked", {"Masked": 0.95}), ("crowd", {"Crowd": 0.9, "CrowdLate": 0.9})],
)
def test_the_other_scenes_are_learned_too(tmp_path: Path, scene: str, least: dict[str, float]) -> None:
    run = trained(tmp_path, "--env", f"fake:{scene}?agents=4&link=memory", "--seed", "1")
    rewards = run.summary["mean_reward"]
    assert {name: rewards[name] >= reward for name, reward in least.items()} == dict.fromkeys(least, True), rewards


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("player", "behavior"),
    [
        ("walljump?agents=8", "WallJump"),
        ("pushblock_group?agents=9", "PushBlockGroup"),
        ("buffer?agents=8", "Buffer"),
        ("teacher?agents=8", "Student"),
        ("teacher?agents=8&protocol=API-9", "Student"),
    ],
)
def test_scenes_of_the_whole_protocol_are_learned_to_95_of_100(
    tmp_path: Path, player: str, behavior: str, seed: int
) -> None:
    run = trained(tmp_path, "--env", f"fake:{player}&link=memory", "--seed", str(seed))
    assert run.summary["mean_reward"].keys() == {behavior}
    assert run.summary["mean_reward"][behavior] >= 0.95


VAULT = "fake:vault?agents=16&link=memory"


@pytest.mark.parametrize("seed", [1, 2])
def test_vault_is_opened_by_the_curious(tmp_path: Path, seed: int) -> None:
    run = trained(tmp_path, "--env", VAULT, "--seed", str(seed))
    assert run.summary["mean_reward"]["Vault"] >= 0.95


@pytest.mark.parametrize("seed", [1, 2])
def test_vault_stays_shut_for_all_others(tmp_path: Path, seed: int) -> None:
    content = yaml.safe_load((files("runtime") / "configs" / "vault.yaml").read_text())
    del content["behaviors"]["Vault"]["reward_signals"]["curiosity"]
    path = tmp_path / "incurious.yaml"
    path.write_text(yaml.safe_dump(content))
    run = trained(tmp_path, str(path), "--env", VAULT, "--seed", str(seed))
    assert run.summary["mean_reward"]["Vault"] == 0.0


HALLWAY = "fake:hallway?agents=8&link=memory"


@pytest.mark.parametrize("seed", range(1, 6))
def test_hallway_is_remembered_and_so_it_is_by_its_exported_model(tmp_path: Path, seed: int) -> None:
    run = trained(tmp_path, "--env", HALLWAY, "--seed", str(seed))
    assert run.summary["mean_reward"]["Hallway"] >= 0.95
    assert remembered(run.folder / "Hallway.onnx") >= 0.95


def remembered(model: Path) -> float:
    """The mean return of the exported model, acted by a bare onnxruntime that keeps `recurrent_out` for each agent."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    world = open_world("hallway", agents=1, handshake_seed=99, url_seed=0)
    rows, total, episodes = world.reset()["Hallway"], 0.0, 0
    memory = np.zeros((1, 1, 32), np.float32)
    while episodes < EPISODES:
        feed = {
            "obs_0": rows.observations[0][~rows.done],
            "action_masks": np.ones((1, 4), np.float32),
            "recurrent_in": memory,
        }
        actions, memory = session.run(["deterministic_discrete_actions", "recurrent_out"], feed)
        rows = world.step({"Hallway": Actions(np.zeros((1, 0), np.float32), actions)})["Hallway"]
        total += float(rows.rewards.sum(dtype=np.float64))
        if rows.done.any():
            episodes, memory = episodes + 1, np.zeros_like(memory)
    return total / episodes


def test_hallway_is_guessed_at_without_memory(tmp_path: Path) -> None:
    content = yaml.safe_load((files("runtime") / "configs" / "hallway.yaml").read_text())
    content["behaviors"]["Hallway"]["network_settings"]["memory"] = None
    path = tmp_path / "forgetful.yaml"
    path.write_text(yaml.safe_dump(content))
    run = trained(tmp_path, str(path), "--env", HALLWAY, "--seed", "1")
    assert 0.3 <= run.summary["mean_reward"]["Hallway"] <= 0.7  # a coin, a hundred times
    assert run.summary["mean_episode_length"]["Hallway"] <= 8.0


def test_soccer_against_itself_is_even_and_against_random_players_won(tmp_path: Path) -> None:
    run = trained(tmp_path, "--env", "fake:soccer?agents=8&link=memory", "--seed", "1")
    assert abs(run.summary["mean_reward"]["Soccer"]) <= 0.05
    assert won_against_random(run.folder / "Soccer.onnx") >= 0.95


def won_against_random(model: Path) -> float:
    """The mean reward of team 0, acted by the model, against a team that moves at random."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    world, rng = open_world("soccer", agents=16, handshake_seed=99, url_seed=0), np.random.default_rng(1)
    rows, total, matches = world.reset(), 0.0, 0
    while matches < 4 * EPISODES:
        ours, theirs = (rows[f"Soccer?team={team}"] for team in range(2))
        waiting = ours.observations[0][~ours.done]
        feed = {"obs_0": waiting, "action_masks": np.ones((len(waiting), 5), np.float32)}
        (chosen,) = session.run(["discrete_actions"], feed)
        drawn = rng.integers(0, 5, (int((~theirs.done).sum()), 1), np.int32)
        sent = (chosen, drawn)
        rows = world.step(
            {
                f"Soccer?team={team}": Actions(np.zeros((len(each), 0), np.float32), each)
                for team, each in enumerate(sent)
            }
        )
        total += float(rows["Soccer?team=0"].rewards.sum(dtype=np.float64))
        matches += int(rows["Soccer?team=0"].done.sum())
    return total / matches
