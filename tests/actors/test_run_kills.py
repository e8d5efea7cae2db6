"""A few kills at fixed draws, so that a change of supervision is noticed by the quick tests; `tests/soak` has more."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.kills import Kill, Life, kills, launcher_killed, measured

# Short, and drawn as if it lasted longer than on a quick machine: a kill that comes too late is drawn again.
SHORT = Life(lasts_s=7.0, delay_ms="0-0", max_steps=1500, checkpoint_interval=500)


def one_kill(victim: str, seed: int, folder: Path) -> Kill:
    (kill,) = kills(victim, 1, seed, SHORT, folder=folder / "runs")
    return kill


def test_an_undisturbed_run_counts_what_its_players_count(tmp_path: Path) -> None:
    assert measured(SHORT, tmp_path).lasts_s > 0.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_launcher_leaves_no_process_and_no_port_and_can_be_resumed(tmp_path: Path, seed: int) -> None:
    assert one_kill("launcher", seed, tmp_path).victim == "launcher"


def test_a_run_whose_launcher_was_killed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    with replace(SHORT, max_steps=4000).run(tmp_path, 1) as run:
        assert run.until(run.checkpoints, 120.0), run.text
        kill = launcher_killed(run)
        assert kill is not None
        assert kill.note.startswith("resumed from ")


@pytest.mark.parametrize("victim", ["worker", "player", "holder"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_part_is_named_and_started_again_and_the_run_completes(tmp_path: Path, victim: str, seed: int) -> None:
    kill = one_kill(victim, seed, tmp_path)
    assert kill.noticed_s is not None
    assert kill.noticed_s < 5.0
