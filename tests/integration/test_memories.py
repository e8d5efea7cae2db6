"""Runs with a recurrent policy: the same bits in any topology, and on through lost players and old protocols."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from runtime.acting.memories import AgentMemories
from runtime.acting.replica import PolicyReplica
from runtime.learner import MemorySettings
from runtime.players.factories import player_factory
from runtime.players.links import LinkLimits
from tests.support.experience_streams import small_learner, small_settings
from tests.support.graphs import onnx_update
from tests.support.player_links import assignment
from tests.support.ports import free_port
from tests.support.runs import FinishedRun, config, train, train_in_processes

EIGHT = ("--num-envs", "8", "--seed", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def hallway(folder: Path) -> str:
    memory = {"memory_size": 8, "sequence_length": 8}
    return str(config(folder, "Hallway", memory=memory, max_steps=700))


@pytest.fixture(scope="module")
def inline(folder: Path, hallway: str) -> FinishedRun:
    return train(folder, "inline", hallway, "--env", "fake:hallway?link=memory", *EIGHT, "--workers", "1")


def lasting(run: FinishedRun) -> tuple[dict[str, object], dict[str, bytes]]:
    assert run.code == 0, run.text
    assert run.summary["policy_version"]["Hallway"] >= 3
    return run.lasting("run_id", "workers"), run.files("*.onnx")


def test_eight_workers_with_slow_players_give_what_one_gives(folder: Path, hallway: str, inline: FinishedRun) -> None:
    command = (hallway, "--env", "fake:hallway?link=memory&delay_ms=0-3", *EIGHT, "--workers", "8")
    run = train(folder, "eight", *command)
    assert lasting(run) == lasting(inline)
    assert len(run.summary["workers"]) == 8


@pytest.mark.slow
def test_eight_processes_over_grpc_give_what_one_process_gives(folder: Path, hallway: str, inline: FinishedRun) -> None:
    command = (hallway, "--env", "fake:hallway?delay_ms=0-5", *EIGHT, "--workers", "8")
    run = train_in_processes(folder, "processes", *command, variables={"PYTHONHASHSEED": "5"})
    assert lasting(run) == lasting(inline)


def test_another_seed_differs(folder: Path, hallway: str, inline: FinishedRun) -> None:
    run = train(folder, "seed-4", hallway, "--env", "fake:hallway?link=memory", "--num-envs", "8", "--seed", "4")
    assert lasting(run)[0]["policy_sha256"] != inline.summary["policy_sha256"]


@pytest.mark.parametrize("collection", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_a_player_that_is_lost_costs_nobody_else_what_they_remember(
    folder: Path, hallway: str, collection: str
) -> None:
    fault = "fault=crash:9@step=40%2Benv=1%2Bincarnation=0"
    command = ("--env", f"fake:hallway?agents=2&{fault}", "--num-envs", "2", "--seed", "1", "--collection", collection)
    ports = ("--base-port", str(free_port(2)))
    run = train(folder, f"lost-{collection}", hallway, *command, *ports)
    assert run.code == 0, run.text
    assert run.summary["exit_reason"] == "max_steps"
    assert run.summary["restarts"] == {"0": 0, "1": 1}


@pytest.mark.slow
def test_players_of_old_protocols_train_the_same_policy(folder: Path, hallway: str) -> None:
    runs = [
        train(
            folder, f"api-{version}", hallway, "--env", f"fake:hallway?agents=2&protocol=API-{version}", "--seed", "2"
        )
        for version in (8, 10)
    ]
    assert [run.code for run in runs] == [0, 0], runs[0].text
    assert runs[0].files("*.onnx") == runs[1].files("*.onnx")


def test_a_run_that_is_resumed_goes_on_as_one_whose_players_were_restarted_there(folder: Path, hallway: str) -> None:
    env = ("--env", "fake:hallway?link=memory&agents=2", "--seed", "6")
    whole = train(folder, "whole", hallway, *env, "--restart-envs-at", "300")
    assert train(folder, "parts", hallway, *env, "--stop-at", "300").code == 0
    rest = train(folder, "parts", hallway, *env, "--resume")
    assert whole.code == rest.code == 0, rest.text
    assert whole.summary["policy_sha256"] == rest.summary["policy_sha256"]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_old_players_are_sent_what_their_agents_remember_and_send_it_back(version: int) -> None:
    async def played() -> None:
        factory = player_factory(f"fake:hallway?agents=3&protocol=API-{version}&link=memory")
        link = factory.open_link(assignment(port=0), LinkLimits(start_timeout_s=30.0, step_timeout_s=30.0))
        (brain,) = (await link.start()).brains
        learner = small_learner(small_settings(memory=MemorySettings(memory_size=6, sequence_length=4)))
        release = learner.add_brain(brain)
        assert release is not None
        replica, memories = PolicyReplica(1), AgentMemories()
        replica.install(onnx_update("Hallway", 1, release.body))
        reply = await link.reset({}, train_mode=True)
        for step in range(50):
            info = reply.infos["Hallway"]
            acted = replica.act(brain, 1, info, incarnation=0, step=step, memories=memories)
            assert acted.actions.memories is not None
            assert acted.memory_before is not None
            ended = np.isin(info.decisions.agents, info.terminals.agents)
            assert not acted.memory_before[ended].any()
            reply = await link.step({"Hallway": acted.actions})
            found = reply.infos["Hallway"]
            np.testing.assert_array_equal(found.memories, acted.actions.memories)
            np.testing.assert_array_equal(found.decisions.agents, acted.agents)
        assert np.abs(found.memories).max() > 0.0
        await link.close()

    asyncio.run(asyncio.wait_for(played(), 60.0))
