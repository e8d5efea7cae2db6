"""What the flags about players do in whole runs, and which brains are played: message length, port words, addresses."""

import socket
import sys
from pathlib import Path

import pytest

from tests.support.player_links import scripted_factory
from tests.support.ports import free_port
from tests.support.runs import config, journal_totals, train

MEMORY = "fake:basic?link=memory"


def test_on_request_numbers_that_are_not_finite_become_zero_and_the_run_counts_them(tmp_path: Path) -> None:
    player = f"{MEMORY}&fault=nan:agent=0:index=2@step=5-14;inf:field=reward@step=20"
    words = (str(config(tmp_path)), "--env", player, "--seed", "3", "--not-finite", "zero")
    first = train(tmp_path, "r", *words, "--stop-at", "300")
    assert first.code == 0, first.text
    assert first.summary["replaced_numbers"] == 11
    (note,) = [line for line in first.lines if "what follows in this environment is only counted" in line]
    where = "environment 0 (incarnation 0), env step 5: brain 'Basic', agent 0: observation 0"
    assert note.startswith(f"[WARNING] {where}")
    assert "[WARNING] 11 numbers of players were not finite and became 0 (--not-finite zero)." in first.lines
    again = train(tmp_path, "r", *words, "--resume", "--stop-at", "600")
    assert again.summary["replaced_numbers"] == 22  # its player is a new one and does so again


def test_without_the_request_the_first_one_ends_the_run_and_nothing_is_counted(tmp_path: Path) -> None:
    player = f"{MEMORY}&fault=nan:agent=0:index=2@step=5"
    run = train(tmp_path, "r", str(config(tmp_path)), "--env", player)
    assert run.code == 3, run.text
    assert run.summary["replaced_numbers"] == 0


def test_a_message_that_is_too_long_names_the_flag_that_allows_it(tmp_path: Path) -> None:
    words = (str(config(tmp_path, max_steps=300)), "--seed", "3")
    player = ("--env", "fake:basic?fault=pad:mib=2@step=20")
    short = train(tmp_path, "short", *words, *player, "--message-bytes-max", str(1 << 20))
    assert short.code == 3, short.text
    assert "the limit is 1048576 (--message-bytes-max)" in short.text
    assert short.summary["restarts"] == {"0": 0}  # the next player would say the same
    assert train(tmp_path, "long", *words, *player, "--message-bytes-max", str(3 << 20)).code == 0


@pytest.mark.parametrize(
    ("argument", "words"),
    [("both", ["--mlagents-port", "--port"]), ("mlagents-port", ["--mlagents-port"]), ("port", ["--port"])],
)
def test_the_player_is_told_its_port_in_the_words_that_were_asked_for(
    tmp_path: Path, argument: str, words: list[str]
) -> None:
    build, told, port = tmp_path / "build.x86_64", tmp_path / "told", free_port()
    build.write_text(f"#!{sys.executable}\nimport sys\nopen({str(told)!r}, 'w').write(' '.join(sys.argv[1:]))\n")
    build.chmod(0o755)
    flags = ("--base-port", str(port), "--port-argument", argument, "--max-lifetime-restarts", "0")
    run = train(tmp_path, "r", str(config(tmp_path)), "--env", str(build), *flags)
    assert run.code == 3, run.text
    line = told.read_text().split()
    assert line[: 2 * len(words)] == [each for word in words for each in (word, str(port))]
    assert line[2 * len(words)] == "-logFile"


def test_players_are_served_on_the_address_that_was_asked_for(tmp_path: Path) -> None:
    address, port = "127.0.0.2", free_port()
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        pytest.skip(f"this system has no address {address}")
    scripted_factory(tmp_path)
    player = (tmp_path / "scripted.x86_64", "--host", address)
    words = ("--env", str(player[0]), "--base-port", str(port), "--bind", address, "--stop-at", "50", "--env-args")
    run = train(tmp_path, "r", str(config(tmp_path, "Bot")), *words, *map(str, player[1:]))
    assert run.code == 0, run.text
    assert "players are served on 127.0.0.2, not only on this computer" in run.text


@pytest.mark.parametrize("protocol", ["1.5.0", "API-9"])
def test_a_brain_that_the_player_controls_gets_no_actions_and_the_other_is_trained(
    tmp_path: Path, protocol: str
) -> None:
    journal = tmp_path / "journal"
    player = f"fake:teacher?agents=3&link=memory&protocol={protocol}&journal={journal}"
    run = train(tmp_path, "r", "--env", player, "--seed", "3", "--stop-at", "1200")
    assert run.code == 0, run.text
    assert "[INFO] brain 'Teacher' is controlled by the player (is_training is false): it is not trained" in run.lines
    assert run.summary["policy_version"] == {"Student": 1}
    counted = journal_totals(journal)
    assert counted["decisions"] == counted["env_steps"] * 3  # an action for each student, none for a teacher
