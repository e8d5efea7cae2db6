"""Equal bytes from equal calls, in other processes and under other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import hashlib
from tests.support.experience_streams import small_brain, small_learner, small_settings, walkers
brains = [small_brain("A"), small_brain("B")]
learner = small_learner(small_settings(normalize=True), seed=3, brains=brains[::{direction}])
walkers(learner, brains[0])
for _ in range(2):
    learner.finish_update(learner.begin_update("A")())
print(hashlib.sha256(learner.unity_model("A") + learner.unity_model("B")).hexdigest())
"""


@pytest.mark.slow
def test_the_model_does_not_depend_on_the_process_its_hash_seed_or_the_order_of_brains() -> None:
    digests = set()
    for hash_seed, direction in (("0", 1), ("12345", -1)):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(direction=direction)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == 64
