"""Ports for tests that serve players."""

import random

from runtime.players.ports import ports_are_free

_CHOICE = random.SystemRandom()


def free_port() -> int:
    """A port that is free on the loopback addresses, below those that systems give to clients."""
    for _ in range(100):
        port = _CHOICE.randrange(10_240, 32_000)
        if ports_are_free([port]):
            return port
    raise RuntimeError("no free port in 100 draws")
