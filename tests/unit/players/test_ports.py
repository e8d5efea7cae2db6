"""Ports of players: who starts first has them, until the claim is given back or its process ends."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.players.ports import LOOPBACK, PortClaim, claim_ports
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
CLAIM = """
import sys
from runtime.players.ports import claim_ports
claim = claim_ports([int(sys.argv[1])])
print(claim is not None, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def claimed(*ports: int) -> Iterator[PortClaim]:
    claim = claim_ports(ports)
    assert claim is not None
    yield claim
    claim.release()


def test_claimed_ports_are_not_claimed_twice_and_free_after_their_release() -> None:
    port = free_port()
    with claimed(port, port + 1) as first:
        assert claim_ports([port + 1, port + 2]) is None
        first.release()
        first.release()
        with claimed(port + 1, port + 2):
            pass


def test_a_refused_claim_holds_none_of_its_ports() -> None:
    port = free_port()
    with claimed(port + 1):
        assert claim_ports([port, port + 1]) is None
        with claimed(port):
            pass


@pytest.mark.parametrize("address", LOOPBACK)
def test_a_port_that_is_served_cannot_be_claimed(address: str) -> None:
    port = free_port()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        server.bind((address, port))
        server.listen(1)
        assert claim_ports([port]) is None
    with claimed(port):
        pass


def test_a_claim_does_not_stand_in_the_way_of_serving() -> None:
    port = free_port()
    with claimed(port), socket.create_server((LOOPBACK[0], port)) as server:
        assert server.getsockname()[1] == port


def test_the_claim_of_a_process_that_was_killed_is_free() -> None:
    port = free_port()
    command = [sys.executable, "-c", CLAIM, str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert claim_ports([port]) is None
        other.kill()
        other.wait(10.0)
    with claimed(port):
        pass
