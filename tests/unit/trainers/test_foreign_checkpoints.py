"""Checkpoints that somebody else has written: nothing in them is executed, and what does not fit is refused."""

import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.errors import StorageError, UsageError
from runtime.experience.brains import ActionSpec, BrainName
from tests.support.experience_streams import small_brain, small_learner
from trainers.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from trainers.tensors_file import Array

BRAIN = small_brain()
BOMB = b"[" * 200_000


def put(folder: Path, contents: Mapping[str, bytes]) -> Path:
    """A folder whose manifest fits, whatever is in it."""
    folder.mkdir()
    entries = {
        name: {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()} for name, body in contents.items()
    }
    for name, body in contents.items():
        (folder / name).write_bytes(body)
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "files": entries}))
    return folder


class Canary:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_in_a_checkpoint_is_not_loaded(tmp_path: Path) -> None:
    body = pickle.dumps(Canary(tmp_path / "canary"))
    for name in ("arrays.safetensors", "state.json"):
        contents = {"arrays.safetensors": (2).to_bytes(8, "little") + b"{}", "state.json": b"{}", name: body}
        with pytest.raises(StorageError, match="unreadable"):
            read_checkpoint(put(tmp_path / name, contents))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "arrays.safetensors"])
def test_brackets_nested_without_end_are_damage(tmp_path: Path, name: str) -> None:
    arrays = (
        len(BOMB).to_bytes(8, "little") + BOMB if name == "arrays.safetensors" else (2).to_bytes(8, "little") + b"{}"
    )
    folder = put(tmp_path / "1", {"arrays.safetensors": arrays, "state.json": BOMB if name == "state.json" else b"{}"})
    if name == "manifest.json":
        (folder / name).write_bytes(BOMB)
    with pytest.raises(StorageError, match="unreadable manifest or content"):
        read_checkpoint(folder)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = put(tmp_path / "1", {"arrays.safetensors": b"", "state.json": b""})
    (folder / "arrays.safetensors").unlink()
    os.mkfifo(folder / "arrays.safetensors")
    with pytest.raises(StorageError, match=r"arrays\.safetensors is no file"):
        read_checkpoint(folder)


def test_a_file_that_is_longer_than_its_entry_is_not_read(tmp_path: Path) -> None:
    folder = put(tmp_path / "1", {"arrays.safetensors": b"", "state.json": b""})
    os.truncate(folder / "arrays.safetensors", 2**42)
    with pytest.raises(StorageError, match=f"has {2**42} bytes, expected 0"):
        read_checkpoint(folder)


@pytest.mark.parametrize("state", [[], {}, {"behaviors": []}, {"behaviors": {}}, {"behaviors": {}, "run_state": {}}])
def test_a_state_that_is_not_a_runs_is_refused(tmp_path: Path, state: Any) -> None:
    body = json.dumps(state).encode()
    folder = put(tmp_path / "1", {"arrays.safetensors": (2).to_bytes(8, "little") + b"{}", "state.json": body})
    with pytest.raises(StorageError, match="was not written by this program"):
        small_learner().load([folder])


def saved(folder: Path) -> Checkpoint:
    small_learner(brains=[small_brain()]).begin_save({})(folder)
    return read_checkpoint(folder)


def bent(arrays: Mapping[str, Array], name: str, array: Array) -> dict[str, Array]:
    assert name in arrays
    return {**arrays, name: array}


@pytest.mark.parametrize("name", ["0/weights", "0/adam.first", "0/adam.second"])
@pytest.mark.parametrize("kind", ["short", "nan"])
def test_weights_that_do_not_fit_or_are_not_finite_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    good = saved(tmp_path / "good")
    array = good.arrays[name][:-1] if kind == "short" else np.full_like(good.arrays[name], np.nan)
    write_checkpoint(tmp_path / "bad", Checkpoint(bent(good.arrays, name, array), good.state))
    size = good.arrays[name].size
    told = {
        "short": rf"weights of shape \({size - 1},\), expected \({size},\)",
        "nan": f"{size} of {size} weights are not finite, expected finite numbers",
    }
    with pytest.raises(StorageError, match=rf"'Walker': ValueError: {told[kind]}"):
        small_learner().load([tmp_path / "bad"])


@pytest.mark.parametrize("key", ["brain", "shape", "snapshots", "episodes", "version"])
@pytest.mark.parametrize("value", [None, 3, [], {}, "x"])
def test_a_behavior_of_other_form_is_refused_or_means_something(tmp_path: Path, key: str, value: Any) -> None:
    good = saved(tmp_path / "good")
    behaviors = good.state["behaviors"]
    assert isinstance(behaviors, dict)
    assert key in behaviors["Walker"]
    state = {**good.state, "behaviors": {"Walker": {**behaviors["Walker"], key: value}}}
    write_checkpoint(tmp_path / "bad", Checkpoint(good.arrays, state))
    learner = small_learner()
    if (key, value) in [("version", 3), ("snapshots", []), ("snapshots", {})]:
        learner.load([tmp_path / "bad"])
        return
    with pytest.raises((StorageError, UsageError), match=r"was not written by this program: behavior 'Walker'|saved, "):
        learner.load([tmp_path / "bad"])


def test_a_saved_behavior_is_not_taken_for_another_of_its_name(tmp_path: Path) -> None:
    small_learner(brains=[BRAIN]).begin_save({})(tmp_path / "save")
    again = small_learner()
    again.load([tmp_path / "save"])
    other = r"behavior 'Walker' does not fit the checkpoint: actions ActionSpec.* saved, .*\(7,\)\) now. Expected"
    with pytest.raises(UsageError, match=other):
        again.add_brain(replace(BRAIN, action_spec=ActionSpec(discrete_branches=(7,))))


def test_a_run_that_goes_on_says_which_behavior_is_new_to_it(tmp_path: Path) -> None:
    small_learner(brains=[BRAIN]).begin_save({})(tmp_path / "save")
    again = small_learner()
    again.load([tmp_path / "save"])
    known, new = again.add_brain(BRAIN), again.add_brain(replace(BRAIN, brain_name=BrainName("Runner")))
    assert known is not None
    assert known.warning == ""
    assert new is not None
    assert new.warning == (
        "behavior 'Runner': the run to go on with knows 'Walker', and not this one; it begins with random weights"
    )
