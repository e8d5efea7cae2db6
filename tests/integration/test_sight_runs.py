"""Runs whose players send pictures of 36 pixels, through gRPC: every encoder, the same bits in any topology."""

from pathlib import Path

import onnxruntime
import pytest

from tests.support.runs import FinishedRun, config, train, train_in_processes
from tests.support.small_pictures import small_pictures_executable
from trainers.encoders import ENCODERS

pytestmark = pytest.mark.slow

FOUR = ("--num-envs", "4", "--seed", "3")


def lasting(run: FinishedRun) -> tuple[dict[str, object], dict[str, bytes]]:
    assert run.code == 0, run.text
    assert run.summary["policy_version"]["GridWorld"] >= 2
    return run.lasting("run_id", "workers"), run.files("*.onnx")


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_four_workers_give_what_one_process_gives(tmp_path: Path, encoder: str) -> None:
    settings = str(config(tmp_path, "GridWorld", vis_encode_type=encoder, max_steps=400))
    player = str(small_pictures_executable(tmp_path))
    inline = train(tmp_path, "inline", settings, "--env", player, *FOUR, "--workers", "1")
    four = train_in_processes(
        tmp_path, "four", settings, "--env", player, *FOUR, "--workers", "4", variables={"PYTHONHASHSEED": "7"}
    )
    assert lasting(four) == lasting(inline)
    assert len(four.summary["workers"]) == 4
    model = onnxruntime.InferenceSession(four.folder / "GridWorld.onnx", providers=["CPUExecutionProvider"])
    assert ["batch", 3, 36, 36] in [each.shape for each in model.get_inputs()]
