"""Cases that users met with whole runs: players that crash, hang, start late or raise, ports and folders used again."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from runtime.actors.env_manager import ActorEnvManager
from runtime.experience.actions import ActionInfo, Policy
from runtime.experience.brains import BrainInfo
from runtime.messages import PolicyUpdate
from runtime.players.factories import UnityPlayerFactory
from tests.support import crashing_player
from tests.support.ports import free_port
from tests.support.training_runs import ROOT, TrainingRun, players_count, short_config

RUN_S_MAX = 200.0
GAP_S_MAX = 1.0
CALM_EXCHANGES = 150


def bot_config(folder: Path, *, max_steps: int = 300) -> str:
    file = folder / "bot.yaml"
    file.write_text(
        "behaviors:\n  Bot:\n    trainer_type: ppo\n"
        "    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 2}\n"
        "    network_settings: {hidden_units: 16, num_layers: 1}\n"
        f"    max_steps: {max_steps}\n    time_horizon: 16\n    summary_freq: 100\n"
    )
    return str(file)


def bot_run(folder: Path, player: str, *arguments: str, max_steps: int = 300) -> TrainingRun:
    command = [bot_config(folder, max_steps=max_steps), "--env", player, "--base-port", str(free_port())]
    return TrainingRun(folder, *command, *arguments)


def test_c01_a_player_that_exits_once_is_named_and_it_alone_restarts(tmp_path: Path) -> None:
    player = crashing_player.install(tmp_path, "exit@30:9", env_id=2, once=True)
    with bot_run(tmp_path, player, "--num-envs", "4", max_steps=800) as run:
        line = run.wait_for(lambda text: "exit code 9" in text, RUN_S_MAX)
        assert line is not None, run.text
        assert "environment 2 (incarnation 0), env step 29: the player died; its process (pid " in line.text
        assert run.wait(RUN_S_MAX) == 0, run.text
        summary = run.summary()
        assert summary["restarts"] == {"0": 0, "1": 0, "2": 1, "3": 0}
        assert set(summary["workers"].values()) == {0}
        assert 0 < summary["unreported_steps_max"] <= 2


class Gaps:
    """The longest pause between two exchanges of each player, as its journal grows."""

    def __init__(self, journal: Path, names: set[str]) -> None:
        self._journal = journal
        self._seen = {name: (self.counts()[name], time.monotonic()) for name in names}
        self.longest_s = dict.fromkeys(names, 0.0)

    def counts(self) -> dict[str, int]:
        """Exchanges of every player so far."""
        return {file.name: file.read_bytes().count(b"\n") for file in self._journal.glob("*.jsonl")}

    def look(self) -> dict[str, int]:
        """Compare with the last look."""
        counts, now_s = self.counts(), time.monotonic()
        for name, (count, since_s) in self._seen.items():
            self.longest_s[name] = max(self.longest_s[name], now_s - since_s)
            if counts[name] > count:
                self._seen[name] = (counts[name], now_s)
        return counts


def test_c01_the_other_players_keep_stepping_while_one_is_started_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    config = short_config(tmp_path, max_steps=1_000_000, buffer_size=100_000)
    command = [str(config), "--env", f"fake:constant?agents=1&journal={journal}&delay_ms=2-4", "--num-envs", "4"]
    with TrainingRun(tmp_path, *command, "--base-port", str(free_port())) as run:
        calm, after = Gaps(journal, set()), CALM_EXCHANGES
        assert run.until(lambda: len(calm.counts()) == 4 and min(calm.counts().values()) > 50, RUN_S_MAX), run.text
        calm = Gaps(journal, set(calm.counts()))
        assert run.until(lambda: min(calm.look().values()) > 50 + after, RUN_S_MAX), run.text
        (victim,) = [name for name in calm.counts() if name.startswith("2-")]
        others = set(calm.counts()) - {victim}
        psutil.Process(int(victim.removesuffix(".jsonl").partition("-")[2])).kill()
        gaps = Gaps(journal, others)

        def is_back() -> bool:
            return any(count > after for name, count in gaps.look().items() if name not in {victim, *others})

        assert run.until(is_back, RUN_S_MAX), run.text
        # On a machine that is busy with other things, gaps are long without any loss.
        limit_s = max(GAP_S_MAX, 3.0 * max(calm.longest_s.values()))
        assert max(gaps.longest_s.values()) < limit_s, (calm.longest_s, gaps.longest_s)
        assert len(gaps.counts()) == 5


def test_c03_a_killed_worker_is_rebuilt_also_when_it_is_the_only_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = [
        str(short_config(tmp_path)),
        "--env",
        f"fake:constant?journal={journal}",
        "--base-port",
        str(free_port()),
    ]
    with TrainingRun(tmp_path, *command) as run:
        assert run.until(lambda: journal.exists() and players_count(journal).env_steps > 20, RUN_S_MAX), run.text
        worker = run.titled("EnvWorker 0")
        assert worker is not None
        (orphan,) = run.players()
        worker.kill()
        killed_s = time.monotonic()
        line = run.wait_for(lambda text: f"EnvWorker 0: its process (pid {worker.pid}) has ended" in text, 5.0)
        assert line is not None, run.text
        assert run.until(lambda: not orphan.is_running(), 5.0 - (time.monotonic() - killed_s))
        assert run.wait(RUN_S_MAX) == 0, run.text
        summary = run.summary()
        assert summary["workers"] == {"0": 1}
        lost = sum(summary["lost_steps"].values())
        known = summary["agent_steps"] + lost
        assert known <= players_count(journal).agent_steps <= known + summary["unreported_steps_max"]
        assert ("lost agent steps: " in run.text) == bool(lost + summary["unreported_steps_max"])


def test_c05_what_a_player_raises_is_shown_with_its_number_and_ends_the_run_without_restarts(tmp_path: Path) -> None:
    raising = "if is_meant: raise ValueError('not on any list')"
    player = crashing_player.install(tmp_path, env_id=1, before=raising)
    with bot_run(tmp_path, player, "--num-envs", "2", "--max-lifetime-restarts", "0") as run:
        line = run.wait_for(lambda text: "ValueError: not on any list" in text, RUN_S_MAX)
        assert line is not None, run.text
        assert run.wait(10.0) == 3
        assert time.monotonic() - line.at_s < 3.0
        assert run.text.count("ValueError: not on any list") == 1
        assert "Traceback (most recent call last)" in run.text
        assert "environment 1 (incarnation 0)" in run.text
        assert run.nothing_left(1.0) == ""


class Stays(Policy):
    """Action 0 for everybody."""

    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        return ActionInfo(np.zeros((len(brain_info.decisions), 1), np.float32))


def test_c07_twenty_lives_on_one_port() -> None:
    port, starts = free_port(), []
    for _ in range(20):
        began_s = time.monotonic()
        factory = UnityPlayerFactory(target="fake:constant")
        with ActorEnvManager(factory, n_env=1, base_port=port, actor_system="inline") as manager:
            starts.append(time.monotonic() - began_s)
            manager.publish(PolicyUpdate.from_policy("Constant", Stays()))
            manager.reset()
            for _ in range(5):
                manager.step()
    assert len(starts) == 20
    assert sorted(starts)[10] < 2.0, starts


THREE_RUNS = """
import json, os, sys, threading
import psutil
from runtime.train import main

