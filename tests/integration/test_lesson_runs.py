"""Lessons in whole runs over gRPC: players are given them, alone when they are started, and they survive a resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.events import scalars_in
from tests.support.runs import FinishedRun, config, journals, train
from tests.unit.results.test_tensorboard import read_events

SCENE = "fake:walljump?agents=4"
# An untrained agent seldom arrives: its return is exactly 0, which is above -0.5. An episode takes 60 steps.
LESSONS = {
    "measure": "reward",
    "thresholds": [-0.5, -0.5, 0.99],
    "min_lesson_length": 8,
    "signal_smoothing": False,
    "parameters": {"wall_height": [0.0, 1.0, 2.0, 4.0]},
}

# The same network and buffer as in the other runs, so that its update is compiled already.
ERA = """\
default: {trainer: ppo, batch_size: 32, buffer_size: 400, learning_rate: 1.0e-3, num_epoch: 2, hidden_units: 16,
  num_layers: 1, time_horizon: 32}
"""


def lessons(folder: Path, brain: str = "WallJump") -> str:
    (folder / "lessons").mkdir(exist_ok=True)
    (folder / "lessons" / f"{brain}.json").write_text(json.dumps(LESSONS))
    return str(folder / "lessons")


def run(
    folder: Path, run_id: str, *argv: str, url: str = SCENE, max_steps: int = 2000, summary_freq: int = 800
) -> FinishedRun:
    """A run with lessons; its players write to the folder called as the run."""
    path = config(folder, "WallJump", max_steps=max_steps, summary_freq=summary_freq, buffer_size=400)
    flags = ("--curriculum", lessons(folder), "--seed", "11", "--env", f"{url}&journal={folder / run_id}-journal")
    return train(folder, run_id, str(path), *flags, *argv)


def heights(folder: Path, run_id: str) -> list[list[float]]:
    """The wall heights that each player was told with its resets."""
    return [
        [line["parameters"]["wall_height"] for line in player if line["command"] == "RESET"]
        for player in journals(folder / f"{run_id}-journal")
    ]


def test_players_are_reset_with_each_new_lesson_and_files_tell_which(tmp_path: Path) -> None:
    done = run(tmp_path, "a", "--num-envs", "2")
    assert done.code == 0, done.text
    assert heights(tmp_path, "a") == [[0.0, 1.0, 2.0]] * 2
    assert done.summary["lessons"] == {"wall_height": 2}
    status = json.loads((done.folder / "run_logs" / "training_status.json").read_text())
    assert status["wall_height"] == {"lesson_num": 2}
    _, values = scalars_in(done.folder / "WallJump")[-1]
    assert values["Environment/Lesson Number/wall_height"] == values["Environment/Lesson"] == 1.0
    assert "[INFO] wall_height: lesson 1 (Lesson1, 1) begins after" in done.text


def test_lessons_and_the_model_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    url = "fake:walljump?agents=4&link=memory"
    one, two = (run(tmp_path, f"w{n}", "--num-envs", "2", "--workers", n, url=url) for n in ("1", "2"))
    assert one.summary["lessons"] == {"wall_height": 2}
    assert two.lasting("run_id", "workers") == one.lasting("run_id", "workers")


@pytest.mark.parametrize("collection", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_a_player_that_is_started_again_begins_in_the_lesson_of_now_and_no_other_is_reset(
    tmp_path: Path, collection: str
) -> None:
    # Slow enough for a player to be started while the others go on.
    url = f"{SCENE}&delay_ms=3-3&fault=crash@step=170%2Benv=1%2Bincarnation=0"
    done = run(tmp_path, "c", "--num-envs", "2", "--collection", collection, url=url, max_steps=4800)
    assert done.code == 0, done.text
    assert done.summary["restarts"] == {"0": 0, "1": 1}
    first_life, other, second_life = sorted(heights(tmp_path, "c"))
    assert other == [0.0, 1.0, 2.0]
    # In asynchronous collection its neighbour may be ahead, and lessons late.
    assert first_life in ([0.0, 1.0], *([[0.0]] if collection == "async" else []))
    assert second_life == other[-len(second_life) :]


def sorted_events(folder: Path) -> list[Path]:
    """The event files of the run's parts, oldest first."""
    return sorted((folder / "WallJump").glob("events.out.tfevents.*"), key=lambda path: read_events(path)[0].wall_time)


