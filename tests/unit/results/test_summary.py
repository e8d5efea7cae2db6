"""`summary.json` and the documents beside it: their keys, their numbers, and how they are written."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import StorageError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import Status
from runtime.reporting.timers import Gauge, TimerNode, timers_document
from runtime.reporting.training_status import SavedBehavior, SavedModel, training_status_document
from runtime.results import Json, RunSummary, told_totals, write_atomically, write_json_atomically
from runtime.status import BrainStatus, EnvStatus
from tests.support.builders_messages import status

KEYS = [
    *("run_id", "seed", "elapsed_s", "exit_reason", "env_steps", "agent_steps", "decisions", "steps_per_s"),
    *("mean_reward", "mean_episode_length", "episodes", "policy_version", "policy_sha256"),
    *("lost_steps", "unreported_steps_max", "replaced_numbers", "restarts", "workers", "holder", "lessons"),
]


def told(agent_steps: int) -> Status:
    brain = BrainStatus(
        behavior="Basic",
        steps=agent_steps,
        max_steps=500,
        episodes=7,
        mean_reward=0.5,
        mean_episode_length=12.0,
        policy_version=3,
        acted_version=3,
        policy_sha256="cd",
    )
    env = EnvStatus(env_id=EnvId(0), incarnation=Incarnation(1), worker=0, state="ready", player_pid=9, restarts=1)
    counted = replace(status(agent_steps=agent_steps), env_steps=40, decisions=41, lost_steps={"stale": 2})
    return replace(counted, brains=(brain,), environments=(env,), worker_restarts={0: 1}, first_step_s=2.0)


def test_the_last_word_on_totals_replaces_an_older_document_with_the_same_keys_and_kinds() -> None:
    older = RunSummary(run_id="r", seed=1, agent_steps=10, workers={0: 0, 1: 0}, restarts={0: 0}).to_json()
    totals = told_totals(older, told(agent_steps=100), elapsed_s=12.0)
    assert set(totals) <= set(KEYS)
    assert all(type(totals[key]) is type(older[key]) for key in totals)
    assert (totals["agent_steps"], totals["env_steps"], totals["decisions"]) == (100, 40, 41)
    assert (totals["steps_per_s"], totals["policy_sha256"]) == (10.0, {"Basic": "cd"})
    assert (totals["restarts"], totals["workers"], totals["lost_steps"]) == ({"0": 1}, {"0": 1, "1": 0}, {"stale": 2})


@pytest.mark.parametrize("agent_steps", [9, 10])
def test_a_word_that_is_not_newer_than_the_document_adds_nothing(agent_steps: int) -> None:
    older = RunSummary(run_id="r", seed=1, agent_steps=10).to_json()
    assert told_totals(older, told(agent_steps), elapsed_s=12.0) == {}


def test_the_summary_has_exactly_its_public_keys(tmp_path: Path) -> None:
    summary = RunSummary(
        run_id="basic",
        seed=0,
        elapsed_s=1.5,
        exit_reason="max_steps",
        mean_reward={"Basic": 0.93, "Idle": None},
        policy_sha256={"Basic": "ab", "Idle": None},
        lost_steps={"player died": 4},
        restarts={10: 1, 2: 0},
        workers={0: 2},
    )
    path = tmp_path / "summary.json"
    write_json_atomically(path, summary.to_json())
    found = json.loads(path.read_bytes())
    assert list(found) == KEYS
    assert found["mean_reward"] == {"Basic": 0.93, "Idle": None}
    assert found["restarts"] == {"2": 0, "10": 1}
    assert list(found["restarts"]) == ["2", "10"]
    assert (found["exit_reason"], found["lost_steps"], found["workers"]) == ("max_steps", {"player died": 4}, {"0": 2})


def test_a_running_summary_has_no_exit_reason() -> None:
    assert RunSummary(run_id="x", seed=1).to_json()["exit_reason"] is None


def test_numbers_that_are_not_finite_become_null() -> None:
    summary = RunSummary(run_id="x", seed=1, steps_per_s=math.inf, mean_reward={"A": math.nan}).to_json()
    assert summary["steps_per_s"] is None
    assert summary["mean_reward"] == {"A": None}


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(documents)
def test_any_document_is_written_as_strict_json(tmp_path_factory: pytest.TempPathFactory, document: Json) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    write_json_atomically(path, document)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = path.read_bytes().decode()
    assert text.endswith("\n")
    again = json.loads(text, parse_constant=refuse)
    assert type(again) is type(document) or (again is None and isinstance(document, float))


def test_half_a_surrogate_pair_does_not_stop_the_writing(tmp_path: Path) -> None:
    write_json_atomically(tmp_path / "x.json", {"\ud800": 1})
    assert json.loads((tmp_path / "x.json").read_bytes()) == {"\ud800": 1}


def test_a_document_that_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json_atomically(path, [1])
    bad: dict[str, Json] = {"x": {1, 2}}  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        write_json_atomically(path, bad)
    assert json.loads(path.read_bytes()) == [1]


def test_a_file_is_replaced_and_nothing_temporary_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]


def test_a_folder_that_is_none_is_a_storage_error_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(StorageError, match=r"cannot write .*x.json: Not a directory. Check free space") as caught:
        write_json_atomically(tmp_path / "file" / "x.json", {})
    assert caught.value.exit_code == 5
    assert (tmp_path / "file").read_text() == "here"


def test_a_name_taken_by_a_folder_is_a_storage_error_and_nothing_temporary_stays(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        write_json_atomically(tmp_path / "x.json", {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_timers_are_a_tree_in_which_no_time_is_negative() -> None:
    parallel = TimerNode(total_s=9.0, count=2, is_parallel=True)
    step = TimerNode(total_s=3.0, count=10)
    root = TimerNode(total_s=5.0, count=1, children={"step": step, "workers": parallel})
    document = timers_document(root, {"reward": Gauge(value=1.0, min=0.0, max=2.0, count=3)}, {"python_version": "3"})
    assert document == {
        "name": "root",
        "total": 5.0,
        "count": 1,
        "self": 0.0,
        "children": {
            "step": {"total": 3.0, "count": 10, "self": 3.0},
            "workers": {"total": 9.0, "count": 2, "self": 9.0, "is_parallel": True},
        },
        "gauges": {"reward": {"value": 1.0, "min": 0.0, "max": 2.0, "count": 3}},
        "metadata": {"timer_format_version": "0.1.0", "python_version": "3"},
    }


def test_the_training_status_lists_models_oldest_first_and_the_final_one() -> None:
    first = SavedModel(steps=5, file_path="a-5.onnx", reward=None, creation_time=1.0, other_files=("checkpoints/5",))
    last = SavedModel(steps=9, file_path="a.onnx", reward=0.5, creation_time=2.0)
    document = training_status_document(
        {"A": SavedBehavior(checkpoints=(first,), final=last), "B": SavedBehavior()},
        versions={"python_version": "3"},
        lessons={"size": 2},
    )
    assert document["A"] == {
        "checkpoints": [
            {
                "steps": 5,
                "file_path": "a-5.onnx",
                "reward": None,
                "creation_time": 1.0,
                "auxillary_file_paths": ["checkpoints/5"],
            }
        ],
        "final_checkpoint": {
            "steps": 9,
            "file_path": "a.onnx",
            "reward": 0.5,
            "creation_time": 2.0,
            "auxillary_file_paths": [],
        },
    }
    assert document["B"] == {"checkpoints": []}
    assert document["size"] == {"lesson_num": 2}
    assert document["metadata"] == {"stats_format_version": "0.3.0", "python_version": "3"}
