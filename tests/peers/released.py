"""Where the released clients and the trainer are, and how they are run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("FAKEUNITY_PEERS", "")
CLIENT_TIMEOUT_S = 240.0


def interpreter(peer: str) -> str:
    """The Python of a peer that `build_peer.py` built; empty when there is none."""
    python = Path(FOLDER) / peer / "bin" / "python"
    return str(python.absolute()) if FOLDER and python.exists() else ""


def absent(peer: str) -> str:
    """Why a test that needs this peer is skipped where there is none."""
    return f"FAKEUNITY_PEERS names no folder with {peer}, as tests/peers/build_peer.py builds it"


def needs(peer: str) -> list[pytest.MarkDecorator]:
    """The marks of a module whose tests need this peer."""
    import pytest  # noqa: PLC0415 - measurements run the peers too, without the packages that tests need

    return [pytest.mark.peers, pytest.mark.skipif(not interpreter(peer), reason=absent(peer))]


def run_client(peer: str, script: str, *arguments: str) -> Any:  # `Any`: a JSON document
    """The JSON in the last line that a script of this folder prints when that peer's interpreter runs it."""
    return heard_client(peer, script, *arguments)[0]


def heard_client(peer: str, script: str, *arguments: str) -> tuple[Any, str]:  # `Any`: as above
    """The same, and what the script wrote to standard error."""
    command = [interpreter(peer), str(Path(__file__).with_name(script)), *arguments]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_S,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr
