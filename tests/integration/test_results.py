"""What a run leaves behind: summary, configuration, events, models, checkpoints; and what later runs do with them."""

import csv
import json
import re
import shutil
from pathlib import Path

import onnx
import pytest
import yaml

from runtime.reporting.metrics import COLUMNS
from tests.support.events import scalars_in, tables_in
from tests.support.runs import FinishedRun, config, journals, train

URL = "fake:basic?link=memory"
SUMMARY_KEYS = (
    *("run_id", "seed", "elapsed_s", "exit_reason", "env_steps", "agent_steps", "decisions", "steps_per_s"),
    *("mean_reward", "mean_episode_length", "episodes", "policy_version", "policy_sha256"),
    *("lost_steps", "unreported_steps_max", "replaced_numbers", "restarts", "workers", "lessons"),
)
PROGRESS = re.compile(
    r"\[INFO\] Basic\. Step: (\d+)\. Time Elapsed: (\d+\.\d{3}) s\. "
    r"(?:Mean Reward: (-?\d+\.\d{3})\. Std of Reward: (\d+\.\d{3})|No episode was completed since last summary)\. "
    r"Training\."
)
TAGS_ALWAYS = {
    *("Is Training", "Policy/Learning Rate", "Policy/Epsilon", "Policy/Beta"),
    *("Runtime/Env Steps", "Runtime/Agent Steps", "Runtime/Decisions"),
}
TAGS_OF_EPISODES = {"Environment/Cumulative Reward", "Environment/Episode Length", "Policy/Extrinsic Reward"}
TAGS_OF_UPDATES = {
    "Losses/Policy Loss",
    "Losses/Value Loss",
    "Policy/Entropy",
    "Policy/Extrinsic Value Estimate",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(folder: Path) -> FinishedRun:
    text = config(folder, max_steps=1100, summary_freq=250, keep_checkpoints=3, checkpoint_interval=200)
    done = train(folder, "first", str(text), "--env", URL, "--num-envs", "2", "--seed", "0", "--profile")
    assert done.code == 0, done.text
    return done


def model_names(run: FinishedRun) -> list[str]:
    return sorted(run.files("*/*.onnx"), key=lambda name: int(name.removesuffix(".onnx").rpartition("-")[2]))


def test_the_summary_has_its_keys_in_their_order(run: FinishedRun) -> None:
    assert [key for key in run.summary if key != "holder"] == list(SUMMARY_KEYS)


def test_the_summary_says_what_was_done(run: FinishedRun) -> None:
    summary = run.summary
    assert (summary["run_id"], summary["seed"], summary["exit_reason"]) == ("first", 0, "max_steps")
    assert summary["agent_steps"] == summary["env_steps"] == summary["decisions"] == 1100
    assert summary["restarts"] == {"0": 0, "1": 0}
    assert summary["lost_steps"] == {}
    assert summary["unreported_steps_max"] == 0
    assert summary["policy_version"] == {"Basic": 1100 // 128}
    assert 0.0 < summary["elapsed_s"] < 1100 / summary["steps_per_s"] + 600.0
    assert summary["mean_episode_length"]["Basic"] == pytest.approx(1100 / summary["episodes"]["Basic"], rel=0.2)


def test_progress_lines_have_the_form_that_users_search_for(run: FinishedRun) -> None:
    found = [PROGRESS.fullmatch(line) for line in run.lines if ". Step: " in line]
    assert [int(match[1]) for match in found if match] == [250, 500, 750, 1000]
    assert all(match and match[3] for match in found)


def test_a_profile_tells_where_the_time_of_each_process_went(run: FinishedRun) -> None:
    told = (run.folder / "run_logs" / "profile.txt").read_text()
    assert [line for line in run.lines if line.startswith("[PROFILE]")] == [
        f"[PROFILE] {line}" for line in told.splitlines()
    ]
    assert re.search(r"learner .*learn \d", told), told
    assert (run.folder / "run_logs" / "profile.svg").read_text().startswith("<svg")
    assert (run.folder / "run_logs" / "profile.folded").exists()


def test_events_hold_the_tags_of_ml_agents_at_each_summary(run: FinishedRun) -> None:
    events = scalars_in(run.folder / "Basic")
    assert [step for step, _ in events] == [250, 500, 750, 1000]
    for _, values in events:
        assert set(values) == TAGS_ALWAYS | TAGS_OF_EPISODES | TAGS_OF_UPDATES
        assert values["Is Training"] == 1.0
    rates = [values["Policy/Learning Rate"] for _, values in events]
    assert rates == sorted(rates, reverse=True)
    lines = [match for match in map(PROGRESS.fullmatch, run.lines) if match]
    for match, (_, values) in zip(lines, events, strict=True):
        assert float(match[3]) == pytest.approx(values["Environment/Cumulative Reward"], abs=5e-4)


def test_events_begin_with_a_table_of_the_hyperparameters(run: FinishedRun) -> None:
    (head, *rows) = tables_in(run.folder / "Basic")["Hyperparameters"]
    assert head == ["Setting", "Value"]
    settings = dict(rows)
    assert settings["hyperparameters.buffer_size"] == "128"
    assert settings["reward_signals.extrinsic.gamma"] == "0.99"
    assert (settings["summary_freq"], settings["trainer_type"]) == ("250", "ppo")


def test_metrics_have_a_line_per_update_in_the_columns_of_2019(run: FinishedRun) -> None:
    with (run.folder / "run_logs" / "metrics-Basic.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert len(rows) == run.summary["policy_version"]["Basic"]
    assert {row["Brain name"] for row in rows} == {"Basic"}
    assert sum(int(row["Number of experiences used for training"]) for row in rows) == 1100 // 128 * 128
    times = [float(row["Time since start of training"]) for row in rows]
    assert times == sorted(times)
    assert float(rows[-1]["Mean return"]) == pytest.approx(run.summary["mean_reward"]["Basic"], abs=0.5)
    spent = sum(float(row[name]) for row in rows for name in COLUMNS[1:4:2])
    assert spent <= times[-1] + 0.01 * len(rows)


def test_timers_are_one_tree_of_all_actors(run: FinishedRun) -> None:
    document = json.loads((run.folder / "run_logs" / "timers.json").read_text())
    assert list(document) == ["name", "total", "count", "self", "children", "gauges", "metadata"]
    tree = document["children"]
    learner, workers = tree["learner thread"]["children"], tree["EnvWorkers"]["children"]
    assert set(tree) == {"launcher", "TrainerController", "learner thread", "storage thread", "EnvWorkers"}
    assert learner["update Basic"]["count"] == run.summary["policy_version"]["Basic"]
    assert workers["exchange"]["count"] == run.summary["env_steps"]
    assert workers["act"]["count"] == run.summary["env_steps"]
    assert (workers["start player"]["count"], workers["reset player"]["count"]) == (2, 2)
    assert tree["TrainerController"]["total"] + tree["launcher"]["total"] <= document["total"] + 0.1
    assert document["gauges"]["Basic.Policy.Entropy.mean"]["count"] == 4
    assert {"timer_format_version", "start_time_seconds", "python_version"} <= set(document["metadata"])


def test_the_last_checkpoints_and_step_models_are_kept_and_the_final_ones_are_among_them(run: FinishedRun) -> None:
    checkpoints = sorted(int(path.name) for path in (run.folder / "checkpoints").iterdir())
    assert len(checkpoints) == 3
    assert checkpoints[-1] == 1100
    assert model_names(run) == [f"Basic/Basic-{steps}.onnx" for steps in checkpoints]
    files = run.files()
    assert files["Basic.onnx"] == files["Basic/Basic-1100.onnx"]


def test_nothing_else_is_written(run: FinishedRun) -> None:
    known = r"Basic\.onnx|Basic/(Basic-\d+\.onnx|events\.out\.tfevents\.\S+)|configuration\.yaml|summary\.json"
    known += r"|checkpoints/\d+/\w+\.(json|safetensors)|run_logs/(timers|training_status)\.json"
    known += r"|run_logs/profile\.(txt|svg|folded)|run_logs/metrics-Basic\.csv"
    assert [name for name in run.files() if not re.fullmatch(known, name)] == []


def test_the_model_has_the_inputs_and_outputs_that_unity_looks_for(run: FinishedRun) -> None:
    model = onnx.load(run.folder / "Basic.onnx")
    onnx.checker.check_model(model)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 9)]
    shapes = {
        each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
        for each in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "obs_0": ["batch", 20],
        "action_masks": ["batch", 3],
        "version_number": [1],
        "memory_size": [1],
        "discrete_actions": ["batch", 1],
        "discrete_action_output_shape": [1, 1],
        "deterministic_discrete_actions": ["batch", 1],
    }


def test_the_training_status_lists_what_was_saved(run: FinishedRun) -> None:
    status = json.loads((run.folder / "run_logs" / "training_status.json").read_text())
    listed = status["Basic"]["checkpoints"]
    assert [Path(each["file_path"]).name for each in listed] == [
        name.removeprefix("Basic/") for name in model_names(run)
    ]
    assert status["Basic"]["final_checkpoint"] == listed[-1]
    assert listed[-1]["steps"] == 1100
    assert listed[-1]["reward"] == run.summary["mean_reward"]["Basic"]
    assert all(Path(each["file_path"]).is_file() for each in listed)


def test_c13_every_run_gives_its_players_other_seeds_and_says_which(folder: Path) -> None:
    text = str(config(folder, name="seeds.yaml", max_steps=40))
    given: list[int] = []
    for seed in ("0", "1", "2"):
        journal = folder / f"seeds-journal-{seed}"
        url = f"{URL}&journal={journal}"
        command = (text, "--env", url, "--num-envs", "4", "--seed", seed, "--restart-envs-at", "20")
        done = train(folder, f"seeds-{seed}", *command)
        assert done.code == 0, done.text
        written = yaml.safe_load((done.folder / "configuration.yaml").read_text())
        seeds = written["runtime"]["player_seeds"]
        assert written["env_settings"]["seed"] == int(seed)
        assert {len(each) for each in seeds.values()} == {2}
        heard = sorted(player[0]["seed"] for player in journals(journal))
        assert sorted(number for each in seeds.values() for number in each) == heard
        given += heard
    assert len(set(given)) == 3 * 4 * 2


def test_a_resumed_run_goes_on_counting_and_keeps_its_record(tmp_path: Path) -> None:
    text = str(config(tmp_path, max_steps=2000, summary_freq=200))
    first = train(tmp_path, "r", text, "--env", URL, "--stop-at", "600", "--seed", "0")
    assert first.summary["agent_steps"] == 600
    seeds = yaml.safe_load((first.folder / "configuration.yaml").read_text())["runtime"]["player_seeds"]
    second = train(tmp_path, "r", text, "--env", URL, "--resume", "--stop-at", "1200")
    assert second.code == 0, second.text
    assert (second.summary["agent_steps"], second.summary["seed"]) == (1200, 0)
    assert [step for step, _ in scalars_in(second.folder / "Basic")] == [200, 400, 600, 800, 1000, 1200]
    written = yaml.safe_load((second.folder / "configuration.yaml").read_text())["runtime"]["player_seeds"]
    assert written["0"][:1] == seeds["0"]
    assert len(set(written["0"])) == 2
    status = json.loads((second.folder / "run_logs" / "training_status.json").read_text())
    assert [each["steps"] for each in status["Basic"]["checkpoints"]] == [600, 1200]


def test_a_finished_run_is_not_resumed_and_not_touched(run: FinishedRun) -> None:
    before = run.files()
    text = str(run.folder / "configuration.yaml")
    again = train(run.folder.parent, "first", text, "--resume")
    assert again.code == 0
    assert again.lines == ["[INFO] The run first is finished already (Basic at step 1100). Raise max_steps to go on."]
    assert run.files() == before


def test_a_run_from_anothers_weights_starts_counting_at_zero(folder: Path, run: FinishedRun) -> None:
    text = str(config(folder, name="from.yaml", max_steps=1100, summary_freq=250))
    start = train(folder, "start", text, "--env", URL, "--initialize-from", "first", "--stop-at", "1")
    assert start.code == 0, start.text
    assert start.summary["agent_steps"] == 1
    assert start.summary["policy_version"] == {"Basic": 0}
    assert start.files("Basic.onnx") == run.files("Basic.onnx")
    more = train(folder, "more", text, "--env", URL, "--initialize-from", "first", "--stop-at", "300")
    assert more.summary["agent_steps"] == 300
    assert [step for step, _ in scalars_in(more.folder / "Basic")] == [250]
    assert more.files("Basic.onnx") != run.files("Basic.onnx")


@pytest.mark.parametrize("source", [("--resume",), ("--initialize-from", "first")])
def test_inference_acts_to_the_end_and_writes_no_model(
    tmp_path: Path, run: FinishedRun, source: tuple[str, ...]
) -> None:
    first = FinishedRun(code=0, text="", folder=tmp_path / "first")
    shutil.copytree(run.folder, first.folder)
    text = str(config(tmp_path, max_steps=1100, summary_freq=500))
    is_same = source == ("--resume",)
    acted = train(tmp_path, "first" if is_same else "acting", text, "--env", URL, *source, "--inference")
    assert acted.code == 0, acted.text
    assert (acted.summary["exit_reason"], acted.summary["agent_steps"]) == ("max_steps", 1100)
    assert acted.summary["policy_version"] == {"Basic": 0}
    assert [line.rpartition(". ")[2] for line in acted.lines if ". Step: " in line] == ["Not Training."] * 2
    for pattern in ("**/*.onnx", "checkpoints/*/*"):
        assert acted.files(pattern) == (run.files(pattern) if is_same else {})
    hashes = run.summary["policy_sha256"] if is_same else {"Basic": None}
    assert acted.summary["policy_sha256"] == hashes


def test_bundled_runs_number_themselves(tmp_path: Path) -> None:
    runs = [train(tmp_path, "", "--env", URL, "--stop-at", "20", "--seed", "1") for _ in range(3)]
    assert [run.code for run in runs] == [0, 0, 0]
    assert [run.folder.name for run in runs] == ["basic", "basic-2", "basic-3"]
    assert [run.summary["run_id"] for run in runs] == ["basic", "basic-2", "basic-3"]
    assert runs[0].files("Basic.onnx") == runs[2].files("Basic.onnx")
    assert "[INFO] the run id basic exists already; this run is basic-3" in runs[2].lines


def test_an_existing_run_is_refused_untouched_and_forced_over_without_harm_to_others(tmp_path: Path) -> None:
    text = str(config(tmp_path, max_steps=200))
    first = train(tmp_path, "mine", text, "--env", URL, "--seed", "1")
    (first.folder / "Basic" / "notes.txt").write_text("my own")
    before = first.files()
    refused = train(tmp_path, "mine", text, "--env", URL)
    assert refused.code == 2
    assert "--resume" in refused.text
    assert "--force" in refused.text
    assert first.files() == before
    forced = train(tmp_path, "mine", text, "--env", URL, "--seed", "2", "--force")
    assert forced.code == 0, forced.text
    assert forced.summary["seed"] == 2
    after = forced.files()
    assert after["Basic/notes.txt"] == b"my own"
    assert after["Basic.onnx"] != before["Basic.onnx"]
    assert set(after) - {name for name in after if "tfevents" in name} == set(before) - {
        name for name in before if "tfevents" in name
    }
