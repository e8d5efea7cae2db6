"""A behavior whose name is an attack: its files stay in the run's folder, and nothing it says moves a cursor."""

import json
from pathlib import Path

import pytest

from tests.support.player_links import scripted_factory
from tests.support.player_messages import Agent, Moment, output_message, simple_brain
from tests.support.ports import free_port
from tests.support.runs import config, train
from tests.support.scripted_player import BRAIN

AGENT = Agent(id=3, observations=((1.0, 0.5),), reward=1.0)


@pytest.mark.parametrize("name", ["../../outside", "\x1b[2J\x1b]0;title\x07\r[INFO] Run n ended"])
def test_no_name_leaves_the_results_folder_or_reaches_the_terminal(tmp_path: Path, name: str) -> None:
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    hostile = simple_brain(name)
    moments = [Moment(BRAIN, (AGENT,)), Moment(hostile, (AGENT,))]
    said = output_message(moments, announced=[BRAIN, hostile]).SerializeToString().hex()
    text = str(config(home, json.dumps("Bot"), json.dumps(name), max_steps=200, summary_freq=50))
    player = str(scripted_factory(home).target)
    command = (text, "--env", player, "--base-port", str(free_port()), "--env-args", "--do", f"say@1:{said}")
    run = train(home, "n", *command)
    assert (home / "n" / "Bot.onnx").exists(), run.text
    models = sorted(path.name for path in (home / "n").glob("*.onnx"))
    assert len(models) == 2, "the hostile one has its model too, under a name of ours"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b"]
    assert sorted(path.name for path in home.iterdir()) == ["n", "scripted.x86_64", "tiny.yaml"]
    assert all(line.isprintable() for line in run.text.split("\n")), run.text
    assert not [line for line in run.text.split("\n") if line == "[INFO] Run n ended"]
