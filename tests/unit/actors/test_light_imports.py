"""The actors that never touch an array load no numpy: it would be a third of their memory."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("part", ["supervisor_part", "holder_part", "hosted_part"])
def test_an_actor_without_arrays_has_no_numpy(part: str) -> None:
    program = f"import sys\nimport runtime.actors.{part}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stdout.split())
    assert f"runtime.actors.{part}" in loaded
    assert not {"numpy", "onnxruntime", "tensorflow", "grpc", "cloudpickle"} & loaded
