"""`runtime.convert` writes a file that is read as the old one was, and says why it writes none."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.convert import converted, main
from runtime.results import write_atomically
from tests.support.interrupts import ctrl_c
from tests.support.settings import parse_text
from tests.unit.settings.test_era_files import DEFAULT

values = st.fixed_dictionaries(
    {},
    optional={
        "batch_size": st.integers(1, 64),
        "buffer_size": st.integers(64, 4096),
        "beta": st.floats(0, 1),
        "epsilon": st.floats(0.01, 1),
        "gamma": st.floats(0, 1),
        "lambd": st.floats(0, 1),
        "learning_rate": st.floats(1e-6, 1),
        "hidden_units": st.integers(1, 512),
        "normalize": st.booleans(),
        "num_epoch": st.integers(1, 10),
        "num_layers": st.integers(1, 4),
        "max_steps": st.sampled_from(["5.0e4", "100", "2e6"]),
        "time_horizon": st.integers(1, 2048),
        "summary_freq": st.integers(1, 5000),
        "learning_rate_schedule": st.sampled_from(["constant", "linear"]),
        "vis_encode_type": st.sampled_from(["simple", "nature_cnn"]),
    },
)


def block(keys: dict[str, object]) -> str:
    lines = "".join(f"  {key}: {str(value).lower()}\n" for key, value in keys.items())
    return "  trainer: ppo\n" + lines


@given(default=values, bot=values)
def test_a_converted_file_is_read_as_the_old_one(
    tmp_path_factory: pytest.TempPathFactory, default: dict[str, object], bot: dict[str, object]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = f"default:\n{block({**default, 'batch_size': 8})}Bot:\n{block(bot)}A: Bot\n"
    before = parse_text(folder, text)
    (folder / "old.yaml").write_text(text)
    after = parse_text(folder, converted(str(folder / "old.yaml")))
    assert after.behaviors == before.behaviors
    assert after.default_settings == before.default_settings
    assert after.environment.not_finite == before.environment.not_finite


def test_c21_an_old_file_is_converted_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(DEFAULT)
    assert main([str(old), str(new)]) == 0
    assert f"python -m runtime.train {new}" in capsys.readouterr().out
    assert new.read_text().startswith("# Converted from old.yaml")
    assert "behaviors:" in new.read_text()


def test_c21_a_file_of_today_needs_no_conversion_and_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.yaml"
    old.write_text("behaviors: {Bot: {}}\n")
    assert main([str(old), str(tmp_path / "new.yaml")]) == 2
    text = capsys.readouterr().err
    assert "found the format with `behaviors:`; expected trainer_config.yaml of ML-Agents 0.8 to 0.15" in text
    assert f"python -m runtime.train {old}" in text
    assert not (tmp_path / "new.yaml").exists()


def test_an_existing_file_is_written_over_with_force_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(DEFAULT)
    new.write_text("mine\n")
    assert main([str(old), str(new)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert new.read_text() == "mine\n"
    assert main([str(old), str(new), "--force"]) == 0
    assert "behaviors:" in new.read_text()


def test_a_missing_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(DEFAULT)
    assert main([str(old), str(tmp_path / "nowhere" / "new.yaml")]) == 5
    assert "there is no folder" in capsys.readouterr().err


def test_faults_of_the_old_file_are_told_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.yaml"
    old.write_text("default:\n  batch_size: many\n  gamma: 3\n")
    assert main([str(old), str(tmp_path / "new.yaml")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[ERROR] old.yaml:2: default.batch_size: many is not allowed")
    assert second.startswith("[ERROR] old.yaml:3: default.gamma: 3 is not allowed")


def test_ctrl_c_while_the_file_is_written_leaves_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.yaml"
    old.write_text("default: {trainer: ppo}\n")
    folder = tmp_path / "new"
    folder.mkdir()
    os.mkfifo(folder / f".new.yaml.{os.getpid()}.tmp")  # where it is written first; nobody reads, so that writing waits
    deadline_s = time.monotonic() + 20.0

    def is_writing() -> bool:
        names = {each.name for each in traceback.extract_stack()}
        return write_atomically.__name__ in names or time.monotonic() > deadline_s

    with ctrl_c(is_writing):
        assert main([str(old), str(folder / "new.yaml")]) == 130
    assert not list(folder.iterdir())
    assert capsys.readouterr() == ("", "[INFO] Interrupted.\n")
