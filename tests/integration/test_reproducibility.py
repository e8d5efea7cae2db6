"""The same seed gives the same bits: for any number of EnvWorkers, inline, with slow players, under any hash seed."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.runs import FinishedRun, config, journal_totals, train, train_in_processes

BASIC = ("--num-envs", "4", "--seed", "3")
CROWD = ("--num-envs", "2", "--seed", "5")


class Lasting(NamedTuple):
    """What two runs must share: the summary but for names and times, and the bytes of every model."""

    summary: dict[str, object]
    models: dict[str, bytes]


def lasting(run: FinishedRun) -> Lasting:
    assert run.code == 0, run.text
    return Lasting(run.lasting("run_id", "workers"), run.files("*.onnx"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def basic(folder: Path) -> str:
    return str(config(folder, max_steps=1000))


@pytest.fixture(scope="module")
def crowd(folder: Path) -> str:
    return str(config(folder, "Crowd", "CrowdLate", name="crowd.yaml", max_steps=700))


@pytest.fixture(scope="module")
def inline(folder: Path, basic: str) -> FinishedRun:
    return train(folder, "inline", basic, "--env", "fake:basic?link=memory", *BASIC)


@pytest.fixture(scope="module")
def inline_crowd(folder: Path, crowd: str) -> FinishedRun:
    return train(folder, "inline-crowd", crowd, "--env", "fake:crowd?link=memory&agents=2", *CROWD)


def test_the_hash_in_the_summary_is_that_of_the_model_file(inline: FinishedRun) -> None:
    hashes = {name: hashlib.sha256(body).hexdigest() for name, body in inline.files("*.onnx").items()}
    assert {f"{name}.onnx": sha for name, sha in inline.summary["policy_sha256"].items()} == hashes
    assert list(hashes) == ["Basic.onnx"]


def test_one_env_worker_gives_what_one_process_gives(folder: Path, basic: str, inline: FinishedRun) -> None:
    command = (basic, "--env", "fake:basic", *BASIC, "--workers", "1")
    run = train_in_processes(folder, "one-worker", *command, variables={"PYTHONHASHSEED": "1"})
    assert lasting(run) == lasting(inline)
    assert list(run.summary["workers"]) == ["0"]


def test_four_env_workers_with_slow_players_give_the_same(folder: Path, basic: str, inline: FinishedRun) -> None:
    command = (basic, "--env", "fake:basic?delay_ms=0-5", *BASIC, "--workers", "4")
    run = train_in_processes(folder, "four-workers", *command, variables={"PYTHONHASHSEED": "77"})
    assert lasting(run) == lasting(inline)
    assert list(run.summary["workers"]) == ["0", "1", "2", "3"]


def test_inline_workers_with_slow_players_give_the_same(folder: Path, basic: str, inline: FinishedRun) -> None:
    run = train(folder, "slow", basic, "--env", "fake:basic?link=memory&delay_ms=0-3", *BASIC, "--workers", "2")
    assert lasting(run) == lasting(inline)


def test_two_behaviors_give_the_same_with_players_of_their_own(
    folder: Path, crowd: str, inline_crowd: FinishedRun
) -> None:
    journal = folder / "journal"
    command = (crowd, "--env", f"fake:crowd?agents=2&delay_ms=0-5&journal={journal}", *CROWD, "--workers", "2")
    run = train_in_processes(folder, "crowd", *command, variables={"PYTHONHASHSEED": "2"})
    assert lasting(run) == lasting(inline_crowd)
    assert list(run.summary["policy_version"]) == ["Crowd", "CrowdLate"]
    assert min(run.summary["policy_version"].values()) > 0
    ours = {key: run.summary[key] for key in ("env_steps", "agent_steps", "decisions")}
    assert journal_totals(journal) == {**ours, "episodes": sum(run.summary["episodes"].values())}


def test_settings_of_a_behavior_that_is_not_there_change_nothing(folder: Path, crowd: str) -> None:
    alone = str(config(folder, "Crowd", name="alone.yaml", max_steps=700))
    command = ("--env", "fake:crowd?link=memory&agents=2", *CROWD, "--stop-at", "300")
    run = train(folder, "alone", alone, *command)
    assert lasting(run) == lasting(train(folder, "both", crowd, *command))
    assert list(run.summary["episodes"]) == ["Crowd"]


def test_another_seed_differs(folder: Path, basic: str, inline: FinishedRun) -> None:
    run = train(folder, "seed-4", basic, "--env", "fake:basic?link=memory", "--num-envs", "4", "--seed", "4")
    assert run.code == 0
    assert run.summary["policy_sha256"] != inline.summary["policy_sha256"]


def test_the_written_configuration_gives_the_same_run_again(folder: Path, inline: FinishedRun) -> None:
    run = train(folder, "again", str(inline.folder / "configuration.yaml"))
    assert lasting(run) == lasting(inline)
