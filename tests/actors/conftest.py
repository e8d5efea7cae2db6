"""A running actor system for a test, closed and gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.actors.system import SystemHandle, open_actor_system


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "actors.log"


@pytest.fixture
def system(log_file: Path) -> Iterator[SystemHandle]:
    with open_actor_system(run_id="test", log_file=log_file) as handle:
        yield handle
    assert handle.pids() == ()
