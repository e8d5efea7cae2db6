"""A peer without the key gets nothing executed, nothing buffered, and its connection closed."""

import contextlib
import os
import pickle
import socket
from pathlib import Path

import pytest

from runtime.actors.frames import FrameKind, FrameSeal
from runtime.actors.system import SystemHandle
from tests.actors.samples import Echo, Parent
from tests.actors.steps import ANSWER_S, is_closed_by_peer, listening_ports, started

CLOSED_S_MAX = 3.0


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def forged(path: Path) -> dict[str, bytes]:
    """What a stranger might send: the stock framing, and ours with another key."""
    body = pickle.dumps((None, Canary(path)))
    other = FrameSeal(b"x" * 32)
    whole = other.seal(FrameKind.MESSAGE, b"stranger", 1, body)
    return {
        "stock frame": b"%d>" % len(body) + body,
        "frame with another key": whole,
        "header that announces 10**18 bytes": b"1000000000000000000>" + bytes(60),
        "endless digits": b"9" * 100_000,
        "bare pickle": body + bytes(80),
    }


def every_port(system: SystemHandle) -> list[tuple[str, int]]:
    return listening_ports((*system.pids(), os.getpid()))


def test_forged_frames_to_every_port_execute_nothing(system: SystemHandle, tmp_path: Path) -> None:
    parent = started(system, Parent)
    _, index, pid = system.ask(parent, ("create", "echo"), ANSWER_S)
    child = system.ask(parent, ("address", index), ANSWER_S)
    assert system.ask(child, 1, ANSWER_S) == (pid, 1)
    canary = tmp_path / "canary"
    ports = every_port(system)
    assert len(ports) >= 5
    for name, data in forged(canary).items():
        for address in ports:
            with socket.create_connection(address, timeout=CLOSED_S_MAX) as connection:
                try:
                    connection.sendall(data)
                except ConnectionError:
                    continue  # closed while we were still sending
                system.listen(0.01)  # our own end only looks at its connections while it is asked to
                assert is_closed_by_peer(connection), f"{name} to {address}"
    assert not canary.exists()
    assert system.ask(child, "unharmed", ANSWER_S) == (pid, "unharmed")
    assert system.ask(parent, "unharmed", ANSWER_S)[2] == "unharmed"


def test_the_canary_would_sing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(canary)))
    assert canary.exists()


@pytest.mark.parametrize("chunk", [1, 7])
def test_a_stranger_that_sends_slowly_is_cut_off_after_a_header(system: SystemHandle, chunk: int) -> None:
    host_port = listening_ports((system.admin_pid,))[0]
    sent = 0
    with socket.create_connection(host_port, timeout=CLOSED_S_MAX) as connection:
        while sent < 77 - chunk:
            connection.sendall(b"1" * chunk)
            sent += chunk
        connection.sendall(b"1" * (77 - sent))
        assert is_closed_by_peer(connection)
    assert system.is_alive()


def test_a_stranger_that_connects_and_says_nothing_hinders_nobody(system: SystemHandle) -> None:
    parent = started(system, Parent)
    with socket.create_connection(listening_ports((system.admin_pid,))[0]):
        assert system.ask(parent, "served", ANSWER_S)[2] == "served"


def test_strangers_that_stay_to_the_end_leave_nothing_in_the_log(system: SystemHandle, log_file: Path) -> None:
    echo = started(system, Echo)
    pid, _ = system.ask(echo, 1, ANSWER_S)
    with contextlib.ExitStack() as stack:
        for address in listening_ports(system.pids()):
            for _ in range(3):
                stack.enter_context(socket.create_connection(address, timeout=CLOSED_S_MAX))
        # Behind the connections, which are taken in their order: they are held when this is answered.
        assert system.ask(echo, 2, ANSWER_S) == (pid, 2)
        system.close()
    text = log_file.read_text()
    assert "Actor System shutdown" in text
    assert "Exception ignored" not in text
    assert "Traceback" not in text
