"""A run that is refused answers with exit code 2, touches nothing, and leaves no process."""

from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.training_runs import TrainingRun, short_config, short_run

ANSWERS_S_MAX = 30.0


def refused(folder: Path, *arguments: str) -> str:
    """What a refused run says."""
    with TrainingRun(folder, *arguments) as run:
        assert run.wait(ANSWERS_S_MAX) == 2, run.text
        assert run.nothing_left(1.0) == ""
        assert "Traceback" not in run.text
        return run.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--num-env", "2"), "nearest"),
        (("--env", "fake:constnat"), "constant"),
        (("--env", "no-such-player"), "player not found"),
        (("--num-envs", "0"), "num"),
        (("--inference",), "--inference"),
        (("missing.yaml", "--env", "fake:constant"), "missing.yaml"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(tmp_path, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_id_is_refused_and_its_folder_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "k"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    assert "--resume" in refused(tmp_path, str(short_config(tmp_path)), "--env", "fake:constant")
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]


def test_a_run_that_is_under_way_keeps_its_folder_to_itself(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.until(run.checkpoints, 120.0), run.text
        words = [str(tmp_path / "short.yaml"), "--env", "fake:constant", "--resume", "--base-port", str(free_port())]
        assert f"in use by pid {run.pid}" in refused(tmp_path, *words)
        before = run.summary()["agent_steps"]
        assert run.until(lambda: run.summary()["agent_steps"] > before, 60.0)