def test_c15_the_first_reset_after_a_resume_is_in_the_lesson_that_was_reached_and_the_run_is_the_same(
    tmp_path: Path,
) -> None:
    stopped = run(tmp_path, "s", "--stop-at", "800")
    assert stopped.summary["lessons"] == {"wall_height": 1}
    resumed = run(tmp_path, "s", "--resume")
    assert heights(tmp_path, "s")[1][0] == 1.0
    whole = run(tmp_path, "r", "--restart-envs-at", "800")
    assert heights(tmp_path, "s") == heights(tmp_path, "r")
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert resumed.summary["lessons"] == whole.summary["lessons"] == {"wall_height": 2}


def test_a_run_that_goes_on_with_fewer_lessons_says_with_which(tmp_path: Path) -> None:
    url = f"{SCENE}&link=memory"
    assert run(tmp_path, "f", url=url).summary["lessons"] == {"wall_height": 2}
    fewer = {**LESSONS, "thresholds": [-0.5], "parameters": {"wall_height": [0.0, 1.0]}}
    path = config(tmp_path, "WallJump", max_steps=2100, buffer_size=400)
    (tmp_path / "lessons" / "WallJump.json").write_text(json.dumps(fewer))
    argv = ("--curriculum", str(tmp_path / "lessons"), "--env", url, "--resume")
    resumed = train(tmp_path, "f", str(path), *argv)
    assert resumed.code == 0, resumed.text
    assert resumed.summary["lessons"] == {"wall_height": 1}
    assert (
        f"[WARNING] {tmp_path}/lessons/WallJump.json: wall_height was saved in lesson 2, and now its last is 1: "
        "the run goes on with lesson 1 (Lesson1, 1)"
    ) in resumed.text


def test_c17_c18_another_run_begins_with_the_weights_in_the_first_lesson_at_step_0(tmp_path: Path) -> None:
    run(tmp_path, "a", "--stop-at", "800")
    fresh = run(tmp_path, "b", "--initialize-from", "a", "--stop-at", "100")
    assert heights(tmp_path, "b") == [[0.0]]
    assert fresh.summary["lessons"] == {"wall_height": 0}
    assert 100 <= fresh.summary["agent_steps"] < 200


def test_c18_a_resumed_counter_goes_on_without_a_jump_or_a_repeat(tmp_path: Path) -> None:
    first = run(tmp_path, "n", max_steps=600, summary_freq=200)
    assert first.summary["agent_steps"] == 600
    second = run(tmp_path, "n", "--resume", max_steps=1200, summary_freq=200)
    assert second.summary["agent_steps"] == 1200
    before, after = ([event.step for event in read_events(path) if event.step] for path in sorted_events(second.folder))
    assert (before, after) == ([200, 400, 600], [800, 1000, 1200])


def test_the_lesson_that_is_asked_for_is_the_first(tmp_path: Path) -> None:
    url = f"{SCENE}&link=memory"
    assert run(tmp_path, "l", "--lesson", "3", "--stop-at", "60", url=url).summary["lessons"] == {"wall_height": 3}
    assert heights(tmp_path, "l") == [[4.0]]


def test_players_of_2019_are_given_lessons_too(tmp_path: Path) -> None:
    done = run(tmp_path, "old", url=f"{SCENE}&protocol=API-9")
    assert done.code == 0, done.text
    assert heights(tmp_path, "old") == [[0.0, 1.0, 2.0]]


