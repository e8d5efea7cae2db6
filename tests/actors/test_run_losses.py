"""What a run cannot live without ends it, with exit code 4 or 3, its last save intact and nothing left behind."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from runtime.train import peek_run_state
from tests.support import crashing_player
from tests.support.ports import free_port
from tests.support.training_runs import TrainingRun, short_run

STARTS_S_MAX = 120.0
GONE_S_MAX = 10.0


def assert_save_is_intact(run: TrainingRun) -> None:
    """The newest checkpoint can be loaded, and holds the steps that its name says."""
    newest = run.checkpoints()[-1]
    assert peek_run_state([newest])["agent_steps"] == int(newest.name)


@pytest.mark.parametrize("title", ["TrainerController", "Supervisor", "admin"])
def test_a_run_whose_heart_is_killed_ends_with_code_4_and_its_last_save(tmp_path: Path, title: str) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.until(run.checkpoints, STARTS_S_MAX), run.text
        part = run.titled(title)
        assert part is not None
        part.kill()
        began_s = time.monotonic()
        assert run.wait(60.0) == 4, run.text
        assert run.nothing_left(1.0) == ""
        assert time.monotonic() - began_s < GONE_S_MAX, run.text
        (said, *_) = [line.text for line in run.lines if line.text.startswith("[ERROR]")]
        assert title.removeprefix("Trainer") in said
        assert "--resume" in said
        assert run.summary()["exit_reason"] == "trainer_failure"
        assert_save_is_intact(run)


@pytest.mark.parametrize("title", ["TrainerController", "Supervisor", "admin"])
def test_a_run_whose_heart_is_killed_while_it_starts_ends_with_code_4(tmp_path: Path, title: str) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        found: list[psutil.Process] = []

        def look() -> bool:
            parts = run.parts("controller") if title == "TrainerController" else [run.titled(title)]
            found[:] = [each for each in parts if each is not None]
            return bool(found)

        assert run.until(look, STARTS_S_MAX), run.text
        found[0].kill()
        began_s = time.monotonic()
        assert run.wait(60.0) == 4, run.text
        assert run.nothing_left(1.0) == ""
        assert time.monotonic() - began_s < GONE_S_MAX, run.text


@pytest.mark.slow
def test_the_cause_of_an_end_is_said_before_what_does_not_react_is_waited_for(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.until(lambda: run.titled("EnvWorker 1"), STARTS_S_MAX), run.text
        worker, (controller, *_) = run.titled("EnvWorker 1"), run.parts("controller")
        assert worker is not None
        worker.suspend()
        controller.kill()
        line = run.wait_for(lambda text: text.startswith("[ERROR]") and "TrainerController" in text, GONE_S_MAX)
        assert line is not None, run.text
        assert worker.status() == psutil.STATUS_STOPPED
        assert run.wait(60.0) == 4, run.text
        assert run.nothing_left(1.0) == ""


def test_a_spent_budget_ends_the_run_with_every_cause_and_the_model_saved(tmp_path: Path) -> None:
    player = crashing_player.install(tmp_path, "exit@3:9")
    with TrainingRun(tmp_path, "--env", player, "--base-port", str(free_port())) as run:
        assert run.wait(STARTS_S_MAX) == 3, run.text
        assert run.nothing_left(1.0) == ""
        said = [line.text for line in run.lines if line.text.startswith("[ERROR]")]
        causes = [line for line in said if "ago: " in line and "ended with exit code 9" in line]
        assert len(causes) == 3, run.text
        assert "environment 0 (incarnation 3)" in said[0]
        assert "ended with exit code 9" in said[0]
        assert any("3 restarts within 60 s are the limit (--restarts-rate-limit-n" in line for line in said)
        assert run.text.count("environment 0 is started again") == 3
        summary = run.summary()
        assert summary["exit_reason"] == "environment_failure"
        assert summary["restarts"] == {"0": 3}
        assert (run.results / "Bot.onnx").exists()
        assert_save_is_intact(run)


def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    with short_run(tmp_path, "--max-lifetime-restarts", "1", max_steps=1_000_000) as run:
        for _ in range(2):
            assert run.until(lambda: run.titled("EnvWorker 1"), STARTS_S_MAX)
            worker = run.titled("EnvWorker 1")
            assert worker is not None
            worker.kill()
            assert run.until(lambda: not worker.is_running(), 10.0)  # noqa: B023 - called at once
        assert run.wait(60.0) == 3, run.text
        assert run.nothing_left(1.0) == ""
        assert "EnvWorker 1 was lost" in run.text
        assert "all 1 restarts are spent (--max-lifetime-restarts)" in run.text
        assert run.summary()["workers"]["1"] == 1  # the second one was denied


def test_a_killed_logger_is_said_and_replaced_while_the_run_goes_on(tmp_path: Path) -> None:
    with short_run(tmp_path, max_steps=1_000_000) as run:
        assert run.until(run.checkpoints, STARTS_S_MAX), run.text
        for kill in (1, 2):
            (logger,) = loggers_of(run)
            killed_s = time.monotonic()
            logger.kill()
            said = run.wait_for(lambda text: "logger of the actor system was lost" in text, 5.0, after_s=killed_s)
            assert said is not None, run.text
            assert said.text.startswith("[WARNING] ")
            assert run.text.count("logger of the actor system was lost") == kill
        seen = len(run.lines)
        assert run.until(lambda: any("Step: " in line.text for line in list(run.lines)[seen:]), 20.0), run.text
        run.signal(signal.SIGINT)
        assert run.wait(60.0) == 130, run.text
        assert run.nothing_left(1.0) == ""
        # The admin's last record reaches the file although it has lost the logger that it began with.
        assert "Actor System shutdown" in (run.results / "run_logs" / "actors.log").read_text()


def loggers_of(run: TrainingRun) -> list[psutil.Process]:
    return [each for each in run.family() if "".join(each.cmdline()[:1]).startswith("logger ")]
