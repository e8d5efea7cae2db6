"""The player process over real gRPC: the bytes of the memory link, prompt ends, clear failures."""

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakeunity.install import install
from fakeunity.memory import open_player
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import parse_url
from tests.support.driving import Driver, fixed_choice, random_choice
from tests.support.gen1_driving import Gen1Driver, acts
from tests.support.tiny_trainer import WAIT_S, PlayerProcess, TinyTrainer

PROMPT_S = 5.0


@pytest.fixture
def trainer() -> Iterator[TinyTrainer]:
    """A trainer's server on a free port."""
    server = TinyTrainer()
    yield server
    server.stop()


def driven(driver: Driver, steps: int) -> list[bytes]:
    driver.start()
    driver.steps(steps)
    return driver.calls


@pytest.mark.parametrize(("scene", "delay"), [*((scene, "") for scene in SCENES), ("crowd", "&delay_ms=0-3")])
def test_the_bytes_are_those_of_the_memory_link(scene: str, delay: str, trainer: TinyTrainer) -> None:
    url = f"fake:{scene}?agents=3&seed=4"
    in_memory = driven(Driver(open_player(parse_url(url)), fixed_choice(1), seed=9), 60)
    with PlayerProcess(parse_url(url + delay).command_line(port=trainer.port), command=()) as player:
        assert driven(Driver(trainer, fixed_choice(1), seed=9), 60) == in_memory
        trainer.answer(bytes.fromhex("0a03089003"))
        code, _out, err = player.wait()
    assert code == 0, err


@pytest.mark.parametrize(("scene", "protocol"), [("crowd", "API-8"), ("gridworld", "API-9"), ("teacher", "API-10")])
def test_the_bytes_of_the_old_generation_are_those_of_the_memory_link(
    scene: str, protocol: str, trainer: TinyTrainer
) -> None:
    spec = parse_url(f"fake:{scene}?agents=3&protocol={protocol}")
    in_memory = Gen1Driver(open_player(spec), acts, seed=9)
    over_grpc = Gen1Driver(trainer, acts, seed=9)
    with PlayerProcess(spec.command_line(port=trainer.port), command=()) as player:
        for driver in (in_memory, over_grpc):
            driver.start()
            driver.steps(60)
        assert over_grpc.calls == in_memory.calls
        trainer.answer(bytes.fromhex("0a03089003"))
        code, _out, err = player.wait()
    assert code == 0, err


def test_a_player_of_the_old_generation_minds_its_own_port_and_lets_the_other_pass(trainer: TinyTrainer) -> None:
    arguments = ["basic", "--protocol", "API-8", "--mlagents-port", "1", "--port", str(trainer.port)]
    with PlayerProcess(arguments):
        assert b"API-8" in trainer.exchange(None)


def test_a_player_of_the_new_generation_minds_its_own_port_and_lets_the_other_pass(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--port", "1", "--mlagents-port", str(trainer.port)]):
        assert b"1.5.0" in trainer.exchange(None)


def test_status_400_ends_the_player_with_0(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]) as player:
        trainer.exchange(None)
        trainer.answer(bytes.fromhex("0a03089003"))
        code, _out, err = player.wait()
    assert code == 0
    assert "the trainer asked to stop" in err


def test_a_trainer_that_is_gone_ends_the_player_with_0_at_once(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]) as player:
        Driver(trainer, random_choice(0)).start()
        before = time.monotonic()
        trainer.stop()
        code, _out, err = player.wait()
    assert time.monotonic() - before < PROMPT_S
    assert code == 0
    assert "the trainer is gone" in err


def test_a_player_whose_output_nobody_reads_still_ends_with_0(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]) as player:
        for pipe in (player.process.stdout, player.process.stderr):
            assert pipe is not None
            pipe.close()  # before the player has said its first word
        trainer.exchange(None)
        trainer.answer(bytes.fromhex("0a03089003"))
        assert player.process.wait(timeout=WAIT_S) == 0
        player.process.stdout = player.process.stderr = None  # what is closed cannot be read to its end


def test_nobody_at_the_port_ends_the_player_with_1_and_a_sentence(free_port: int) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(free_port), "--connect-timeout-s", "1"]) as player:
        code, _out, err = player.wait()
    assert code == 1
    assert f"nobody serves port {free_port} on localhost after 1 s" in err
    assert "Traceback" not in err