def test_c29_lessons_of_a_brain_that_never_comes_are_told_at_once_and_end_the_run(tmp_path: Path) -> None:
    path = tmp_path / "era.yaml"
    path.write_text(ERA)
    folder = lessons(tmp_path, "Absent")
    done = train(tmp_path, "x", str(path), "--train", "--curriculum", folder, "--env", f"{SCENE}&link=memory")
    assert done.code == 2
    where = f"{folder}/Absent.json: lessons wait for the behavior 'Absent', which no player has announced in"
    assert f"[WARNING] {where}" in done.text
    assert f"ended: trainer_failure. {where} 5" in done.text
    assert (done.folder / "WallJump.onnx").is_file()


def test_samplers_are_drawn_anew_for_all_players_at_the_interval(tmp_path: Path) -> None:
    file = tmp_path / "samplers.yaml"
    file.write_text("resampling-interval: 100\nwall_height: {sampler-type: uniform, min_value: 0, max_value: 4}\n")
    path = config(tmp_path, "WallJump", max_steps=1200, buffer_size=400)
    argv = ("--sampler", str(file), "--num-envs", "2", "--seed", "3")
    done = train(tmp_path, "d", str(path), *argv, "--env", f"{SCENE}&link=memory&journal={tmp_path / 'd-journal'}")
    assert done.code == 0, done.text
    first, second = heights(tmp_path, "d")
    assert first == second
    assert len(set(first)) == len(first) >= 2
    assert all(0 <= height <= 4 for height in first)


def test_lessons_of_a_parameter_that_a_player_of_2019_has_not_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "WallJump.json").write_text(json.dumps({**LESSONS, "parameters": {"wall_hight": [0, 1, 2, 4]}}))
    path = tmp_path / "era.yaml"
    path.write_text(ERA)
    argv = ("--train", "--curriculum", str(folder), "--env", f"{SCENE}&link=memory&protocol=API-9")
    done = train(tmp_path, "p", str(path), *argv)
    assert done.code == 2
    assert f"{folder}/WallJump.json: there are lessons of 'wall_hight', which the player of environment 0" in done.text
    assert "it knows: wall_height. Correct the name" in done.text


@pytest.mark.parametrize("is_file", [True, False])
def test_a_value_of_a_parameter_that_a_player_of_2019_has_not_is_refused(tmp_path: Path, *, is_file: bool) -> None:
    path = config(tmp_path, "WallJump", max_steps=400, buffer_size=400)
    file = tmp_path / "samplers.yaml"
    file.write_text("resampling-interval: 100\nwall_hight: {sampler-type: uniform, min_value: 0, max_value: 4}\n")
    if not is_file:
        path.write_text(path.read_text() + "\nenvironment_parameters: {wall_height: 1, wall_hight: 2}\n")
    url = f"{SCENE}&link=memory&protocol=API-9"
    done = train(tmp_path, "v", str(path), *(("--sampler", str(file)) if is_file else ()), "--env", url)
    assert done.code == 2
    assert (
        "environment_parameters or --sampler: there is a value of 'wall_hight', which the player of environment 0 does "
        "not know; it knows: wall_height. Correct the name, or leave it out."
    ) in done.text


def test_a_player_of_2019_without_parameters_takes_none(tmp_path: Path) -> None:
    path = config(tmp_path, "Basic", max_steps=400)
    path.write_text(path.read_text() + "\nenvironment_parameters: {mass: 2}\n")
    done = train(tmp_path, "n", str(path), "--env", "fake:basic?link=memory&protocol=API-8")
    assert done.code == 2
    assert "there is a value of 'mass', which the player of environment 0 does not know; it knows: none." in done.text


def today(folder: Path, *, require_reset: bool, max_steps: int, mass: bool = True) -> str:
    """A configuration with the same lessons in today's form, which says whether a new one resets the players."""
    path = config(folder, "WallJump", max_steps=max_steps, summary_freq=800, buffer_size=400)
    document = yaml.safe_load(path.read_text())
    criterion = {
        "behavior": "WallJump",
        "measure": "reward",
        "threshold": -0.5,
        "min_lesson_length": 8,
        "signal_smoothing": False,
        "require_reset": require_reset,
    }
    lessons = [{"name": f"L{height}", "value": height, "completion_criteria": criterion} for height in (0, 1)]
    height = {"curriculum": [*lessons, {"name": "L2", "value": 2}]}
    path.write_text(
        yaml.safe_dump({**document, "environment_parameters": {"wall_height": height, **({"mass": 3} if mass else {})}})
    )
    return str(path)


