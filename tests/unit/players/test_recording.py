"""`--record`: where the files go, what is refused before a run, and a disk that is full in the middle of one."""

import logging
from pathlib import Path

import cloudpickle
import pytest

from fakeunity.cassettes.tape import open_cassette
from runtime.errors import UsageError
from runtime.players.recording import RecordTo
from tests.support.full_disk import file_size_limit
from tests.support.player_links import assignment
from tests.support.player_messages import Moment, introduction_message, output_message, simple_agent, simple_brain
from tests.support.settings import BASE, parse, parse_text

BRAIN = simple_brain()
ROWS = output_message([Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN]).SerializeToString()


def record_to(folder: Path, *, environments: int = 1, first: int = 0) -> RecordTo:
    return RecordTo(
        file=str(folder / "run.cassette"), environments=environments, first_incarnation=first, target="Game"
    )


def test_a_resumed_runs_first_players_have_the_first_files(tmp_path: Path) -> None:
    tap = record_to(tmp_path, environments=3, first=4)(assignment(2, incarnation=4))
    tap.close()
    record_to(tmp_path, environments=3, first=4)(assignment(2, incarnation=6)).close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run-2.2.cassette", "run-2.cassette"]
    header = open_cassette(tmp_path / "run-2.2.cassette").header
    assert (header["env_id"], header["incarnation"], header["target"]) == (2, 6, "Game")


def test_what_is_there_already_is_refused_for_every_environment(tmp_path: Path) -> None:
    record_to(tmp_path, environments=3).require_room()
    (tmp_path / "run-2.cassette").touch()
    with pytest.raises(UsageError, match=r"run-2.cassette' is there already; a recording is never written over"):
        record_to(tmp_path, environments=3).require_room()
    with pytest.raises(UsageError, match=r"there is no folder .*/absent'; make it"):
        record_to(tmp_path / "absent").require_room()


def test_it_travels_to_env_workers(tmp_path: Path) -> None:
    recipe = record_to(tmp_path)
    assert cloudpickle.loads(cloudpickle.dumps(recipe)) == recipe


def test_a_full_disk_ends_the_recording_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tap = record_to(tmp_path)(assignment())
    with caplog.at_level(logging.WARNING), file_size_limit(600):
        tap.on_bytes("player", introduction_message().SerializeToString())
        tap.on_bytes("player", ROWS)
        for number in range(1000):
            tap.on_bytes("trainer", b"%d" % number * 50)
        tap.close()
    assert [record.message for record in caplog.records] == ["the recording ends"]
    assert "File too large" in caplog.records[0].__dict__["cause"]
    cassette = open_cassette(tmp_path / "run.cassette")
    assert not cassette.is_whole
    assert [each.body for each in cassette.messages()][1:2] == [ROWS]


def test_the_flag_and_the_key_name_a_file(tmp_path: Path) -> None:
    assert parse("--record", "x.cassette").record == "x.cassette"
    assert parse_text(tmp_path, BASE + "runtime: {record: y.cassette}\n").record == "y.cassette"
    assert parse().record is None
    assert parse_text(tmp_path, BASE + "runtime: {record: y}\n", ("--record", "z", "--env", "fake:basic")).record == "z"
