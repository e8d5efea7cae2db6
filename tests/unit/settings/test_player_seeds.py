"""The seeds of players in `configuration.yaml`, which a run that goes on adds to."""

from pathlib import Path

import pytest

from runtime.settings.writing import recorded_player_seeds, to_yaml
from tests.support.settings import parse


def test_seeds_that_were_written_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(to_yaml(parse("--env", "fake:basic"), player_seeds={0: [5, 0], 11: [2**31 - 1], 2: []}))
    assert recorded_player_seeds(path) == {0: [5, 0], 2: [], 11: [2**31 - 1]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "runtime: 3",
        "runtime: {player_seeds: [1]}",
        "runtime: {player_seeds: {a: [1]}}",
        "runtime: {player_seeds: {0: [x]}}",
        "{",
    ],
)
def test_a_damaged_file_tells_of_no_seeds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(text)
    assert recorded_player_seeds(path) == {}


def test_a_missing_file_tells_of_no_seeds(tmp_path: Path) -> None:
    assert recorded_player_seeds(tmp_path / "configuration.yaml") == {}
