"""The player's command line: ours is checked, Unity's is let pass, mistakes exit with 2 and the nearest word."""

from pathlib import Path

import pytest

from fakeunity.arguments import split_arguments
from fakeunity.cli import main
from fakeunity.errors import SpecError
from fakeunity.scenes.catalogue import SCENES


def test_unity_arguments_pass_and_the_port_is_found_anywhere() -> None:
    arguments = split_arguments(
        [
            *("basic", "-nographics", "-batchmode", "--mlagents-port", "5011", "-logFile", "/x/y.log"),
            *("-screen-width", "640", "word", "--agents=3"),
        ]
    )
    assert arguments.words == ("basic", "word")
    assert arguments.options == (("mlagents_port", "5011"), ("agents", "3"))
    assert arguments.log_file == "/x/y.log"


def test_known_unity_flags_take_no_value() -> None:
    assert split_arguments(["-batchmode", "basic", "-NoGraphics", "x"]).words == ("basic", "x")


@pytest.mark.parametrize("spelling", [["--delay-ms", "1-2"], ["--delay_ms", "1-2"], ["--delay-ms=1-2"]])
def test_both_spellings_of_an_option_are_known(spelling: list[str]) -> None:
    assert split_arguments(spelling).options == (("delay_ms", "1-2"),)


def test_a_value_may_be_negative() -> None:
    assert split_arguments(["--seed", "-5", "basic"]).options == (("seed", "-5"),)


@pytest.mark.parametrize("argv", [["--agents"], ["--agents", "--seed", "3"]])
def test_an_option_without_its_value_is_refused(argv: list[str]) -> None:
    with pytest.raises(SpecError, match="--agents needs a value"):
        split_arguments(argv)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["basic"], "no --mlagents-port"),
        ([], "no scene given"),
        (["--mlagents-port", "5005"], "no scene given"),
        (["basik", "--mlagents-port", "5005"], "did you mean 'basic'"),
        (["basic", "--mlagents-prt", "5005"], "unknown option '--mlagents-prt'; did you mean '--mlagents-port'"),
        (["basic", "--mlagents-port", "0"], "from 1 to 65535"),
        (["basic", "--mlagents-port", "x"], "from 1 to 65535"),
        (["basic", "--mlagents-port", "1", "--mlagents-port", "1"], "given twice"),
        (["basic", "--mlagents-port", "5005", "--agents", "0"], "agents='0'"),
        (["basic", "--mlagents-port", "5005", "--agents", "1", "--agents", "1"], "given twice"),
        (["basic", "--mlagents-port", "5005", "--link", "memory"], "link=memory has no process"),
        (["basic", "--mlagents-port", "5005", "--connect-timeout-s", "0"], "--connect-timeout-s='0'"),
        (["basic", "--mlagents-port", "5005", "--env-id", "-1"], "--env-id='-1'"),
        (["install"], "install takes a scene and a file"),
        (["install", "basic"], "install takes a scene and a file"),
        (["install", "basic", "x", "y"], "install takes a scene and a file"),
        (["install", "basik", "x"], "did you mean 'basic'"),
        (["install", "basic", "x", "--mlagents-port", "5005"], "given when the file is run"),
        (["install", "basic", "x", "--link", "memory"], "link=memory has no process"),
        (
            ["install", "basic", "x", "--protocol", "API-7"],
            "unknown protocol 'API-7'; did you mean 'API-8'? Known: API-8,",
        ),
        (["install", "hybrid", "x", "--protocol", "API-8"], "its protocols are 1.3.0, 1.4.0, 1.5.0"),
        (["basic", "--protocol", "API-9", "--mlagents-port", "5005"], "give --port N, as players of its time take it"),
        (["basic", "--protocol", "API-9", "--port", "0"], "--port='0'"),
        (["basic", "--port", "5005"], "no --mlagents-port"),
    ],
)
def test_mistakes_exit_with_2_and_a_sentence(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""
    assert printed.err.count("\n") == 1


def test_list_names_each_scene_with_its_best_reward(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENES)
    assert "best reward  0.93" in lines[0]
    spoken = {line.split()[0]: line for line in lines}
    assert "API-8 to 1.5.0" in spoken["basic"]
    assert "1.3.0 to 1.5.0" in spoken["hybrid"]
    assert " 1.5.0 " in spoken["buffer"]


@pytest.mark.parametrize(("flag", "words"), [("--help", "--mlagents-port N"), ("--version", "communicator 1.5.0")])
def test_help_and_version_exit_with_0(flag: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert words in capsys.readouterr().out


def test_install_writes_exactly_one_executable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my game.x86_64"
    assert main(["install", "crowd", str(file), "--agents", "3"]) == 0
    assert list(tmp_path.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o755
    assert "scene crowd, 3 agents" in capsys.readouterr().out
    assert "agents=3" in file.read_text()


def test_install_writes_a_player_of_an_old_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.x86_64"
    assert main(["install", "basic", str(file), "--protocol", "API-8"]) == 0
    assert "scene basic, 1 agents, API-8" in capsys.readouterr().out
    assert "protocol=API-8" in file.read_text()


def test_install_writes_over_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "game"
    file.write_text("old")
    assert main(["install", "basic", str(file)]) == 0
    assert file.read_text().startswith("#!/bin/sh\n")


def test_install_into_no_folder_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "basic", str(tmp_path / "absent" / "game")]) == 1
    assert "name a file in a folder that exists" in capsys.readouterr().err


def test_an_installed_player_takes_options_over_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--agents", "0", "--mlagents-port", "1"], installed="fake:basic?agents=3") == 2
    assert "agents='0'" in capsys.readouterr().err


def test_a_journal_that_cannot_be_opened_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["basic", "--mlagents-port", "1", "--journal", str(tmp_path / "file"), "-logFile", "-"]) == 1
    assert "file" in capsys.readouterr().err
