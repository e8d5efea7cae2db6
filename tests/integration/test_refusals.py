"""What ends a run that cannot go on: its exit code, its one sentence, and the models, which are saved first."""

import json
import math
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.experience.brains import ActionSpec, BrainParameters, ObservationSpec
from runtime.learner import LearnerOptions
from runtime.players.wire import communicator_pb2 as pb
from runtime.run_lock import take_lock, this_process
from runtime.session import TrainingSession
from tests.support.full_disk import file_size_limit
from tests.support.player_links import scripted_factory
from tests.support.player_messages import Agent, Moment, output_message, simple_brain
from tests.support.ports import free_port
from tests.support.runs import FinishedRun, config, train
from tests.support.scripted_player import BRAIN
from tests.support.sessions import polled
from tests.support.settings import parse

AGENT = Agent(id=3, observations=((1.0, 0.5),), reward=1.0)
BAD_EXCHANGE = 60  # the reply to the reset is number 1, so this is the reply to env step 59


def rows(agent: Agent) -> pb.UnityMessageProto:
    return output_message([Moment(BRAIN, (agent,))])


def too_long() -> pb.UnityMessageProto:
    message = rows(AGENT)
    message.unity_output.rl_output.agentInfos["Bot"].value[0].observations[0].float_data.data.append(7.0)
    return message


def other_shape() -> pb.UnityMessageProto:
    message = rows(AGENT)
    message.unity_output.rl_output.agentInfos["Bot"].value[0].observations[0].shape[:] = [1, 2]
    return message


def scripted_run(folder: Path, message: pb.UnityMessageProto, *, exchange: int = BAD_EXCHANGE) -> FinishedRun:
    """A run whose player says `message` at one exchange, after an update."""
    text = config(folder, "Bot", buffer_size=32, batch_size=16)
    player = str(scripted_factory(folder).target)
    said = f"say@{exchange}:{message.SerializeToString().hex()}"
    words = ("--env", player, "--seed", "3", "--base-port", str(free_port()), "--env-args", "--do", said)
    return train(folder, "bad", str(text), *words)


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (
            rows(replace(AGENT, observations=((1.0, math.nan),))),
            "observation 0 ('VectorSensor_size2') at index 1 is nan; expected a finite number.",
        ),
        (
            rows(replace(AGENT, observations=((-math.inf, 1.0),))),
            "observation 0 ('VectorSensor_size2') at index 0 is -inf; expected a finite number.",
        ),
        (rows(replace(AGENT, reward=math.nan)), "reward is nan; expected a finite number."),
        (rows(replace(AGENT, group_reward=math.inf)), "group_reward is inf; expected a finite number."),
        (too_long(), "observation 0 ('VectorSensor_size2') has 3 numbers, expected 2 for (2,)."),
        (other_shape(), "observation 0 ('VectorSensor_size2') has shape (1, 2), expected (2,)."),
    ],
    ids=["nan", "inf", "reward", "group reward", "too long", "other shape"],
)
def test_bad_content_is_named_with_its_place_and_the_model_is_saved(
    tmp_path: Path, message: pb.UnityMessageProto, place: str
) -> None:
    run = scripted_run(tmp_path, message)
    assert run.code == 3, run.text
    sentence = f"environment 0 (incarnation 0), env step 59: brain 'Bot', agent 3: {place}"
    assert f"[ERROR] Run bad ended: environment_failure. {sentence}" in run.lines
    summary = run.summary
    assert summary["exit_reason"] == "environment_failure"
    assert (summary["env_steps"], summary["agent_steps"]) == (58, 58)
    assert (summary["policy_version"], summary["restarts"]) == ({"Bot": 1}, {"0": 0})
    files = run.files()
    assert files["Bot.onnx"] == files["Bot/Bot-58.onnx"]
    assert "checkpoints/58/manifest.json" in files


@pytest.mark.parametrize(
    ("brain", "words"),
    [
        (
            replace(BRAIN, observation_specs=(ObservationSpec((3, 8, 8)),)),
            "is an image of 8x8 pixels; expected at least 20 on each side",
        ),
        (simple_brain("Bot", actions=ActionSpec(0)), "takes no actions"),
        (simple_brain("Robot"), "'Robot', which the configuration does not name; it names: Bot; nearest: Bot"),
    ],
    ids=["small picture", "no actions", "unknown"],
)
def test_a_brain_that_cannot_be_trained_is_refused_by_name_at_its_announcement(
    tmp_path: Path, brain: BrainParameters, words: str
) -> None:
    numbers = tuple((0.0,) * math.prod(spec.shape) for spec in brain.observation_specs)
    message = output_message([Moment(brain, (replace(AGENT, observations=numbers),))], announced=[brain])
    run = scripted_run(tmp_path, message, exchange=1)
    assert run.code == 2, run.text
    (error,) = [line for line in run.lines if line.startswith("[ERROR]")]
    assert words in error
    assert "Traceback" not in run.text
    assert run.files("**/*.onnx") == {}


