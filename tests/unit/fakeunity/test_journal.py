"""The journal: one line per exchange whose counters equal those that the trainer's side counts for itself."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeunity.errors import TrainerMistakeError
from fakeunity.scenes.catalogue import SCENES
from tests.support.driving import Driver, closing, random_choice
from tests.unit.fakeunity.opening import opened

Line = dict[str, Any]  # a line of JSON: text and numbers by key


def lines(folder: Path, env_id: int = 0) -> list[Line]:
    return [json.loads(line) for line in (folder / f"{env_id}-{os.getpid()}.jsonl").read_text().splitlines()]


def counters(line: Line) -> tuple[int, int, int, int]:
    return line["env_steps"], line["decisions"], line["agent_steps"], line["episodes"]


def counted(driver: Driver) -> tuple[int, int, int, int]:
    count = driver.count
    return count.env_steps, count.decisions, count.agent_steps, count.episodes


@settings(max_examples=15)
@given(
    scene=st.sampled_from(sorted(SCENES)),
    agents=st.integers(1, 9),
    seed=st.integers(0, 2**31 - 1),
    moves=st.lists(st.sampled_from(["step"] * 9 + ["reset"]), max_size=60),
)
def test_every_line_equals_an_independent_count(
    tmp_path_factory: pytest.TempPathFactory, scene: str, agents: int, seed: int, moves: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    driver = Driver(opened(f"{scene}?agents={agents}&journal={folder}"), random_choice(seed), seed)
    driver.start()
    expected = [(0, 0, 0, 0), (0, 0, 0, 0)]
    for move in moves:
        driver.step() if move == "step" else driver.reset()
        expected.append(counted(driver))
    assert driver.close() is None
    written = lines(folder)
    assert [counters(line) for line in written] == [*expected, expected[-1]]
    assert [line["exchange"] for line in written] == list(range(1, len(written) + 1))
    commands = ["HANDSHAKE", "RESET", *(move.upper() for move in moves), "CLOSE"]
    assert [line["command"] for line in written] == commands


def test_the_first_line_records_scene_and_seeds(tmp_path: Path) -> None:
    driver = Driver(opened(f"hybrid?agents=3&seed=7&journal={tmp_path}", env_id=4), random_choice(0), seed=2**31 - 1)
    driver.start()
    driver.close()
    first = lines(tmp_path, env_id=4)[0]
    assert first["pid"] == os.getpid()
    assert (first["scene"], first["seed"], first["url_seed"], first["agents"]) == ("hybrid", 2**31 - 1, 7, 3)


def test_a_line_is_on_disk_before_its_call_is_given_out(tmp_path: Path) -> None:
    driver = Driver(opened(f"basic?journal={tmp_path}"), random_choice(0))
    driver.start()
    for step in range(1, 5):
        driver.step()
        assert lines(tmp_path)[-1]["env_steps"] == step
    driver.close()


def test_a_decision_cut_off_by_a_reset_never_becomes_an_agent_step(tmp_path: Path) -> None:
    driver = Driver(opened(f"crowd?agents=30&journal={tmp_path}"), random_choice(0))
    driver.start()
    driver.step()
    driver.reset()
    last = lines(tmp_path)[-1]
    assert last["decisions"] == 30
    assert last["agent_steps"] < 30
    driver.step()
    assert lines(tmp_path)[-1]["agent_steps"] == driver.count.agent_steps
    driver.close()


def test_a_refused_reply_ends_the_journal_with_a_line_that_says_so(tmp_path: Path) -> None:
    player = opened(f"basic?journal={tmp_path}")
    player.exchange(None)
    with pytest.raises(TrainerMistakeError):
        player.exchange(b"\xff")
    assert [line["command"] for line in lines(tmp_path)] == ["ERROR"]


def test_players_of_one_process_and_environment_append_to_one_file(tmp_path: Path) -> None:
    for _ in range(2):
        driver = Driver(opened(f"basic?journal={tmp_path}"), random_choice(0))
        driver.start()
        assert driver.player.exchange(closing()) is None
    assert [line["exchange"] for line in lines(tmp_path)] == [1, 2, 3, 1, 2, 3]
