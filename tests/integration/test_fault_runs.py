"""Whole runs of the training command whose players do wrong: restarted within the budget, or refused with code 3."""

import contextlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.train import main
from tests.support.training_runs import players_count


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended."""

    code: int
    text: str
    summary: dict[str, Any]  # JSON


def trained(
    folder: Path, player: str, *flags: str, behavior: str = "Constant", max_steps: int = 400, seed: str = "5"
) -> Ended:
    """A short run, all actors in this process."""
    config = folder / "short.yaml"
    config.write_text(
        f"behaviors:\n  {behavior}:\n    trainer_type: ppo\n"
        "    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}\n"
        "    network_settings: {hidden_units: 8, num_layers: 1}\n"
        f"    max_steps: {max_steps}\n    time_horizon: 32\n    summary_freq: 200\n"
    )
    said = io.StringIO()
    words = [str(config), "--env", f"fake:{player}", "--actor-system", "inline", "--run-id", "f", "--seed", seed]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*words, "--results-dir", str(folder / "results"), *flags])
    return Ended(code, said.getvalue(), json.loads((folder / "results" / "f" / "summary.json").read_text()))


RESTARTED = [
    ("crash:9@step=20", (), "ended with exit code 9"),
    ("crash:SEGV@handshake", (), "was ended by SIGSEGV"),
    ("crash:7@reset", (), "ended with exit code 7"),
    ("hang@step=20", ("--step-timeout", "2"), "has not answered for 2.0 s"),
    ("rst:40@step=20", (), "environment 1"),
]


@pytest.mark.parametrize(("fault", "flags", "words"), RESTARTED)
def test_the_player_alone_is_restarted_and_the_run_finishes(
    fault: str, flags: Sequence[str], words: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    player = f"constant?fault={fault}%2Benv=1%2Bincarnation=0&journal={journal}"
    ended = trained(tmp_path, player, "--num-envs", "2", *flags)
    assert ended.code == 0, ended.text
    assert ended.summary["restarts"] == {"0": 0, "1": 1}
    assert words in ended.text
    assert "environment 1 (incarnation 0)" in ended.text
    summary, counted = ended.summary, players_count(journal)
    declared = summary["agent_steps"] + sum(summary["lost_steps"].values())
    assert declared <= counted.agent_steps <= declared + summary["unreported_steps_max"]


@pytest.mark.parametrize("fault", ["crash:9@step=20", "hang@step=20"])
def test_the_same_in_memory(fault: str, tmp_path: Path) -> None:
    player = f"constant?link=memory&fault={fault}%2Benv=1%2Bincarnation=0"
    ended = trained(tmp_path, player, "--num-envs", "2", "--step-timeout", "1")
    assert ended.code == 0, ended.text
    assert ended.summary["restarts"] == {"0": 0, "1": 1}


def test_once_is_once_among_all_players_of_a_run(tmp_path: Path) -> None:
    player = f"constant?link=memory&fault=crash@step=20%2Bonce&fault_once={tmp_path / 'marks'}"
    ended = trained(tmp_path, player, "--num-envs", "3")
    assert ended.code == 0, ended.text
    assert sorted(ended.summary["restarts"].values()) == [0, 0, 1]


def test_a_player_that_always_crashes_spends_the_budget_and_the_run_tells_all_causes(tmp_path: Path) -> None:
    ended = trained(tmp_path, "constant?link=memory&fault=crash:9@step=5", "--restarts-rate-limit-n", "2")
    assert ended.code == 3
    assert ended.summary["exit_reason"] == "environment_failure"
    assert ended.summary["restarts"] == {"0": 2}
    assert "a crash that was asked for: 9" in ended.text


REFUSED = [
    ("nan:agent=2@step=20", "brain 'Constant', agent 2: observation 0 .* index 0 is nan"),
    ("inf:field=reward:agent=1@step=20", "brain 'Constant', agent 1: reward is inf"),
    ("reshape@step=20", "brain 'Constant', agent 0: observation 0 .* has shape .*, expected"),
    ("duplicate:agent=3@step=20", "agent 3 asks for two decisions"),
    ("stranger:Nobody@step=20", "agents of brain 'Nobody', which was never announced"),
    ("respec@step=20", "'Constant'"),
    ("garbage@step=20", "bytes that are no"),
    ("truncate@step=20", "bytes that are no"),
]


@pytest.mark.parametrize(("fault", "words"), REFUSED)
def test_content_ends_the_run_at_once_and_names_the_place(fault: str, words: str, tmp_path: Path) -> None:
    ended = trained(tmp_path, f"constant?link=memory&fault={fault}")
    assert ended.code == 3, ended.text
    assert ended.summary["exit_reason"] == "environment_failure"
    assert ended.summary["restarts"] == {"0": 0}
    errors = "\n".join(line for line in ended.text.splitlines() if line.startswith("[ERROR]"))
    assert "environment 0 (incarnation 0), env step 20" in errors
    assert re.search(words, errors), errors


@pytest.mark.parametrize("version", ["9.9.9", ""])
def test_another_version_ends_the_run_without_a_restart(version: str, tmp_path: Path) -> None:
    ended = trained(tmp_path, f"constant?link=memory&fault=version:{version}@handshake")
    assert ended.code == 3
    assert ended.summary["restarts"] == {"0": 0}
    assert repr(version) in ended.text


@pytest.mark.parametrize("fault", ["agents:3000@step=20-21", "empty@step=20-60", "vanish:agent=1@step=20"])
def test_agents_that_come_and_go_as_no_world_lets_them_do_no_harm(fault: str, tmp_path: Path) -> None:
    ended = trained(tmp_path, f"constant?link=memory&fault={fault}", max_steps=800)
    assert ended.code == 0, ended.text
    assert ended.summary["agent_steps"] >= 800


@pytest.mark.parametrize("seed", ["1", "2", "8258"])
def test_a_number_that_is_finite_and_far_too_large_ends_the_run_where_it_first_hurts(seed: str, tmp_path: Path) -> None:
    # Whether the policy makes infinity of it, or only the loss, is a matter of the first weights.
    ended = trained(tmp_path, "constant?link=memory&fault=huge:agent=1@step=20", seed=seed)
    assert ended.code in (3, 4), ended.text
    assert re.search(r"not finite", ended.text), ended.text
    assert ended.summary["policy_version"] == {"Constant": 0}


@pytest.mark.parametrize(
    ("player", "behavior", "branch"),
    [("basic", "Basic", 0), ("masked", "Masked", 0), ("masked", "Masked", 1)],
)
@pytest.mark.parametrize("link", ["memory", "grpc"])
def test_c36_a_player_that_allows_nothing_in_a_branch_ends_the_run_with_environment_agent_and_branch(
    tmp_path: Path, player: str, behavior: str, branch: int, *, link: str
) -> None:
    fault = f"mask:agent=0:branch={branch}@step=20"
    ended = trained(tmp_path, f"{player}?link={link}&fault={fault}", behavior=behavior)
    assert ended.code == 3, ended.text
    assert ended.summary["restarts"] == {"0": 0}
    place = f"environment 0 (incarnation 0), env step 20: brain '{behavior}', agent 0"
    assert f"{place}: all actions of branch {branch} are masked; expected at least one allowed." in ended.text
    assert "nan" not in ended.text.lower()
