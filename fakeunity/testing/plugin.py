"""Pytest fixtures: an installed fake player, and a port nobody uses. Register it as `pytest11: fakeunity`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fakeunity.install import install
from fakeunity.spec import from_options


@pytest.fixture
def fake_unity_player(tmp_path: Path) -> Callable[..., Path]:
    """A function (scene, **options) -> path of an executable player, as `install` writes it; options as in a URL."""

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