def test_a_behavior_that_appears_unannounced_by_the_configuration_ends_the_run_with_the_models_saved(
    tmp_path: Path,
) -> None:
    url = "fake:crowd?link=memory&agents=3"
    text = config(tmp_path, "Crowd", max_steps=900, buffer_size=64)
    run = train(tmp_path, "r", str(text), "--env", url, "--seed", "3")
    assert run.code == 2, run.text
    assert "'CrowdLate', which the configuration does not name; it names: Crowd; nearest: Crowd" in run.text
    assert run.summary["env_steps"] == 200
    assert run.summary["policy_version"]["Crowd"] >= 1
    assert list(run.files("*.onnx")) == ["Crowd.onnx"]
    both = config(tmp_path, "Crowd", "CrowdLate", name="both.yaml", max_steps=900, buffer_size=64)
    again = train(tmp_path, "r", str(both), "--env", url, "--resume")
    assert again.code == 0, again.text
    assert list(again.files("*.onnx")) == ["Crowd.onnx", "CrowdLate.onnx"]


def test_another_network_on_resume_is_refused_and_the_checkpoint_stands(tmp_path: Path) -> None:
    command = ("--env", "fake:basic?link=memory")
    first = train(tmp_path, "r", str(config(tmp_path)), *command, "--stop-at", "300")
    before = {**first.files("*.onnx"), **first.files("checkpoints/*/*")}
    wider = config(tmp_path, name="wider.yaml", hidden_units=24)
    again = train(tmp_path, "r", str(wider), *command, "--resume")
    assert again.code == 2, again.text
    assert "hidden_units: 16 saved, 24 now" in again.text
    assert {**again.files("*.onnx"), **again.files("checkpoints/*/*")} == before


def test_a_damaged_checkpoint_is_passed_over_and_none_at_all_is_a_storage_failure(tmp_path: Path) -> None:
    text = str(config(tmp_path, keep_checkpoints=1))
    command = (text, "--env", "fake:basic?link=memory")
    first = train(tmp_path, "r", *command, "--stop-at", "300")
    newer = first.folder / "checkpoints" / "900"
    newer.mkdir()
    (newer / "manifest.json").write_text("{")
    again = train(tmp_path, "r", *command, "--resume", "--stop-at", "400")
    assert again.code == 0, again.text
    assert "a damaged checkpoint was passed over" in again.text
    assert again.summary["agent_steps"] == 400
    # The damaged one takes the place of none that can be loaded.
    assert sorted(path.name for path in (again.folder / "checkpoints").iterdir()) == ["400", "900"]
    (again.folder / "checkpoints" / "400" / "state.json").write_text("{}")
    last = train(tmp_path, "r", *command, "--resume")
    assert last.code == 5
    assert "nothing to load" in last.text


def test_a_full_disk_is_said_once_and_training_goes_on_from_the_last_save_that_had_room(tmp_path: Path) -> None:
    text = str(config(tmp_path, checkpoint_interval=150, keep_checkpoints=2))
    command = (text, "--env", "fake:basic?link=memory")
    train(tmp_path, "r", *command, "--stop-at", "150")
    with file_size_limit(4000):
        full = train(tmp_path, "r", *command, "--resume", "--stop-at", "900")
    assert full.code == 5, full.text
    assert full.text.count("the models could not be saved: ") == 2, "once, and once for the last save"
    assert "(needed " in full.text
    assert full.summary["agent_steps"] == 900
    assert [path.name for path in (full.folder / "checkpoints").iterdir()] == ["150"]
    again = train(tmp_path, "r", *command, "--resume", "--stop-at", "300")
    assert again.code == 0, again.text
    assert again.summary["agent_steps"] == 300


def test_a_second_run_in_one_folder_is_refused_by_name_and_the_lock_of_a_dead_one_is_taken_over(tmp_path: Path) -> None:
    command = (str(config(tmp_path)), "--env", "fake:basic?link=memory")
    assert train(tmp_path, "r", *command, "--stop-at", "100").code == 0
    lock = take_lock(tmp_path / "r", this_process())
    try:
        second = train(tmp_path, "r", *command, "--resume", "--stop-at", "200")
    finally:
        lock.release()
    assert second.code == 2
    assert f"in use by pid {os.getpid()} on " in second.text
    assert second.summary["agent_steps"] == 100
    # A killed process leaves the file, and the system gives its lock back.
    (tmp_path / "r" / "run.lock").write_text(json.dumps({"pid": 4711, "host": "h", "boot_id": this_process().boot_id}))
    again = train(tmp_path, "r", *command, "--resume", "--stop-at", "200")
    assert (again.code, again.summary["agent_steps"]) == (0, 200)
    assert "[INFO] took over the lock of pid 4711 on h, which ended without giving it back" in again.lines


def test_a_port_that_was_asked_for_and_is_busy_is_named_and_leaves_no_folder(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        run = train(tmp_path, "r", str(config(tmp_path)), "--env", "fake:basic", "--base-port", str(port))
    assert run.code == 3
    assert f"port {port} is taken by pid " in run.text
    assert not run.folder.exists()


def test_a_learner_that_cannot_be_made_ends_the_run(tmp_path: Path) -> None:
    def broken(options: LearnerOptions) -> object:
        raise ImportError(f"libfoo.so is missing (seed {options.run_seed})")

    words = ("--results-dir", str(tmp_path), "--run-id", "r", "--seed", "5", "--actor-system", "inline")
    settings = parse("--env", "fake:basic?link=memory", *words)
    session = TrainingSession(settings, broken, peek=lambda _: {})  # type: ignore[arg-type] # it makes no learner
    session.start()
    try:
        status = polled(session, lambda each: bool(each.exit_reason), 60.0)
    finally:
        session.close()
    assert (status.exit_reason, status.exit_code) == ("trainer_failure", 4)
    assert status.cause == "making the learner failed: ImportError: libfoo.so is missing (seed 5)"
