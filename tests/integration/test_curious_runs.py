"""Runs with curiosity: the same bits in any topology, on through a stop, and with players that hide their ends."""

import asyncio
from pathlib import Path

import pytest

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import EnvId, Incarnation
from runtime.players.factories import player_factory
from runtime.players.links import LinkLimits
from tests.support.events import scalars_in
from tests.support.player_links import assignment
from tests.support.runs import FinishedRun, config, train

FOUR = ("--num-envs", "4", "--seed", "3")
BASIC = "fake:basic?link=memory"
SIGNALS = "{extrinsic: {gamma: 0.95}, curiosity: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1}}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def curious(folder: Path) -> str:
    return str(config(folder, max_steps=700, summary_freq=100, reward_signals=SIGNALS))


@pytest.fixture(scope="module")
def inline(folder: Path, curious: str) -> FinishedRun:
    return train(folder, "inline", curious, "--env", BASIC, *FOUR, "--workers", "1")


def lasting(run: FinishedRun) -> tuple[dict[str, object], dict[str, bytes]]:
    assert run.code == 0, run.text
    assert run.summary["policy_version"]["Basic"] >= 3
    return run.lasting("run_id", "workers"), run.files("*.onnx")


def test_four_workers_with_slow_players_give_what_one_gives(folder: Path, curious: str, inline: FinishedRun) -> None:
    run = train(folder, "four", curious, "--env", f"{BASIC}&delay_ms=0-3", *FOUR, "--workers", "4")
    assert lasting(run) == lasting(inline)


def test_curiosity_changes_what_is_learned_and_is_told_of(folder: Path, inline: FinishedRun) -> None:
    plain = str(config(folder, max_steps=700, name="plain.yaml"))
    run = train(folder, "plain", plain, "--env", BASIC, *FOUR, "--workers", "1")
    assert run.summary["policy_sha256"] != inline.summary["policy_sha256"]
    told = {tag: value for _, values in scalars_in(inline.folder / "Basic") for tag, value in values.items()}
    assert 0.0 < told["Policy/Curiosity Reward"] < 10.0
    assert told["Losses/Curiosity Forward Loss"] > 0.0
    assert told["Losses/Curiosity Inverse Loss"] > 0.0
    assert {"Policy/Extrinsic Value Estimate", "Policy/Curiosity Value Estimate", "Policy/Extrinsic Reward"} <= {*told}


def test_a_run_in_two_parts_equals_one_whose_players_restart_there(folder: Path, curious: str) -> None:
    command = (curious, "--env", BASIC, *FOUR)
    whole = train(folder, "whole", *command, "--restart-envs-at", "300")
    assert train(folder, "parts", *command, "--stop-at", "300").code == 0
    parts = train(folder, "parts", *command, "--resume")
    assert lasting(parts)[1] == lasting(whole)[1]


def test_players_of_2019_are_curious_about_all_but_the_ends(folder: Path, curious: str) -> None:
    run = train(folder, "old", curious, "--env", f"{BASIC}&protocol=API-9", *FOUR)
    assert lasting(run)[0]["agent_steps"] == 700


@pytest.mark.parametrize(("protocol", "shows_ends"), [("API-8", False), ("API-10", False), ("1.5.0", True)])
def test_blocks_say_whether_their_player_shows_how_episodes_end(protocol: str, *, shows_ends: bool) -> None:
    async def played() -> None:
        factory = player_factory(f"{BASIC}&agents=4&protocol={protocol}")
        link = factory.open_link(assignment(port=0), LinkLimits(start_timeout_s=30.0, step_timeout_s=30.0))
        announced = (await link.start()).brains
        builder = BlockBuilder(EnvId(0), Incarnation(0))
        reply = await link.reset({}, train_mode=True)
        builder.add_brains([*announced, *reply.brains])
        builder.record_reset(reply.infos, reset_id=1)
        block = builder.take()
        assert block is not None
        assert block.brains["Basic"].shows_ends is shows_ends
        await link.close()

    asyncio.run(asyncio.wait_for(played(), 60.0))


def test_a_curious_run_begins_with_the_policy_of_a_plain_one_and_does_not_go_on_with_it(
    folder: Path, curious: str
) -> None:
    plain = str(config(folder, max_steps=300, name="first.yaml"))
    assert train(folder, "first", plain, "--env", BASIC, *FOUR).code == 0
    begun = train(folder, "begun", curious, "--env", BASIC, *FOUR, "--initialize-from", "first")
    assert begun.code == 0, begun.text
    refused = train(folder, "first", curious, "--env", BASIC, *FOUR, "--resume")
    assert refused.code == 2
    assert "reward_signals: ['extrinsic'] saved" in refused.text
