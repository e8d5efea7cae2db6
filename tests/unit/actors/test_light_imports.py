"""The actors that never touch an array load no numpy: it would be a third of their memory."""

import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest

from runtime.experience import brains


@pytest.mark.parametrize("part", ["supervisor_part", "holder_part", "hosted_part"])
def test_an_actor_without_arrays_has_no_numpy(part: str) -> None:
    program = f"import sys\nimport runtime.actors.{part}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stdout.split())
    assert f"runtime.actors.{part}" in loaded
    assert not {"numpy", "onnxruntime", "tensorflow", "grpc", "cloudpickle"} & loaded


def test_whoever_asks_for_the_type_of_an_array_gets_it() -> None:
    assert brains.Floats == npt.NDArray[np.float32]
    assert brains.Floats | None == npt.NDArray[np.float32] | None
    assert brains.Observation == npt.NDArray[np.float32] | npt.NDArray[np.uint8]
    with pytest.raises(AttributeError, match="has no attribute 'Flots'"):
        getattr(brains, "Flots")  # noqa: B009 - the checker knows it too
