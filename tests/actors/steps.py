"""Steps that several tests of the actor-system base share."""

import socket
from collections.abc import Callable
from typing import Any

import psutil

from runtime.actors.hosting import HostedActor, Start
from runtime.actors.system import SystemHandle

ANSWER_S = 10.0


def started(system: SystemHandle, kind: type[HostedActor], role: str = "sample") -> Any:
    """The address of a new actor that has got its Start."""
    address = system.system.createActor(kind)
    system.tell(address, Start(role=role))
    return address


def heard(system: SystemHandle, is_wanted: Callable[[Any], bool], timeout_s: float = ANSWER_S) -> Any:
    """The first message that is wanted; None if silence lasts for `timeout_s`."""
    while (message := system.listen(timeout_s)) is not None:
        if is_wanted(message):
            return message
    return None


def exit_of(index: int) -> Callable[[Any], bool]:
    """Whether a message tells the end of a Parent's child."""
    return lambda message: isinstance(message, tuple) and message[:2] == ("exited", index)


def listening_ports(pids: tuple[int, ...]) -> list[tuple[str, int]]:
    """Address and port of every TCP listener of the processes."""
    return [
        (connection.laddr.ip, connection.laddr.port)
        for pid in pids
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


def is_closed_by_peer(connection: socket.socket) -> bool:
    """Whether the other side closes the connection before the socket's time-out; what it sends first is ignored."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True
