"""Options of the simulator: one seed to replay, or more seeds than the quick ones."""

from __future__ import annotations

import pytest

CHUNK = 15
QUICK_COUNT = 75


def pytest_addoption(parser: pytest.Parser) -> None:
    """Seen when this folder, or a file in it, is named on the command line."""
    group = parser.getgroup("simulator")
    group.addoption("--sim-seed", type=int, default=None, help="replay the simulations of one seed")
    group.addoption("--sim-count", type=int, default=QUICK_COUNT, help="simulate this many seeds per test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `seeds` to tests that ask for them, in chunks that can run side by side."""
    if "seeds" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("sim_seed", None)
    count = metafunc.config.getoption("sim_count", QUICK_COUNT)
    chunks = [range(seed, seed + 1)] if seed is not None else _chunks(count)
    metafunc.parametrize("seeds", chunks, ids=lambda each: f"seeds {each.start}-{each.stop - 1}")


def _chunks(count: int) -> list[range]:
    return [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
