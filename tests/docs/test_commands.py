"""The commands that pages show are typed, block by block in one folder each; trainings are stopped early."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from fakeunity.install import install
from fakeunity.spec import parse_url
from tests.docs.fences import Block, blocks, commands_in
from tests.docs.test_readme import QUESTIONS, run_bounded
from tests.support.ports import free_port

COMMAND_S = 180.0
STOP_AT = "300"
BUILDS = ("Game", "path/to/Build")
CONFIGURATIONS = ("config.yaml", "trainer.yaml")
CONFIGURATION = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 10000
"""
# What a page shows to end like this on purpose: a player that tells no numbers, and one whose trainer is elsewhere.
NOT_A_NUMBER, NOBODY_THERE = 3, 1


def typed(block: Block) -> list[list[str]]:
    """The commands of a block that begin with our modules, but for questions, which have a test of their own."""
    words = [shlex.split(command) for command in commands_in(block.body)]
    ours = (["python", "-m", "runtime.train"], ["python", "-m", "fakeunity"])
    return [each for each in words if each[:3] in ours and not QUESTIONS & set(each)]


BLOCKS = [block for block in blocks("console") if typed(block)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the pages name: configurations, and builds, which are bundled players here."""
    for name in CONFIGURATIONS:
        (tmp_path / name).write_text(CONFIGURATION)
    for name in BUILDS:
        file = tmp_path / f"{name}.x86_64"
        file.parent.mkdir(parents=True, exist_ok=True)
        install(parse_url("fake:basic?agents=2"), file)
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_the_commands_of_a_page_do_what_it_says(block: Block, folder: Path) -> None:
    for number, words in enumerate(typed(block)):
        if words[2] == "runtime.train":
            train(words, folder, f"results-{number}")
        elif words[3] == "install":
            install_player(words, folder)
        else:
            play(words, folder)


def train(words: list[str], folder: Path, results: str) -> None:
    early = ["--stop-at", STOP_AT, "--actor-system", "inline", "--results-dir", results]
    code, output = run_bounded([sys.executable, *words[1:], *early], folder, COMMAND_S)
    assert code == (NOT_A_NUMBER if "fault=nan" in shlex.join(words) else 0), output
    if "--record" in words:
        assert (folder / words[words.index("--record") + 1]).is_file()


def install_player(words: list[str], folder: Path) -> None:
    code, output = run_bounded([sys.executable, *words[1:]], folder, COMMAND_S)
    assert code == 0, output
    assert os.access(folder / words[5], os.X_OK)
    code, output = run_bounded([str(folder / words[5]), "--help"], folder, COMMAND_S)
    assert code == 0, output


def play(words: list[str], folder: Path) -> None:
    at = words.index("--mlagents-port") + 1
    elsewhere = [*words[1:at], str(free_port()), *words[at + 1 :], "--connect-timeout-s", "1"]
    code, output = run_bounded([sys.executable, *elsewhere], folder, COMMAND_S)
    assert code == NOBODY_THERE, output
    assert "nobody serves port" in output
