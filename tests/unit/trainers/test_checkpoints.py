"""Checkpoints: complete or refused, and training goes on from them bit for bit."""

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import StorageError, UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import BehaviorSettings, Learner, LearnerOptions
from tests.support.experience_streams import (
    EYE,
    GRAY,
    Feeder,
    random_life,
    seeing_brain,
    small_brain,
    small_learner,
    small_settings,
    walkers,
)
from trainers.checkpoints import Checkpoint, first_loadable, read_checkpoint, write_checkpoint
from trainers.learner import PPOLearner, create_learner
from trainers.saved_state import behavior_arrays
from trainers.tensors_file import Array, decode_arrays, encode_arrays

BRAIN = small_brain()
SEEING = seeing_brain()
ROOT = Path(__file__).parents[3]
CHECKPOINT = Checkpoint(
    {"b/x": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.zeros((0, 2), np.int64)}, {"n": 1}
)


def update(learner: Learner, name: str = "Walker") -> None:
    learner.finish_update(learner.begin_update(name)())


def experience(learner: Learner, *, env_id: int, seed: int, version: int, brain: BrainParameters = BRAIN) -> None:
    feeder = Feeder(learner, brain, env_id=env_id, version=version)
    first, rest = random_life(brain, seed=seed, agents=3, steps=15)
    feeder.reset(*first.rows)
    feeder.steps(*rest)


def trained(*, is_normalized: bool = True, brain: BrainParameters = BRAIN) -> Learner:
    learner = small_learner(small_settings(normalize=is_normalized), brains=[brain])
    walkers(learner, brain)
    update(learner)
    experience(learner, env_id=1, seed=2, version=1, brain=brain)
    return learner


