"""Ports for players: is one free on every address that we serve, and if not, who has it."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence

import psutil

from runtime.errors import PortInUseError
from runtime.players.places import Place

LOOPBACK = ("127.0.0.1", "::1")


def usable_addresses(bind: str, port: int, place: Place) -> tuple[str, ...]:
    """The addresses on which `port` can be served: `bind`, or both loopback ones when it is empty.

    A machine without IPv6 has one loopback address. Raises PortInUseError naming the port and, where the system tells,
    its owner. A port whose old connections are still winding down is free.
    """
    wanted = (bind,) if bind else LOOPBACK
    usable = []
    for address in wanted:
        try:
            _probe(address, port)
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                raise port_in_use(port, place, error.strerror or "") from error
            if address == wanted[0]:
                text = (
                    f"{place.environment}: cannot serve on {address} ({error.strerror}); "
                    "give an address of this machine to --bind."
                )
                raise PortInUseError(text, env_id=place.env_id, incarnation=place.incarnation) from error
            continue
        usable.append(address)
    return tuple(usable)


def port_in_use(port: int, place: Place, reason: str = "") -> PortInUseError:
    """The error that names a port, its owner if the system tells, and what to do."""
    owner = _owner(port)
    held = f" by {owner}" if owner else ""
    return PortInUseError(
        f"{place.environment}: port {port} is taken{held}{f' ({reason})' if reason else ''}; expected a free one for "
        "the player. End that process, or choose another block of ports with --base-port.",
        env_id=place.env_id,
        incarnation=place.incarnation,
    )


def listening_socket(address: str, port: int) -> socket.socket:
    """A socket that listens there, and nowhere else. Raises OSError.

    Connections of the past in TIME_WAIT are no obstacle, a listener is.
    """
    listener = _bound_socket(address, port)
    try:
        listener.listen(16)
    except BaseException:
        listener.close()
        raise
    return listener


def _bound_socket(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        stack.pop_all()
    return listener


def ports_are_free(ports: Sequence[int], bind: str = "") -> bool:
    """True when every one of these ports could be served now."""
    try:
        for port in ports:
            usable_addresses(bind, port, Place(-1))
    except PortInUseError:
        return False
    return True


class PortClaim:
    """Ports that no other run chooses meanwhile. `release` gives them back, and so does the end of the process."""

    def __init__(self, sockets: contextlib.ExitStack) -> None:
        self._sockets = sockets

    def release(self) -> None:
        """Gives the ports back; may be called twice."""
        self._sockets.close()


def claim_ports(ports: Sequence[int], bind: str = "") -> PortClaim | None:
    """A claim to these ports, or None when one of them is served or claimed already.

    An EnvWorker serves its players' ports seconds after they were chosen. So that runs that start together choose
    different ones, each first binds the datagram sockets of the same numbers: a system gives those to one process.
    """
    with contextlib.ExitStack() as sockets:
        for port in ports:
            claim = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                claim.bind((LOOPBACK[0], port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return None
                # Where datagrams are not allowed, the choice is made without a claim.
        return PortClaim(sockets.pop_all()) if ports_are_free(ports, bind) else None


def _probe(address: str, port: int) -> None:
    # It never listens: a process that is started meanwhile holds a copy until it becomes another program, and a
    # listener that is held so would be in the way of the one that follows.
    _bound_socket(address, port).close()


def _owner(port: int) -> str:
    """`pid 12 (name)` of the listener, or nothing when the system does not tell."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if (
                connection.status == psutil.CONN_LISTEN
                and connection.laddr
                and connection.laddr.port == port
                and connection.pid
            ):
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
