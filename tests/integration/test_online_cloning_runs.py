"""Runs that learn from a brain which the player plays, over gRPC and in memory, and case C30."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.record_demo import record
from tests.support.runs import FinishedRun, journal_totals, train

OLD = "fake:teacher?protocol=API-10"
SMALL = {"hidden_units": 16, "num_layers": 1, "summary_freq": 200, "max_steps": 600}
ONLINE = {"trainer": "online_bc", "brain_to_imitate": "Teacher", "learning_rate": 3e-3, "batches_per_epoch": 20}


def era(folder: Path, **student: object) -> str:
    path = folder / "trainer_config.yaml"
    path.write_text(yaml.safe_dump({"Student": {**SMALL, **student}}))
    return str(path)


def last_reward(run: FinishedRun) -> float:
    """The mean reward of the last summary on screen."""
    line = next(each for each in reversed(run.lines) if "Student. Step:" in each)
    return float(line.partition("Mean Reward: ")[2].split(". ")[0])


def test_a_student_becomes_its_teacher_and_only_its_own_steps_count(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    argv = ("--train", "--env", f"{OLD}&agents=2&journal={journal}", "--num-envs", "2", "--seed", "4")
    run = train(tmp_path, "online", era(tmp_path, **ONLINE), *argv)
    assert run.code == 0, run.text
    assert last_reward(run) >= 0.9
    assert list(run.summary["mean_reward"]) == ["Student"]
    counted = journal_totals(journal)
    assert (run.summary["env_steps"], run.summary["agent_steps"]) == (600, 1200)
    assert counted["env_steps"] == 600
    assert "brain 'Teacher' is controlled by the player (is_training is false): it is not trained" in run.text


def test_a_student_that_goes_on_later_with_fewer_workers_ends_the_same(tmp_path: Path) -> None:
    file = era(tmp_path, **{**ONLINE, "batches_per_epoch": 5, "max_steps": 200})
    argv = (file, "--train", "--env", f"{OLD}&agents=3&link=memory", "--num-envs", "2", "--seed", "4")
    whole = train(tmp_path, "whole", *argv, "--restart-envs-at", "300", "--workers", "2")
    assert whole.code == 0, whole.text
    assert train(tmp_path, "parts", *argv, "--stop-at", "300", "--workers", "1").code == 0
    parts = train(tmp_path, "parts", *argv, "--resume", "--workers", "1")
    assert parts.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert parts.summary["policy_version"] == whole.summary["policy_version"]


@pytest.mark.parametrize(
    ("url", "teacher", "told"),
    [
        (
            "fake:teacher?link=memory",
            "Teacher",
            "players that speak 1.5.0 show it nowhere; expected one of API-8, API-9, API-10",
        ),
        (
            f"{OLD}&link=memory",
            "Master",
            "brain_to_imitate 'Master' is none of the player's; expected a brain that the player plays",
        ),
        (f"{OLD}&link=memory", "Student", "brain_to_imitate 'Student' is played by the trainer (is_training is true)"),
    ],
)
def test_a_player_that_does_not_show_the_teacher_is_refused(tmp_path: Path, url: str, teacher: str, told: str) -> None:
    file = era(tmp_path, trainer="online_bc", brain_to_imitate=teacher)
    run = train(tmp_path, "refused", file, "--train", "--env", url)
    assert run.code == 3
    assert told in run.text
    assert run.summary["restarts"] == {"0": 0}


def beside_named(folder: Path, named: tuple[str, ...], cloning: dict[str, object], trainer: str) -> str:
    """A file of today: PPO for the named behaviors, cloning for all others."""
    own = {"trainer_type": "ppo", "hyperparameters": {"buffer_size": 64, "batch_size": 32}, "behavioral_cloning": None}
    document = {
        "default_settings": {"trainer_type": trainer, "behavioral_cloning": cloning, "max_steps": 500},
        "behaviors": {name: {**own, "network_settings": {"hidden_units": 8, "num_layers": 1}} for name in named},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize(
    ("protocol", "told"),
    [("1.5.0", "players that speak 1.5.0 show it nowhere"), ("API-9", "brain_to_imitate 'Nobody' is none of the")],
)
def test_a_behavior_that_falls_to_a_teacher_by_default_is_refused_where_it_appears(
    tmp_path: Path, protocol: str, told: str
) -> None:
    file = beside_named(tmp_path, ("Crowd",), {"brain_to_imitate": "Nobody"}, "online_bc")
    url = f"fake:crowd?link=memory&agents=4&protocol={protocol}"
    run = train(tmp_path, "late", file, "--env", url, "--actor-system", "inline", "--stop-at", "4000")
    assert run.code == 3, run.text
    assert told in run.text


def test_a_teacher_or_a_file_that_nobody_needs_ends_no_run(tmp_path: Path) -> None:
    everybody = ("Crowd", "CrowdLate")
    argv = ("--env", "fake:crowd?link=memory&agents=4", "--actor-system", "inline", "--stop-at", "1200")
    file = beside_named(tmp_path, everybody, {"brain_to_imitate": "Nobody"}, "online_bc")
    assert train(tmp_path, "teacher", file, *argv).code == 0
    file = beside_named(tmp_path, everybody, {"demo_path": "nowhere.demo"}, "offline_bc")
    run = train(tmp_path, "file", file, *argv)
    assert run.code == 0, run.text
    assert "default_settings: " in run.text
    assert "A behavior without settings of its own would end the run." in run.text


def test_c30_three_trainers_of_2019_take_the_same_steps(tmp_path: Path) -> None:
    demo, _ = record(OLD, tmp_path / "Student", episodes=10, generation=1)
    trainers: dict[str, dict[str, object]] = {
        "offline": {"trainer": "offline_bc", "demo_path": str(demo)},
        "online": {"trainer": "online_bc", "brain_to_imitate": "Teacher"},
        "ppo": {"trainer": "ppo", "batch_size": 16, "buffer_size": 64},
    }
    argv = ("--train", "--num-envs", "3", "--seed", "1")
    ends = {}
    for name, keys in trainers.items():
        journal = tmp_path / f"journal-{name}"
        file = era(tmp_path, **{**keys, "max_steps": 50, "summary_freq": 10, "time_horizon": 64})
        run = train(tmp_path, name, file, *argv, "--env", f"{OLD}&agents=1&journal={journal}")
        assert run.code == 0, run.text
        assert run.summary["exit_reason"] == "max_steps"
        # One step for each reply that came back, whatever learns from it.
        assert journal_totals(journal)["env_steps"] == run.summary["env_steps"]
        ends[name] = (run.summary["env_steps"], run.summary["agent_steps"], run.summary["decisions"])
    assert set(ends.values()) == {(51, 51, 51)}  # 17 rounds of three: the first beyond 50
