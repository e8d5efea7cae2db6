"""Pytest fixtures: an installed fake player, and a port nobody uses. Register it as `pytest11: fakeunity`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

# Pytest loads plugins before anything is measured or asked of it: the rest of the package is imported when a test
# uses it, so that its lines count as covered and every other test session starts as fast as without us.


@pytest.fixture
def fake_unity_player(tmp_path: Path) -> Callable[..., Path]:
    """A function (scene, **options) -> path of an executable player, as `install` writes it; options as in a URL."""
    from fakeunity.install import install  # noqa: PLC0415 - see above
    from fakeunity.spec import from_options  # noqa: PLC0415 - see above

    def installed(scene: str, **options: object) -> Path:
        spec = from_options(scene, [(key, str(value)) for key, value in options.items()])
        file = tmp_path / f"{scene}-{len(list(tmp_path.glob('*.x86_64')))}.x86_64"
        install(spec, file)
        return file

    return installed


@pytest.fixture
def free_port() -> int:
    """A TCP port that nobody on this machine listened to a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