def counts():
    return [threading.active_count(), len(psutil.Process().children(recursive=True)), len(os.listdir("/proc/self/fd"))]

for run_id, more in (("r1", []), ("r2", ["--seed", "5", "--num-envs", "2"]), ("r3", [])):
    before = counts()
    code = main([*sys.argv[1:], "--run-id", run_id, *more])
    print("COUNTS", json.dumps([code, before, counts()]), flush=True)
"""


@pytest.mark.slow
def test_c08_three_runs_in_one_process_leave_it_as_it_was(tmp_path: Path) -> None:
    words = [str(short_config(tmp_path)), "--env", "fake:constant", "--base-port", str(free_port())]
    done = subprocess.run(
        [sys.executable, "-c", THREE_RUNS, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    told = [json.loads(line.removeprefix("COUNTS ")) for line in done.stdout.splitlines() if line.startswith("COUNTS")]
    assert [code for code, _, _ in told] == [0, 0, 0], done.stdout + done.stderr
    threads_and_children = [(before[:2], after[:2]) for _, before, after in told]
    assert all(before == after for before, after in threads_and_children), told
    assert told[2][1] == told[2][2], "file descriptors grow from run to run"
    for run_id in ("r1", "r2", "r3"):
        summary = json.loads((tmp_path / "results" / run_id / "summary.json").read_text())
        assert (summary["run_id"], summary["exit_reason"]) == (run_id, "max_steps")
        assert 1500 <= summary["agent_steps"] < 1600
        assert (summary["seed"] == 5) == (run_id == "r2")
        assert len(summary["restarts"]) == (2 if run_id == "r2" else 1)


def test_c10_a_silent_player_is_ended_after_the_step_limit_and_started_again(tmp_path: Path) -> None:
    player = crashing_player.install(tmp_path, "hang@50", once=True)
    with bot_run(tmp_path, player, "--step-timeout", "2") as run:
        assert run.until(run.players, RUN_S_MAX), run.text
        (silent,) = run.players()
        line = run.wait_for(lambda text: "env step 49: the player has not answered for 2.0 s" in text, RUN_S_MAX)
        assert line is not None, run.text
        assert f"its process (pid {silent.pid}) is alive" in line.text
        assert "--step-timeout" in line.text
        assert run.until(lambda: not silent.is_running(), 8.0)
        assert run.wait(RUN_S_MAX) == 0, run.text
        assert run.summary()["restarts"] == {"0": 1}


def test_c11_the_start_may_take_longer_than_a_step(tmp_path: Path) -> None:
    player = crashing_player.install(tmp_path, "late@0:5", "hang@20", once=True)
    with bot_run(tmp_path, player, "--timeout-wait", "40", "--step-timeout", "2") as run:
        line = run.wait_for(lambda text: "the player has not" in text, RUN_S_MAX)
        assert line is not None, run.text
        assert "env step 19: the player has not answered for 2.0 s" in line.text
        assert run.wait(RUN_S_MAX) == 0, run.text


def test_c11_a_start_over_its_limit_is_told_with_the_limit_and_its_option(tmp_path: Path) -> None:
    player = crashing_player.install(tmp_path, "late@0:30")
    with bot_run(tmp_path, player, "--timeout-wait", "2", "--max-lifetime-restarts", "1") as run:
        assert run.wait(RUN_S_MAX) == 3
        assert run.text.count("the player has not connected for 2.0 s") == 3  # two limits, one account of a restart
        assert "or raise --timeout-wait" in run.text
        assert "all 1 restarts are spent (--max-lifetime-restarts)" in run.text
        assert run.nothing_left(1.0) == ""
