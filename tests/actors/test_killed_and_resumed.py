"""A run whose launcher was killed goes on as if it had only restarted its players where its last checkpoint was."""

import random
from pathlib import Path

import pytest

from tests.support.runs import config, train
from tests.support.training_runs import TrainingRun

PLAYER = "fake:balance?link=memory&agents=2"
ENDS_S_MAX, MAX_STEPS = 120.0, 3000


@pytest.mark.parametrize("draw", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_what_a_killed_launcher_leaves_goes_on_bit_for_bit(tmp_path: Path, draw: int) -> None:
    rng = random.Random(draw)
    # Normalised, so that the statistics of observations are part of what must come back.
    text = str(config(tmp_path, "Balance", normalize="true", max_steps=MAX_STEPS, checkpoint_interval=300))
    command = (text, "--env", PLAYER, "--num-envs", "2")
    wanted = rng.randint(1, 4)
    with TrainingRun(tmp_path, *command, "--seed", "9") as run:
        assert run.until(lambda: len(run.checkpoints()) >= wanted, ENDS_S_MAX), run.text
        run.kill()
        assert run.until(lambda: not run.processes(), 10.0), run.nothing_left(0.0)
        killed_at = int(run.checkpoints()[-1].name)
        assert killed_at < MAX_STEPS, "it was killed too late"
        results = run.results.parent
    resumed = train(results, "k", *command, "--resume")
    assert resumed.code == 0, resumed.text
    whole = train(tmp_path, "whole", *command, "--seed", "9", "--restart-envs-at", str(killed_at))
    assert whole.code == 0, whole.text
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    for counter in ("env_steps", "agent_steps", "decisions", "episodes", "mean_reward", "policy_version"):
        assert resumed.summary[counter] == whole.summary[counter], counter
