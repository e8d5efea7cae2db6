"""Env steps, agent steps, decisions and episodes: our counts are the players' own where nobody is disturbed."""

from pathlib import Path

import pytest

from fakeunity.scenes.catalogue import open_world
from tests.support.runs import FinishedRun, config, journal_totals, journals, train

SCENES = ("basic", "balance", "constant", "hybrid", "masked", "crowd")


def behaviors(scene: str) -> list[str]:
    return [spec.name for spec in open_world(scene, agents=1, handshake_seed=0, url_seed=0).specs]


def assert_counts_agree(run: FinishedRun, journal: Path) -> None:
    assert run.code == 0, run.text
    summary = run.summary
    ours = {key: summary[key] for key in ("env_steps", "agent_steps", "decisions")}
    assert {**ours, "episodes": sum(summary["episodes"].values())} == journal_totals(journal)
    assert (summary["lost_steps"], summary["unreported_steps_max"]) == ({}, 0)


@pytest.mark.parametrize("scene", SCENES)
def test_counts_are_the_players_own_whenever_blocks_arrive(tmp_path: Path, scene: str) -> None:
    text = str(config(tmp_path, *behaviors(scene), max_steps=500, hidden_units=8))
    for collection in ("sync", "async"):
        journal = tmp_path / collection
        url = f"fake:{scene}?agents=3&link=memory&journal={journal}"
        command = (text, "--env", url, "--seed", "3", "--num-envs", "2", "--collection", collection)
        run = train(tmp_path, f"run-{collection}", *command)
        assert_counts_agree(run, journal)
        assert run.summary["exit_reason"] == "max_steps"


@pytest.mark.parametrize("collection", ["sync", "async"])
def test_c32_three_counters_are_the_players_own_while_one_of_them_is_slow(tmp_path: Path, collection: str) -> None:
    journal = tmp_path / "journal"
    # Agents of `crowd` come and go, so that no counter follows from another.
    text = str(config(tmp_path, *behaviors("crowd"), max_steps=300, hidden_units=8))
    url = f"fake:crowd?agents=2&link=memory&journal={journal}&fault=delay:ms=10@step%2Benv=2"
    run = train(tmp_path, "slow", text, "--env", url, "--num-envs", "3", "--collection", collection)
    assert_counts_agree(run, journal)
    summary = run.summary
    per_player = [player[-1]["env_steps"] for player in journals(journal)]
    assert sum(per_player) == summary["env_steps"]
    if collection == "sync":
        assert len(set(per_player)) == 1
    else:
        assert min(per_player) < max(per_player), "nobody waits for the slow one"


def test_a_round_ends_where_the_run_stops(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    text = str(config(tmp_path, max_steps=5000))
    url = f"fake:basic?agents=3&link=memory&journal={journal}"
    run = train(tmp_path, "stop", text, "--env", url, "--num-envs", "2", "--stop-at", "400")
    assert_counts_agree(run, journal)
    # Six agents act at each env step of both players.
    assert run.summary["agent_steps"] == 402


def test_counts_go_on_over_planned_restarts_and_a_later_run(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    text = str(config(tmp_path, *behaviors("crowd"), max_steps=800))
    command = (text, "--env", f"fake:crowd?agents=3&link=memory&journal={journal}", "--num-envs", "2")
    first = train(tmp_path, "r", *command, "--stop-at", "600", "--restart-envs-at", "200")
    assert_counts_agree(first, journal)
    stopped_at = first.summary["agent_steps"]
    second = train(tmp_path, "r", *command, "--resume")
    assert_counts_agree(second, journal)
    assert second.summary["agent_steps"] > stopped_at >= 600


def test_nobody_runs_on_while_the_last_update_of_an_asynchronous_run_is_made(tmp_path: Path) -> None:
    # The update that is due at 400 steps compiles first, which takes seconds; the run is over 100 steps later.
    journal = tmp_path / "journal"
    text = str(config(tmp_path, max_steps=500, buffer_size=400, hidden_units=11))
    url = f"fake:basic?link=memory&journal={journal}"
    run = train(tmp_path, "async", text, "--env", url, "--num-envs", "2", "--collection", "async")
    assert_counts_agree(run, journal)
    assert 500 <= run.summary["agent_steps"] < 700


def test_asynchronous_collection_waits_where_two_buffers_are_full(tmp_path: Path) -> None:
    text = str(config(tmp_path, max_steps=100_000, hidden_units=12))
    url = "fake:basic?link=memory"
    run = train(tmp_path, "async", text, "--env", url, "--collection", "async", "--stop-at", "500")
    assert run.code == 0, run.text
    assert run.summary["agent_steps"] < 700
    assert run.summary["policy_version"]["Basic"] >= 2