def test_a_player_that_comes_before_its_trainer_waits_for_it() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: a connection is refused until the server is there
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = held.getsockname()[1]
        with PlayerProcess(["basic", "--mlagents-port", str(port), "--connect-timeout-s", "20"]) as player:
            assert player.process.stderr is not None
            assert "scene basic" in player.process.stderr.readline()
            held.close()
            server = TinyTrainer(port)
            assert server.exchange(None)
            server.answer(bytes.fromhex("0a03089003"))
            assert player.wait()[0] == 0
            server.stop()


def test_a_mistake_of_the_trainer_is_told_to_it_and_ends_the_player_with_1(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]) as player:
        Driver(trainer, random_choice(0)).start()
        assert trainer.exchange(b"\xff") == bytes.fromhex("0a0308a603")  # status 422: not to be started again
        trainer.answer(b"")
        code, _out, err = player.wait()
    assert code == 1
    assert "no UnityMessageProto" in err
    assert "Traceback" not in err


def test_an_interrupted_player_ends_with_130_and_no_traceback(trainer: TinyTrainer) -> None:
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]) as player:
        trainer.exchange(None)
        player.process.send_signal(signal.SIGINT)
        code, _out, err = player.wait()
    assert code == 130
    assert "Traceback" not in err


def test_a_proxy_in_the_environment_is_not_asked(trainer: TinyTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port)]):
        assert trainer.exchange(None)


def test_the_log_file_holds_the_players_lines(trainer: TinyTrainer, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "Player-0.log"
    arguments = ["basic", "-nographics", "--mlagents-port", str(trainer.port), "-logFile", str(log), "-any", "thing"]
    with PlayerProcess(arguments) as player:
        trainer.exchange(None)
        trainer.answer(bytes.fromhex("0a03089003"))
        assert player.wait() == (0, "", "")
    assert f"connected to port {trainer.port}" in log.read_text()


@pytest.mark.parametrize("env_id", [None, 3])
def test_the_journal_of_a_process_equals_the_trainers_count(
    env_id: int | None, trainer: TinyTrainer, tmp_path: Path
) -> None:
    spec = parse_url(f"fake:crowd?agents=6&journal={tmp_path}")
    with PlayerProcess(spec.command_line(port=trainer.port, env_id=env_id), command=()) as player:
        driver = Driver(trainer, random_choice(0))
        driven(driver, 80)
        expected = max(0, trainer.port - 5005) if env_id is None else env_id
        file = tmp_path / f"{expected}-{player.process.pid}.jsonl"
        last = json.loads(file.read_text().splitlines()[-1])
    assert last["pid"] == player.process.pid
    assert last["exchange"] == len(driver.calls) - 1
    for name in ("env_steps", "decisions", "agent_steps", "episodes"):
        assert last[name] == getattr(driver.count, name), name


def test_the_environment_variable_names_the_journal(
    trainer: TinyTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEUNITY_ENV_ID", "12")
    with PlayerProcess(["basic", "--mlagents-port", str(trainer.port), "--journal", str(tmp_path)]):
        Driver(trainer, random_choice(0)).start()
    assert [file.name.partition("-")[0] for file in tmp_path.iterdir()] == ["12"]


def test_an_installed_player_works_from_any_folder_and_under_any_name(
    fake_unity_player: Callable[..., Path], trainer: TinyTrainer, tmp_path: Path
) -> None:
    folder = tmp_path / 'a folder\'s "name" $HOME `x`'
    folder.mkdir()
    # A folder with a module that shadows the library's must not matter.
    (folder / "random.py").write_text("raise RuntimeError('the wrong random')")
    (folder / "fakeunity").mkdir()
    (folder / "fakeunity" / "__init__.py").write_text("raise RuntimeError('the wrong fakeunity')")
    file = folder / "basic game.x86_64"
    shutil.copy(fake_unity_player("basic", agents=3), file)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    assert "PYTHONPATH" not in environment
    with PlayerProcess(["-batchmode", "--mlagents-port", str(trainer.port)], command=[str(file)], cwd=folder) as player:
        driver = Driver(trainer, random_choice(0))
        driven(driver, 3)
        assert len(driver.waiting["Basic"]) == 3
        trainer.answer(bytes.fromhex("0a03089003"))
        code, _out, err = player.wait()
    assert code == 0, err


def test_an_interpreter_in_an_awkward_place_is_found(trainer: TinyTrainer, tmp_path: Path) -> None:
    place = tmp_path / ("a long folder with blanks and 'quotes' " * 4)
    place.mkdir()
    interpreter = place / "python"
    # A link would lose its virtual environment; a script that hands over keeps it.
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    file = tmp_path / "game"
    install(parse_url("fake:basic"), file, interpreter=str(interpreter))
    with PlayerProcess(["--mlagents-port", str(trainer.port)], command=[str(file)]):
        assert trainer.exchange(None)
