"""Ctrl-C and SIGTERM end a run in ten seconds with its models saved, a second one at once, and nothing is left."""

import signal
import time
from pathlib import Path

import pytest

from tests.support.training_runs import TrainingRun, short_run

STARTS_S_MAX = 120.0
LEAVES_S_MAX = 10.0
HURRIES_S_MAX = 4.0


def is_progress(text: str) -> bool:
    return ". Step: " in text


def wait_until_training(run: TrainingRun) -> None:
    assert run.wait_for(is_progress, STARTS_S_MAX), run.text


def leaves(run: TrainingRun, within_s: float) -> int:
    """The exit code; the run has left within the limit, with all its processes."""
    began_s = time.monotonic()
    code = run.wait(60.0)
    took_s = time.monotonic() - began_s
    assert took_s < within_s, f"{took_s:.1f} s\n{run.text}"
    assert run.nothing_left(1.0) == ""
    return code


@pytest.mark.parametrize("whole_group", [False, True], ids=["launcher", "terminal"])
@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
    ids=["SIGINT", "SIGTERM"],
)
def test_c38b_one_signal_to_launcher_or_terminal_saves_and_leaves_nothing_within_ten_seconds(
    tmp_path: Path, number: signal.Signals, code: int, reason: str, *, whole_group: bool
) -> None:
    with short_run(tmp_path, max_steps=1_000_000, new_group=True) as run:
        wait_until_training(run)
        run.signal(number, whole_group=whole_group)
        assert leaves(run, LEAVES_S_MAX) == code
        summary = run.summary()
        assert summary["exit_reason"] == reason
        assert run.checkpoints()[-1].name == str(summary["agent_steps"])
        assert (run.results / "Constant.onnx").exists()
        assert summary["unreported_steps_max"] == 0


def test_a_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        wait_until_training(run)
        run.signal(signal.SIGINT)
        assert run.wait_for(lambda text: "Once more leaves at once" in text, 10.0)
        run.signal(signal.SIGINT)
        assert leaves(run, HURRIES_S_MAX) == 130
        assert run.summary()["exit_reason"] == "interrupted"


def test_an_interrupt_during_the_start_leaves_nothing(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.wait_for(lambda text: text.startswith("[INFO] Run k:"), STARTS_S_MAX), run.text
        run.signal(signal.SIGINT)
        assert leaves(run, LEAVES_S_MAX) == 130
        assert run.summary()["exit_reason"] == "interrupted"


def test_an_interrupt_ends_a_series_and_says_which_runs_were_not_reached(tmp_path: Path) -> None:
    with short_run(tmp_path, "--num-runs", "3", max_steps=1_000_000) as run:
        wait_until_training(run)
        run.signal(signal.SIGINT)
        assert leaves(run, LEAVES_S_MAX) == 130
        assert "[INFO] Not reached: k-1, k-2;" in run.text


def test_an_interrupt_in_the_last_moment_of_a_run_ends_its_series(tmp_path: Path) -> None:
    with short_run(tmp_path, "--num-runs", "2") as run:
        assert run.wait_for(lambda text: " ended: max_steps." in text, STARTS_S_MAX), run.text
        run.signal(signal.SIGINT)
        assert leaves(run, LEAVES_S_MAX) == 130
        assert "Run k-1:" not in run.text
