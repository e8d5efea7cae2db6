"""Ports for tests that serve players."""

import random

from runtime.players.ports import ports_are_free

_CHOICE = random.SystemRandom()


def free_port(count: int = 1) -> int:
    """The first of `count` ports in a row, free on the loopback addresses, below those that systems give to clients."""
    for _ in range(100):
        port = _CHOICE.randrange(10_240, 32_000)
        if ports_are_free(range(port, port + count)):
            return port
    raise RuntimeError(f"no {count} free ports in a row in 100 draws")
