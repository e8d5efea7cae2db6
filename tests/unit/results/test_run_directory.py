"""The folder of a run: claimed once, touched only when allowed, and nothing of others deleted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import StorageError, UsageError
from runtime.folders import TEMPORARY_PREFIX
from runtime.run_directory import NUMBERED_IDS_MAX, RunDirectory, RunPaths, claim_run_directory, initial_checkpoints
from runtime.run_files import inventory
from runtime.run_lock import LOCK_NAME, Holder, _lock_opened, take_lock, this_process
from tests.support.full_disk import file_size_limit
from tests.support.settings import parse
from trainers.checkpoints import ARRAYS, MANIFEST, STATE

CLAIM = """
import sys
from runtime.run_directory import claim_run_directory
from tests.support.settings import parse
claim = claim_run_directory(parse(*sys.argv[1:]))
print(claim.run_id, flush=True)
sys.stdin.read()
"""


def claim(results: Path, *argv: str) -> RunDirectory:
    return claim_run_directory(parse("--results-dir", str(results), *argv))


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


OURS = (
    "configuration.yaml",
    "summary.json",
    "Basic.onnx",
    "Basic/Basic-200.onnx",
    "Basic/events.out.tfevents.0000000001.5.0",
    "checkpoints/200/arrays.safetensors",
    "checkpoints/200/manifest.json",
    "checkpoints/200/state.json",
    "checkpoints/.saving-300/state.json",
    "checkpoints/.saving-old-200/manifest.json",
    "run_logs/actors.log",
    "run_logs/actors.thespian.log",
    "run_logs/timers.json",
    "run_logs/training_status.json",
    "run_logs/metrics-Basic.csv",
    "run_logs/Player-0.log",
    ".summary.json.4711.tmp",
)
FOREIGN = (
    "notes.txt",
    "other.onnx",
    "Basic/notes.md",
    "Basic/Other-5.onnx",
    "checkpoints/200/thesis.tex",
    "run_logs/mine.txt",
)


def test_a_bundled_run_takes_the_next_free_number(tmp_path: Path) -> None:
    claims = [claim(tmp_path) for _ in range(3)]
    assert [one.run_id for one in claims] == ["basic", "basic-2", "basic-3"]
    assert claims[0].notes == ()
    assert claims[2].notes == ("the run id basic exists already; this run is basic-3",)
    for one in claims:
        one.release()


@pytest.mark.parametrize("argv", [("--run-id", "basic"), ("--env", "player")])
def test_any_other_existing_id_is_refused_and_nothing_is_touched(tmp_path: Path, argv: tuple[str, ...]) -> None:
    for name in ("basic", "ppo"):
        write(tmp_path / name, *OURS, *FOREIGN)
    before = files_of(tmp_path)
    with pytest.raises(UsageError, match=r"exists already: .*Add --resume to go on with it, --force") as caught:
        claim(tmp_path, *argv)
    assert caught.value.exit_code == 2
    assert files_of(tmp_path) == before


def test_force_deletes_what_we_wrote_and_says_what_stays(tmp_path: Path) -> None:
    root = tmp_path / "r"
    write(root, *OURS, *FOREIGN)
    claimed = claim(tmp_path, "--run-id", "r", "--force")
    assert files_of(root) == sorted([*FOREIGN, LOCK_NAME])
    (note,) = claimed.notes
    assert note.startswith(f"--force left what this program did not write in {root}: ")
    assert all(name in note for name in FOREIGN)
    claimed.release()


def test_force_leaves_no_empty_folders(tmp_path: Path) -> None:
    write(tmp_path / "r", *OURS)
    claimed = claim(tmp_path, "--run-id", "r", "--force")
    assert claimed.notes == ()
    claimed.release()
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["run_logs"]


def test_a_checkpoint_that_stepped_aside_for_nothing_can_be_gone_on_from(tmp_path: Path) -> None:
    write(tmp_path / "basic", "checkpoints/.saving-old-300/manifest.json", "checkpoints/.saving-400/manifest.json")
    claimed = claim(tmp_path, "--resume")
    assert [path.name for path in claimed.paths.checkpoint_folders()] == ["300"]
    claimed.release()


def test_the_names_of_a_checkpoint_are_those_that_the_trainer_writes(tmp_path: Path) -> None:
    folders = ("200", f"{TEMPORARY_PREFIX}200", f"{TEMPORARY_PREFIX}old-200")
    names = [f"checkpoints/{folder}/{name}" for folder in folders for name in (ARRAYS, STATE, MANIFEST)]
    write(tmp_path, *names)
    assert inventory(tmp_path).ours == tuple(sorted(names))


def test_force_does_not_follow_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "200/arrays.safetensors")
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "checkpoints").symlink_to(elsewhere)
    claim(tmp_path / "runs", "--run-id", "r", "--force").release()
    assert files_of(elsewhere) == ["200/arrays.safetensors"]


def test_force_on_a_new_id_makes_it(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "deep" / "results", "--run-id", "r", "--force")
    assert claimed.paths.run_logs.is_dir()
    claimed.release()


PARTS = ("a", "Basic", "checkpoints", "run_logs", "12", "Basic-3.onnx", "x.npz", "timers.json")
names = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)


@given(st.sets(names, max_size=8))
def test_every_file_is_either_ours_or_foreign(tmp_path_factory: pytest.TempPathFactory, found: set[str]) -> None:
    folder = tmp_path_factory.mktemp("inventory")
    for name in found:
        path = folder / name
        if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
            write(folder, name)
    sorted_out = inventory(folder)
    assert sorted([*sorted_out.ours, *sorted_out.foreign]) == files_of(folder)


def test_resume_goes_on_in_the_same_folder_and_keeps_its_files(tmp_path: Path) -> None:
    write(tmp_path / "basic", *OURS)
    write(tmp_path / "basic", "checkpoints/1000/arrays.safetensors")
    claimed = claim(tmp_path, "--resume")
    assert claimed.run_id == "basic"
    assert [path.name for path in claimed.paths.checkpoint_folders()] == ["1000", "200"]
    claimed.release()
    assert set(OURS) <= set(files_of(tmp_path / "basic"))


def test_resume_without_a_checkpoint_is_refused_with_the_nearest_run(tmp_path: Path) -> None:
    write(tmp_path / "walker", *OURS)
    with pytest.raises(StorageError, match=r"there is no run .*walkr to go on from; runs there: walker; ") as caught:
        claim(tmp_path, "--run-id", "walkr", "--resume")
    assert caught.value.exit_code == 5
    assert "nearest: walker" in str(caught.value)
    assert not (tmp_path / "walkr").exists()
    write(tmp_path / "empty", "summary.json")
    with pytest.raises(StorageError, match=r"the run .*empty has no checkpoint to go on from"):
        claim(tmp_path, "--run-id", "empty", "--resume")
    assert files_of(tmp_path / "empty") == ["summary.json"]


def test_a_run_to_start_from_must_exist_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--initialize-from: there is no run 'old' with a checkpoint in"):
        claim(tmp_path / "results", "--initialize-from", "old")
    assert not (tmp_path / "results").exists()
    write(tmp_path / "old", "checkpoints/7/arrays.safetensors")
    settings = parse("--results-dir", str(tmp_path), "--initialize-from", "old")
    claim_run_directory(settings).release()
    assert initial_checkpoints(settings) == (tmp_path / "old" / "checkpoints" / "7",)
    assert initial_checkpoints(parse()) == ()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        StorageError, match=r"cannot make the run's folder in .*: Not a directory. Choose --results-dir"
    ):
        claim(tmp_path / "file" / "results")


def test_a_folder_that_cannot_be_used_is_a_storage_error_and_not_locked(tmp_path: Path) -> None:
    write(tmp_path / "r", "checkpoints/200/arrays.safetensors", "run_logs")
    with pytest.raises(StorageError, match=r"cannot write to .*r: File exists. Check permissions, or choose"):
        claim(tmp_path, "--run-id", "r", "--resume")
    assert not (tmp_path / "r" / LOCK_NAME).exists()


def test_numbers_of_bundled_runs_end_somewhere(tmp_path: Path) -> None:
    for count in range(1, NUMBERED_IDS_MAX + 1):
        (tmp_path / ("basic" if count == 1 else f"basic-{count}")).mkdir()
    with pytest.raises(UsageError, match=r"all of basic, basic-2, \.\.\. exist in .*Choose another --run-id"):
        claim(tmp_path)


def test_a_run_that_is_under_way_is_not_disturbed_and_its_holder_is_named(tmp_path: Path) -> None:
    write(tmp_path / "r", *OURS)
    argv = ("--results-dir", str(tmp_path), "--run-id", "r", "--resume")
    command = [sys.executable, "-c", CLAIM, *argv]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "r\n"
            for flag in ("--resume", "--force"):
                with pytest.raises(UsageError, match=rf"is in use by pid {holder.pid} on .*Wait until it ends"):
                    claim(tmp_path, "--run-id", "r", flag)
            assert set(OURS) <= set(files_of(tmp_path / "r"))
        finally:
            holder.kill()
            holder.wait(timeout=30)
    claimed = claim(tmp_path, "--run-id", "r", "--resume")
    (note,) = claimed.notes
    assert note.startswith(f"took over the lock of pid {holder.pid} on ")
    claimed.release()


def test_a_released_lock_leaves_nothing_and_is_free_again(tmp_path: Path) -> None:
    for _ in range(2):
        lock = take_lock(tmp_path, this_process())
        assert lock.stale is None
        lock.release()
        lock.release()
        assert list(tmp_path.iterdir()) == []


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    lock = take_lock(tmp_path, Holder(12, "here", "boot"))
    assert json.loads((tmp_path / LOCK_NAME).read_text()) == {"pid": 12, "host": "here", "boot_id": "boot"}
    lock.release()


@pytest.mark.parametrize(
    ("earlier", "is_taken_over"),
    [
        (Holder(1, "here", "now"), True),
        (Holder(1, "here", "before"), True),
        (Holder(1, "container", "now"), True),
        (Holder(1, "there", "other"), False),
    ],
    ids=["died", "rebooted", "another container of this computer", "another computer"],
)
def test_only_another_computers_lock_is_left_alone(tmp_path: Path, earlier: Holder, *, is_taken_over: bool) -> None:
    path = tmp_path / LOCK_NAME
    text = json.dumps({"pid": earlier.pid, "host": earlier.host, "boot_id": earlier.boot_id})
    path.write_text(text)
    if is_taken_over:
        lock = take_lock(tmp_path, Holder(2, "here", "now"))
        assert lock.stale == earlier
        lock.release()
        return
    with pytest.raises(UsageError, match=r"in use by pid 1 on there, another computer. If that run has ended, remove"):
        take_lock(tmp_path, Holder(2, "here", "now"))
    assert path.read_text() == text


def test_a_lock_that_names_nobody_is_taken_over_and_its_content_said_in_one_short_line(tmp_path: Path) -> None:
    claim(tmp_path, "--run-id", "r").release()
    (tmp_path / "r" / LOCK_NAME).write_bytes(b"\x1b[2J\n[INFO] fake \xff" + b"x" * 5000)
    claimed = claim(tmp_path, "--run-id", "r", "--force")
    (note,) = claimed.notes
    claimed.release()
    assert note.startswith("took over a lock that names nobody and that nobody holds; run.lock had: \\x1b[2J\\n[INFO]")
    assert note.isprintable()
    assert len(note) < 160


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x", "host": 1, "boot_id": 2}'])
def test_a_damaged_lock_that_nobody_holds_is_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK_NAME).write_text(text)
    lock = take_lock(tmp_path, this_process())
    assert lock.stale is None
    lock.release()


def test_a_refused_lock_leaves_no_open_file(tmp_path: Path) -> None:
    lock = take_lock(tmp_path, this_process())
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the links' targets are not paths
    with pytest.raises(UsageError):
        take_lock(tmp_path, this_process())
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
    lock.release()


def test_a_lock_that_its_last_holder_removed_meanwhile_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    for is_made_again in (False, True):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        path.unlink()
        if is_made_again:
            path.touch()
        assert _lock_opened(path, descriptor, this_process()) is None
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_full_disk_is_a_storage_error_and_holds_no_lock(tmp_path: Path) -> None:
    with file_size_limit(0), pytest.raises(StorageError, match=r"cannot lock .*run.lock: File too large. Check"):
        take_lock(tmp_path, this_process())
    take_lock(tmp_path, this_process()).release()


def test_a_folder_without_room_for_a_lock_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write to"):
        take_lock(tmp_path / "absent", this_process())


def test_paths_of_a_run_are_safe_for_any_name() -> None:
    paths = RunPaths(Path("results") / "r")
    assert paths.model("Goalie?team=1") == Path("results/r/Goalie.onnx")
    assert paths.step_model("Goalie?team=1", 200) == Path("results/r/Goalie/Goalie-200.onnx")
    assert paths.checkpoint(200) == Path("results/r/checkpoints/200")
    assert paths.player_log(3) == Path("results/r/run_logs/Player-3.log")
    assert paths.summary == Path("results/r/summary.json")
    assert paths.timers == Path("results/r/run_logs/timers.json")
    assert paths.metrics("Goalie?team=1") == Path("results/r/run_logs/metrics-Goalie.csv")
    assert paths.training_status == Path("results/r/run_logs/training_status.json")
    assert paths.configuration == Path("results/r/configuration.yaml")
    assert paths.model("../../x").parent == Path("results/r")