@pytest.mark.parametrize("brain", [BRAIN, SEEING], ids=["vectors", "images"])
def test_training_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path, brain: BrainParameters) -> None:
    learner = trained(brain=brain)
    learner.take_summaries()
    learner.cut(None)
    learner.begin_save({"lesson": 3})(tmp_path / "50")
    again = small_learner(small_settings(normalize=True), seed=99)
    assert again.load([tmp_path / "50"]) == {"lesson": 3, "damaged": []}
    release = again.add_brain(brain)
    assert release is not None
    assert release.version == 1
    results = []
    for one in (learner, again):
        assert isinstance(one, PPOLearner)
        experience(one, env_id=2, seed=7, version=1, brain=brain)
        update(one)
        experience(one, env_id=3, seed=8, version=2, brain=brain)
        update(one)
        behavior = one._behaviors["Walker"]
        moments = behavior.weights.first.tobytes() + behavior.weights.second.tobytes()
        results.append(
            (one.unity_model("Walker"), moments, one.progress(), one.take_summaries(), behavior.normalizer.count)
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("brain", [BRAIN, SEEING], ids=["vectors", "images"])
def test_saving_while_trajectories_are_open_and_an_update_runs_loses_no_transition(
    tmp_path: Path,
    brain: BrainParameters,
) -> None:
    learner = trained(brain=brain)
    buffered = learner.progress()["Walker"].buffered
    job = learner.begin_update("Walker")
    experience(learner, env_id=2, seed=3, version=1, brain=brain)
    buffered += learner.progress()["Walker"].buffered
    save = learner.begin_save({})
    learner.finish_update(job())
    save(tmp_path / "save")
    again = small_learner(small_settings(normalize=True))
    again.load([tmp_path / "save"])
    again.add_brain(brain)
    progress = again.progress()["Walker"]
    assert (progress.buffered, progress.version) == (buffered, 1)
    update(again)
    assert isinstance(again, PPOLearner)
    assert np.isfinite(again._behaviors["Walker"].weights.flat).all()


def test_saving_changes_nothing_for_the_run_that_goes_on(tmp_path: Path) -> None:
    results = []
    for is_saved in (False, True):
        learner = trained()
        if is_saved:
            learner.begin_save({})(tmp_path / "save")
        feeder_free = learner.progress()
        update(learner)
        results.append((feeder_free, learner.unity_model("Walker")))
    assert results[0] == results[1]


def test_a_saved_behavior_is_known_before_its_player_announces_it_again(tmp_path: Path) -> None:
    learner = trained()
    learner.cut(None)
    learner.begin_save({})(tmp_path / "save")
    again = small_learner(small_settings(normalize=True))
    again.load([tmp_path / "save"])
    assert again.progress() == learner.progress()
    assert again.unity_model("Walker") == learner.unity_model("Walker")
    release = again.add_brain(BRAIN)
    assert release is not None
    assert (release.version, again.add_brain(BRAIN)) == (1, None)


def test_a_saved_behavior_that_the_settings_no_longer_name_stays_in_later_checkpoints(tmp_path: Path) -> None:
    def one_alone(name: str) -> BehaviorSettings:
        if name != "Walker":
            raise UsageError(f"no settings for {name!r}")
        return small_settings()

    small_learner(brains=[BRAIN, small_brain("Other")]).begin_save({})(tmp_path / "1")
    again = create_learner(LearnerOptions(run_seed=1, settings_for=one_alone))
    again.load([tmp_path / "1"])
    assert list(again.progress()) == ["Walker"]
    again.begin_save({})(tmp_path / "2")
    assert read_checkpoint(tmp_path / "1").arrays.keys() == read_checkpoint(tmp_path / "2").arrays.keys()


def test_a_behavior_not_met_again_stays_in_later_checkpoints(tmp_path: Path) -> None:
    other = small_brain("Other")
    learner = small_learner(brains=[BRAIN, other])
    learner.begin_save({})(tmp_path / "1")
    again = small_learner()
    again.load([tmp_path / "1"])
    again.add_brain(BRAIN)
    again.begin_save({})(tmp_path / "2")
    assert read_checkpoint(tmp_path / "1").arrays.keys() == read_checkpoint(tmp_path / "2").arrays.keys()


def test_a_network_of_another_shape_is_refused_field_by_field(tmp_path: Path) -> None:
    trained().begin_save({})(tmp_path / "save")
    learner = small_learner(small_settings(hidden_units=9))
    with pytest.raises(UsageError, match="hidden_units: 8 saved, 9 now; normalize: True saved, False now"):
        learner.load([tmp_path / "save"])


def test_initializing_takes_weights_and_normaliser_and_starts_counting_at_zero(tmp_path: Path) -> None:
    source = trained()
    source.begin_save({})(tmp_path / "save")
    learner = small_learner(small_settings(normalize=True))
    learner.initialize_from([tmp_path / "save"])
    release = learner.add_brain(BRAIN)
    assert release is not None
    progress = learner.progress()["Walker"]
    assert (progress.steps, progress.version, progress.buffered, progress.episodes) == (0, 0, 0, 0)
    assert learner.unity_model("Walker") == source.unity_model("Walker")
    learner.begin_save({})(tmp_path / "next")


def test_another_image_or_encoder_is_refused_field_by_field(tmp_path: Path) -> None:
    trained(brain=SEEING).begin_save({})(tmp_path / "save")
    other = small_learner(small_settings(normalize=True, vis_encode_type="nature_cnn"))
    wide = seeing_brain(images=[replace(each, shape=(each.shape[0], 40, 40)) for each in (EYE, GRAY)])
    other.initialize_from([tmp_path / "save"])
    text = r".*\[3, 20, 21\].* saved, .*\[3, 40, 40\].* now; vis_encode_type: simple saved, nature_cnn now"
    with pytest.raises(UsageError, match=f"observation_shapes: {text}"):
        other.add_brain(wide)


def test_images_are_saved_without_a_copy_of_them() -> None:
    learner = trained(brain=SEEING)
    assert isinstance(learner, PPOLearner)
    behavior = learner._behaviors["Walker"]
    ours = behavior.buffer.observations()[1]
    arrays = behavior_arrays(behavior)
    assert np.shares_memory(arrays["buffer.sight.0"], ours)
    pieces = [np.frombuffer(each, np.uint8) for each in encode_arrays(arrays) if len(each)]
    assert any(np.shares_memory(piece, ours) for piece in pieces)


def test_a_damaged_checkpoint_is_skipped_and_reported(tmp_path: Path) -> None:
    learner = trained()
    for name in ("old", "new"):
        learner.begin_save({"name": name})(tmp_path / name)
    path = tmp_path / "new" / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(bytes(content))
    found = small_learner(small_settings(normalize=True)).load([tmp_path / "new", tmp_path / "old"])
    assert found["name"] == "old"
    damaged = found["damaged"]
    assert isinstance(damaged, list)
    (reason,) = damaged
    assert str(tmp_path / "new") in reason
    assert "SHA-256" in reason


def test_when_all_are_damaged_nothing_is_started(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no checkpoint was found"):
        small_learner().load([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match=r"nothing to load: .*empty.*manifest.json.*; .*missing"):
        small_learner().load([tmp_path / "empty", tmp_path / "missing"])
    (tmp_path / "empty" / "manifest.json").touch()
    with pytest.raises(StorageError, match=r"manifest\.json is empty"):
        small_learner().load([tmp_path / "empty"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "1"
    write_checkpoint(folder, CHECKPOINT)
    return folder


@pytest.fixture(scope="module")
def newer(written: Path) -> Path:
    folder = written.parent / "2"
    write_checkpoint(folder, Checkpoint(CHECKPOINT.arrays, {"n": 2}))
    return folder


NAMES = ("manifest.json", "state.json", "arrays.safetensors")


def passed_over(newer: Path, written: Path, name: str, content: bytes) -> str:
    """Why the newer checkpoint is passed over once a file of it has that content; the older one is loaded."""
    whole = (newer / name).read_bytes()
    try:
        (newer / name).write_bytes(content)
        folder, found, (damage,) = first_loadable([newer, written])
    finally:
        (newer / name).write_bytes(whole)
    assert (folder, found.state, damage.folder) == (written, {"n": 1}, newer)
    return damage.reason


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere_a_checkpoint_is_passed_over_and_that_is_said(newer: Path, written: Path, name: str) -> None:
    whole = (newer / name).read_bytes()
    for length in range(len(whole)):
        assert passed_over(newer, written, name, whole[:length])
    assert passed_over(newer, written, name, whole + b"x")


@settings(max_examples=200)
@given(name=st.sampled_from(NAMES), place=st.integers(0, 2**31), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_said(newer: Path, written: Path, name: str, place: int, bit: int) -> None:
    content = bytearray((newer / name).read_bytes())
    content[place % len(content)] ^= 1 << bit
    reason = passed_over(newer, written, name, bytes(content))
    assert reason if name == "manifest.json" else "SHA-256" in reason


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_said_by_its_name(written: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(written, tmp_path / "1")
    (tmp_path / "1" / name).unlink()
    with pytest.raises(StorageError, match=f"No such file.*{name}"):
        read_checkpoint(tmp_path / "1")


def test_another_format_is_refused(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written, tmp_path / "1")
    manifest = json.loads((written / "manifest.json").read_text())
    (tmp_path / "1" / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(StorageError, match="format 2, expected 1"):
        read_checkpoint(tmp_path / "1")


def test_writing_again_replaces_and_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / ".saving-9").mkdir()
    for number in (1, 2):
        write_checkpoint(tmp_path / "1", Checkpoint(CHECKPOINT.arrays, {"n": number}))
    assert read_checkpoint(tmp_path / "1").state == {"n": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["1"]


def test_what_cannot_be_written_is_a_storage_error_and_leaves_the_old_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "1", CHECKPOINT)
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    with pytest.raises(StorageError, match=r"was not written: .* \(needed .* MB.*writable folder"):
        write_checkpoint(blocker / "1", CHECKPOINT)
    assert read_checkpoint(tmp_path / "1").state == {"n": 1}


def test_not_a_number_is_never_saved_in_the_state(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_checkpoint(tmp_path / "1", Checkpoint({}, {"reward": float("nan")}))
    assert not (tmp_path / "1").exists()


def test_arrays_survive_the_file_and_equal_ones_give_equal_bytes() -> None:
    arrays: dict[str, Array] = {
        "f": np.asarray([[1.5, -2]], np.float32),
        "d": np.asarray(3.5),
        "i": np.asarray([1], np.int32),
        "l": np.asarray([2**40], np.int64),
        "u": np.asarray([255], np.uint8),
        "b": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
    }
    decoded = decode_arrays(b"".join(encode_arrays(arrays)))
    assert decoded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert decoded[name].dtype == array.dtype
        np.testing.assert_array_equal(decoded[name], array)
    turned = dict(reversed(arrays.items()))
    assert b"".join(encode_arrays(arrays)) == b"".join(encode_arrays(turned))


@given(content=st.binary(max_size=60))
def test_any_bytes_are_arrays_or_a_value_error(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode_arrays(content)


def test_behaviors_whose_names_begin_alike_are_kept_apart(tmp_path: Path) -> None:
    brains = [small_brain("A"), small_brain("A/0"), small_brain("0")]
    learner = small_learner(brains=brains)
    learner.begin_save({})(tmp_path / "1")
    again = small_learner(seed=5)
    again.load([tmp_path / "1"])
    for brain in brains:
        again.add_brain(brain)
        assert again.unity_model(brain.behavior_name) == learner.unity_model(brain.behavior_name)


def test_a_run_state_that_is_no_json_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        small_learner().begin_save({"lesson": object()})


def test_old_content_that_stepped_aside_for_nothing_comes_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "1", CHECKPOINT)
    (tmp_path / "1").rename(tmp_path / ".saving-old-1")
    assert read_checkpoint(tmp_path / "1").state == {"n": 1}
    write_checkpoint(tmp_path / "2", Checkpoint({}, {"n": 2}))
    assert read_checkpoint(tmp_path / "1").state == {"n": 1}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["1", "2"]


KILLED = """
import sys
from pathlib import Path
import numpy as np
from trainers.checkpoints import Checkpoint, write_checkpoint
arrays = {"a": np.arange(500_000, dtype=np.float64)}
for number in range(100_000):
    write_checkpoint(Path(sys.argv[1]) / str(number), Checkpoint(arrays, {"n": number}))
    print(number, flush=True)
"""


def test_a_save_that_is_killed_leaves_the_last_one_that_was_finished(tmp_path: Path) -> None:
    for kills in range(4):
        folder = tmp_path / str(kills)
        folder.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            finished = [int(process.stdout.readline()) for _ in range(2 + kills)]
            process.kill()
            finished += [int(line) for line in process.stdout if line.endswith("\n")]
        found = sorted((int(each.name) for each in folder.iterdir() if each.name.isdecimal()), reverse=True)
        assert read_checkpoint(folder / str(found[0])).state == {"n": found[0]}
        assert found[0] >= finished[-1]
