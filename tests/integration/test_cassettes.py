"""Real runs recorded and played again: the same trainer hears no difference, another one is told where it deviates."""

import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakeunity.cassettes.tape import open_cassette
from runtime.errors import EnvironmentFactoryError, PlayerRefusalError, UsageError
from runtime.players.environment import UnityEnvironment
from runtime.players.factories import LinkExtras, MemoryPlayerFactory, UnityPlayerFactory
from runtime.players.recording import RecordTo
from runtime.train import main
from tests.support.faulty import LIMITS, lived
from tests.support.player_links import assignment


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended."""

    code: int
    text: str
    summary: dict[str, Any]  # JSON


def trained(folder: Path, run_id: str, player: str, *flags: str, seed: int = 3) -> Ended:
    """A short run, all actors in this process."""
    config = folder / "short.yaml"
    config.write_text(
        "default_settings:\n  trainer_type: ppo\n"
        "  hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}\n"
        "  network_settings: {hidden_units: 8, num_layers: 1}\n"
        "  max_steps: 300\n  time_horizon: 32\n  summary_freq: 100\n"
    )
    said = io.StringIO()
    words = [str(config), "--env", f"fake:{player}", "--actor-system", "inline", "--run-id", run_id]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*words, "--results-dir", str(folder / "results"), "--seed", str(seed), *flags])
    summary = folder / "results" / run_id / "summary.json"
    return Ended(code, said.getvalue(), json.loads(summary.read_text()) if summary.exists() else {})


@pytest.mark.parametrize("scene", ["basic", "crowd"])
def test_the_same_training_is_trained_again_without_its_player(scene: str, tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"
    then = trained(tmp_path, "then", f"{scene}?link=memory", "--record", str(file))
    assert then.code == 0, then.text
    assert open_cassette(file).is_whole
    now = trained(tmp_path, "now", f"replay?link=memory&file={file}")
    assert now.code == 0, now.text
    for key in ("policy_sha256", "agent_steps", "decisions", "mean_reward", "restarts"):
        assert now.summary[key] == then.summary[key]


@pytest.mark.parametrize("link", ["memory", "grpc"])
def test_another_seed_is_reported_with_both_messages_and_ends_the_run_at_once(tmp_path: Path, link: str) -> None:
    file = tmp_path / "run.cassette"
    trained(tmp_path, "then", "basic?link=memory", "--record", str(file))
    now = trained(tmp_path, "now", f"replay?link={link}&file={file}", seed=4)
    assert now.code == 3
    assert "is started again" not in now.text
    assert now.summary["restarts"] == {"0": 0}
    assert re.search(r"exchange 1 differs from run.cassette:\n.*seed: recorded \d+, the trainer says \d+", now.text)
    if link == "memory":  # of a process, its last lines are told
        assert re.search(r"recorded:(.|\n)*communication_version(.|\n)*the trainer says:(.|\n)*seed: \d+", now.text)


def test_other_seeds_of_the_players_may_be_tolerated_and_then_the_run_takes_its_own_way(tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"
    trained(tmp_path, "then", "constant?link=memory&agents=2", "--record", str(file))
    now = trained(tmp_path, "now", f"replay?link=memory&tolerant=yes&file={file}", seed=4)
    assert now.code == 0, now.text


def test_every_environment_and_every_life_is_recorded_and_played_again(tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"
    player = "constant?link=memory&fault=crash@step=15%2Bincarnation=0"
    then = trained(tmp_path, "then", player, "--record", str(file))
    assert then.summary["restarts"] == {"0": 1}
    assert sorted(each.name for each in tmp_path.glob("*.cassette")) == ["run.1.cassette", "run.cassette"]
    now = trained(tmp_path, "now", f"replay?link=memory&file={file}")
    assert now.code == 0, now.text
    for key in ("policy_sha256", "agent_steps", "restarts", "lost_steps"):
        assert now.summary[key] == then.summary[key]
    two = trained(tmp_path, "two", "basic?link=memory", "--num-envs", "2", "--record", str(tmp_path / "two.cassette"))
    assert two.code == 0, two.text
    again = trained(tmp_path, "again", f"replay?link=memory&file={tmp_path / 'two.cassette'}", "--num-envs", "2")
    assert again.summary["policy_sha256"] == two.summary["policy_sha256"]


def test_a_recording_that_is_there_or_has_no_folder_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    for file, words in ((tmp_path / "old", "is there already"), (tmp_path / "no" / "x", "there is no folder")):
        ended = trained(tmp_path, "r", "basic", "--record", str(file))
        assert ended.code == 2
        assert words in ended.text
    assert not (tmp_path / "results" / "r").exists()


@pytest.mark.parametrize("protocol", ["API-9", "1.0.0", "1.5.0"])
def test_a_player_process_of_any_generation_is_recorded_and_replaced(protocol: str, tmp_path: Path) -> None:
    file = tmp_path / "life.cassette"
    record = RecordTo(file=str(file), environments=1, first_incarnation=0, target="fake")
    factory = UnityPlayerFactory(
        target=f"fake:basic?protocol={protocol}", run="test", extras=LinkExtras(open_tap=record)
    )
    then = lived(factory.open_link(assignment(seed=7), LIMITS), 30)
    cassette = open_cassette(file)
    assert cassette.is_whole
    assert cassette.generation == (1 if protocol == "API-9" else 2)
    replay = UnityPlayerFactory(target=f"fake:replay?file={file}", run="test")
    now = lived(replay.open_link(assignment(seed=7), LIMITS), 30)
    assert then.reply is not None
    assert now.reply is not None
    for name, info in then.reply.infos.items():
        assert now.reply.infos[name].decisions.observations[0].tobytes() == info.decisions.observations[0].tobytes()


def test_a_player_process_leaves_with_exit_code_3_and_the_difference_in_its_last_words(tmp_path: Path) -> None:
    file = tmp_path / "life.cassette"
    record = RecordTo(file=str(file), environments=1, first_incarnation=0, target="fake")
    factory = UnityPlayerFactory(target="fake:basic", run="test", extras=LinkExtras(open_tap=record))
    lived(factory.open_link(assignment(seed=7), LIMITS), 3)
    replay = UnityPlayerFactory(target=f"fake:replay?file={file}", run="test")
    with pytest.raises(PlayerRefusalError, match=r"(?s)exit code 3.*seed: recorded 7, the trainer says 8"):
        lived(replay.open_link(assignment(seed=8), LIMITS), 3)
    with pytest.raises(PlayerRefusalError, match=r"(?s)exit code 3.*header.status: recorded 400, the trainer says 200"):
        lived(replay.open_link(assignment(seed=7), LIMITS), 4)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(PlayerRefusalError, match=r"(?s)exit code 4.*ends here.*the file was cut short after byte"):
        lived(replay.open_link(assignment(seed=7), LIMITS), 3)


def test_an_environment_by_itself_records_too_and_hears_the_same_again(tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"

    def rewards(url: str, **more: Any) -> list[list[float]]:  # `Any`: arguments of UnityEnvironment
        with UnityEnvironment(url, seed=4, **more) as env:
            infos = [env.reset(), *(env.step() for _ in range(20))]
        return [info["Basic"].decisions.rewards.tolist() for info in infos]

    then = rewards("fake:basic?link=memory&agents=2", record=file)
    assert open_cassette(file).is_whole
    assert rewards(f"fake:replay?link=memory&file={file}") == then
    with pytest.raises(UsageError, match="there already"):
        UnityEnvironment("fake:basic?link=memory", record=file)


@pytest.mark.parametrize("link", ["memory", "grpc"])
def test_a_damaged_recording_ends_the_run_at_once_with_the_place_of_the_damage(link: str, tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"
    trained(tmp_path, "then", "basic?link=memory", "--record", str(file))
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    now = trained(tmp_path, "now", f"replay?link={link}&file={file}")
    assert now.code == 3
    assert now.summary["restarts"] == {"0": 0}
    assert re.search(r"run\.cassette, byte \d+: a damaged block", now.text)
    assert "is started again" not in now.text
    assert "run.1.cassette" not in now.text


@pytest.mark.parametrize("link", ["memory", "grpc"])
def test_a_life_that_was_never_recorded_is_refused_and_points_at_the_life_before(link: str, tmp_path: Path) -> None:
    file = tmp_path / "life.cassette"
    record = RecordTo(file=str(file), environments=1, first_incarnation=0, target="fake")
    extras = LinkExtras(open_tap=record)
    lived(MemoryPlayerFactory(target="fake:basic?link=memory", extras=extras).open_link(assignment(seed=7), LIMITS), 3)
    target = f"fake:replay?link={link}&file={file}"
    factory = MemoryPlayerFactory(target=target) if link == "memory" else UnityPlayerFactory(target=target, run="test")
    with pytest.raises(
        (EnvironmentFactoryError, PlayerRefusalError),
        match=r"life\.1\.cassette: there is no such .* why the player before this one ended",
    ):
        lived(factory.open_link(assignment(seed=7, incarnation=1), LIMITS), 3)
