"""Strangers on the ports of a whole run: nothing they send is executed, and the run goes on."""

import contextlib
import socket
from pathlib import Path

import pytest

from tests.actors.test_strangers import forged
from tests.support.training_runs import short_run

STARTS_S_MAX = 120.0
# Actors listen on at least six ports, and each of the two EnvWorkers on one for its player.
PORTS_MIN = 8


@pytest.mark.slow
def test_a_pickle_to_every_port_of_a_run_executes_nothing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with short_run(tmp_path, max_steps=4000) as run:
        assert run.wait_for(lambda text: ". Step: " in text, STARTS_S_MAX), run.text
        ports = run.ports()
        assert len(ports) >= PORTS_MIN
        for port in ports:
            for data in forged(canary).values():
                # Whoever listens may hang up while we are still sending.
                with (
                    contextlib.suppress(ConnectionError),
                    socket.create_connection(("127.0.0.1", port), 5.0) as stranger,
                ):
                    stranger.sendall(data)
        assert run.wait(STARTS_S_MAX) == 0, run.text
        assert run.summary()["restarts"] == {"0": 0, "1": 0}
        assert run.summary()["workers"] == {"0": 0, "1": 0}
    assert not canary.exists()