def run_today(
    folder: Path,
    run_id: str,
    *argv: str,
    url: str = SCENE,
    require_reset: bool = False,
    max_steps: int = 2000,
    mass: bool = True,
) -> FinishedRun:
    words = (today(folder, require_reset=require_reset, max_steps=max_steps, mass=mass), "--seed", "11")
    done = train(folder, run_id, *words, "--env", f"{url}&journal={folder / run_id}-journal", *argv)
    assert done.code == 0, done.text
    return done


def told(folder: Path, run_id: str) -> list[list[tuple[str, int, dict[str, float]]]]:
    """What each player was told: with which command, before which env step, and the parameters."""
    return [
        [(line["command"], line["env_steps"], line["parameters"]) for line in player if "parameters" in line]
        for player in journals(folder / f"{run_id}-journal")
    ]


def test_a_lesson_without_reset_reaches_all_players_at_the_same_step_and_ends_no_episode(tmp_path: Path) -> None:
    done = run_today(tmp_path, "t", "--num-envs", "2")
    assert done.summary["lessons"] == {"wall_height": 2}
    one, two = told(tmp_path, "t")
    assert one == two
    (first, *later) = one
    assert first == ("RESET", 0, {"wall_height": 0.0, "mass": 3.0})
    assert [(command, values) for command, _, values in later] == [
        ("STEP", {"wall_height": 1.0}),
        ("STEP", {"wall_height": 2.0}),
    ]
    reset = run_today(tmp_path, "u", "--num-envs", "2", require_reset=True)
    assert [len(each) for each in heights(tmp_path, "u")] == [3, 3]
    assert done.summary["episodes"]["WallJump"] > reset.summary["episodes"]["WallJump"]


def test_lessons_without_reset_do_not_depend_on_the_workers_nor_on_the_wire(tmp_path: Path) -> None:
    one, two, wire = (
        run_today(tmp_path, name, "--num-envs", "2", "--workers", workers, url=url)
        for name, workers, url in (
            ("one", "1", f"{SCENE}&link=memory"),
            ("two", "2", f"{SCENE}&link=memory"),
            ("wire", "2", f"{SCENE}&delay_ms=0-2"),
        )
    )
    assert one.lasting("run_id", "workers") == two.lasting("run_id", "workers") == wire.lasting("run_id", "workers")
    assert told(tmp_path, "one") == told(tmp_path, "wire")


def test_a_lesson_without_reset_survives_a_players_death_and_a_resume(tmp_path: Path) -> None:
    # Slow enough for a player to be started while the other goes on.
    url = f"{SCENE}&delay_ms=3-3&fault=crash@step=130%2Benv=1%2Bincarnation=0"
    died = run_today(tmp_path, "c", "--num-envs", "2", url=url, max_steps=4800)
    assert died.summary["restarts"] == {"0": 0, "1": 1}
    first_life, other, second_life = sorted(
        [values["wall_height"] for _, _, values in each] for each in told(tmp_path, "c")
    )
    assert (first_life, other) == ([0.0, 1.0], [0.0, 1.0, 2.0])
    assert second_life == other[-len(second_life) :]

    stopped = run_today(tmp_path, "s", "--stop-at", "800")
    assert stopped.summary["lessons"] == {"wall_height": 1}
    resumed = run_today(tmp_path, "s", "--resume")
    assert told(tmp_path, "s")[1][0] == ("RESET", 0, {"wall_height": 1.0, "mass": 3.0})
    whole = run_today(tmp_path, "r", "--restart-envs-at", "800")
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]


def test_players_of_2019_are_reset_for_every_lesson(tmp_path: Path) -> None:
    run_today(tmp_path, "o", url=f"{SCENE}&protocol=API-9&link=memory", mass=False)
    assert heights(tmp_path, "o") == [[0.0, 1.0, 2.0]]
