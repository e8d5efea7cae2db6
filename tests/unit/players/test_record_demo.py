"""Experts of bundled scenes are recorded by a command in either format, and read back as they acted."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from fakeunity.experts import EXPERTS
from fakeunity.scenes.catalogue import SCENES
from runtime.errors import PlayerContentError, UsageError
from runtime.experience.demonstrations import demonstrated_steps
from runtime.players.demonstrations import read_demonstration
from runtime.record_demo import SCENES_PLAYED, main, record
from tests.support.interrupts import ctrl_c

BOTH: tuple[Literal[1, 2], ...] = (1, 2)


@pytest.fixture
def recording(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[pytest.CaptureFixture[str], Path]:
    """What is said, and the folder that relative paths begin in."""
    monkeypatch.chdir(tmp_path)
    return capsys, tmp_path


@pytest.mark.parametrize("generation", BOTH)
@pytest.mark.parametrize("scene", ["basic", "balance", "teacher", "basic?protocol=API-10&agents=3"])
def test_an_expert_is_read_back_as_it_acted_and_earned_the_best_reward(
    tmp_path: Path, scene: str, generation: Literal[1, 2]
) -> None:
    path, records = record(f"fake:{scene}", tmp_path / "Expert", episodes=3, seed=4, generation=generation)
    demonstration = read_demonstration(path)
    assert (demonstration.generation, len(demonstration)) == (generation, records)
    steps = demonstrated_steps(demonstration)
    name = demonstration.brain.behavior_name
    expected = EXPERTS[name]([each.astype(np.float32) for each in steps.observations])
    assert np.allclose(steps.continuous, expected.continuous, atol=1e-6)
    assert np.array_equal(steps.discrete, expected.discrete)
    assert int(steps.done.sum()) == 3
    best = SCENES[scene.partition("?")[0]].best_reward
    assert float(steps.rewards.sum()) / 3 == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("scene", SCENES_PLAYED)
def test_the_scenes_that_are_named_can_be_recorded(scene: str, tmp_path: Path) -> None:
    assert record(f"fake:{scene}", tmp_path / "x", episodes=1)[1] > 1


def test_the_command_says_where_the_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["basic", str(tmp_path / "Basic.demo"), "--episodes", "2", "--format", "2019"]) == 0
    assert main(["fake:basic", str(tmp_path / "Basic.demo"), "--episodes", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"Wrote {tmp_path / 'Basic.demo'}: 2 episodes, 15 records"
    assert said[1].startswith(f"Wrote {tmp_path / 'Basic_0.demo'}: 1 episodes")


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["crowd", "x.demo"], 2, "nobody knows how to play 'fake:crowd'; expected basic, balance, teacher. Record"),
        (["basik", "x.demo"], 2, "basic"),
        (["basic", "x.demo", "--episodes", "0"], 2, "0 episodes; expected at least 1."),
        (["basic", "/proc"], 2, "/proc is a folder; expected the file to write. Name one in it: /proc/NAME.demo."),
        (["basic", "/proc/none/x.demo"], 5, "/proc/none/x.demo cannot be written"),
    ],
)
def test_what_cannot_be_recorded_is_said(
    argv: list[str], code: int, text: str, recording: tuple[pytest.CaptureFixture[str], Path]
) -> None:
    said, folder = recording
    assert main(argv) == code
    assert text in said.readouterr().err
    assert not list(folder.iterdir())


def test_a_recording_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(PlayerContentError, match="is nan"):
        record("fake:basic?fault=nan@step=2", tmp_path / "x", episodes=1)
    assert not list(tmp_path.iterdir())


def test_one_ctrl_c_ends_a_recording_and_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ctrl_c(lambda: list(tmp_path.iterdir())):
        assert main(["balance", str(tmp_path / "x.demo"), "--episodes", "100"]) == 130
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr() == ("", "[INFO] Interrupted: nothing was written.\n")


def test_a_scene_without_an_expert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody knows how to play 'fake:hybrid'"):
        record("fake:hybrid", tmp_path / "x", episodes=1)
