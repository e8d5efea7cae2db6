"""What describes players stays light: gRPC, protobuf and the scenes are loaded where players are opened."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["runtime.players.links", "runtime.players.factories"])
def test_describing_players_loads_no_grpc_no_protobuf_and_no_scene(module: str) -> None:
    source = (
        f"import sys, {module}\n"
        "print([name for name in ('grpc', 'google.protobuf', 'fakeunity', 'psutil', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
