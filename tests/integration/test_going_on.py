"""A run that is stopped and resumed equals one that only restarts its players there, bit for bit."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.runs import FinishedRun, config, train, train_in_processes


def stopped_and_resumed(folder: Path, at: int, *command: str) -> tuple[FinishedRun, FinishedRun]:
    """The summary when it stopped is kept in the first run's text."""
    first = train(folder, "stopped", *command, "--seed", "9", "--stop-at", str(at))
    assert first.code == 0, first.text
    before = first.summary
    assert before["exit_reason"] == "stop_at"
    assert at <= before["agent_steps"]
    resumed = train(folder, "stopped", *command, "--resume")
    assert resumed.code == 0, resumed.text
    return FinishedRun(code=0, text=json.dumps(before), folder=first.folder), resumed


def restarted(folder: Path, at: int, *command: str) -> FinishedRun:
    run = train(folder, "restarted", *command, "--seed", "9", "--restart-envs-at", str(at))
    assert run.code == 0, run.text
    return run


def assert_same(one: FinishedRun, other: FinishedRun) -> None:
    assert one.lasting("run_id") == other.lasting("run_id")
    assert one.files("*.onnx") == other.files("*.onnx")


def test_one_player_with_an_unfilled_buffer(tmp_path: Path) -> None:
    command = (str(config(tmp_path, max_steps=1000)), "--env", "fake:basic?link=memory")
    _, resumed = stopped_and_resumed(tmp_path, 600, *command)
    assert resumed.summary["agent_steps"] == 1000
    assert_same(resumed, restarted(tmp_path, 600, *command))


def test_players_of_their_own_are_restarted_in_processes_too(tmp_path: Path) -> None:
    command = (str(config(tmp_path, max_steps=600)), "--env", "fake:basic", "--num-envs", "2")
    _, resumed = stopped_and_resumed(tmp_path, 300, *command)
    run = train_in_processes(tmp_path, "restarted", *command, "--seed", "9", "--restart-envs-at", "300")
    assert run.code == 0, run.text
    assert run.lasting("run_id", "workers") == resumed.lasting("run_id", "workers")
    assert set(run.summary["restarts"].values()) == {0}


@pytest.mark.parametrize("at", [300, 384])
def test_two_players_with_several_agents_and_a_normalised_network(tmp_path: Path, at: int) -> None:
    # 384 is the end of an update: nothing is buffered there.
    text = config(tmp_path, "Balance", normalize="true", max_steps=900)
    command = (str(text), "--env", "fake:balance?link=memory&agents=3", "--num-envs", "2")
    _, resumed = stopped_and_resumed(tmp_path, at, *command)
    assert_same(resumed, restarted(tmp_path, at, *command))


@pytest.mark.parametrize(("envs", "at"), [(1, 200), (2, 1000)])
def test_a_behavior_that_appears_before_or_after_the_stop(tmp_path: Path, envs: int, at: int) -> None:
    text = config(tmp_path, "Crowd", "CrowdLate", max_steps=800)
    command = (str(text), "--env", "fake:crowd?link=memory&agents=3", "--num-envs", str(envs))
    stop, resumed = stopped_and_resumed(tmp_path, at, *command)
    known = set(json.loads(stop.text)["episodes"])
    assert known == ({"Crowd"} if envs == 1 else {"Crowd", "CrowdLate"})
    assert set(resumed.summary["policy_sha256"]) == {"Crowd", "CrowdLate"}
    assert_same(resumed, restarted(tmp_path, at, *command))


def test_a_behavior_that_never_comes_back_holds_up_the_end_no_longer_than_an_idle_one(tmp_path: Path) -> None:
    text = config(tmp_path, "Crowd", "CrowdLate", max_steps=800)
    first = train(tmp_path, "r", str(text), "--env", "fake:crowd?link=memory&agents=3", "--stop-at", "1000")
    assert first.code == 0, first.text
    late = first.summary["episodes"]["CrowdLate"]
    assert late > 0
    # Players of another scene: they know nothing of the second behavior, and call the first one by another name.
    more = config(tmp_path, "Crowd", "CrowdLate", "Basic", name="more.yaml", max_steps=800)
    run = train(tmp_path, "r", str(more), "--env", "fake:basic?link=memory", "--resume")
    assert run.code == 0, run.text
    assert run.summary["exit_reason"] == "max_steps"
    assert "[INFO] without agents when the run ended: Crowd, CrowdLate" in run.lines
    assert run.summary["episodes"]["CrowdLate"] == late
    assert set(run.files("*.onnx")) == {"Crowd.onnx", "CrowdLate.onnx", "Basic.onnx"}


def test_a_stop_and_a_restart_that_are_behind_a_resumed_run_are_not_done_again(tmp_path: Path) -> None:
    command = (str(config(tmp_path, max_steps=600)), "--env", "fake:basic?link=memory", "--restart-envs-at", "200")
    first = train(tmp_path, "r", *command, "--seed", "9", "--stop-at", "400")
    before = first.files()
    again = train(tmp_path, "r", *command, "--resume", "--stop-at", "400")
    assert again.code == 0
    assert again.lines == ["[INFO] The run r has taken 400 agent steps already. Raise --stop-at to go on."]
    assert first.files() == before
    last = train(tmp_path, "r", *command, "--resume")
    assert last.summary["agent_steps"] == 600
    # One for the start, one at 200 steps, one after the stop.
    written = yaml.safe_load((last.folder / "configuration.yaml").read_text())
    assert len(written["runtime"]["player_seeds"]["0"]) == 3
