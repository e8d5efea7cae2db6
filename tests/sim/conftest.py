"""Options of the simulator: how many seeds to simulate, and from which on."""

from __future__ import annotations

import pytest

CHUNK = 500
# What every run of the tests simulates: 70 to 90 s of one core.
QUICK_COUNT = 15_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Seen when this folder, or a file in it, is named on the command line."""
    group = parser.getgroup("simulator")
    group.addoption("--sim-first", type=int, default=0, help="first seed to simulate")
    group.addoption("--sim-count", type=int, default=QUICK_COUNT, help="how many seeds to simulate")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `seeds` to tests that ask for them, in chunks that can run side by side."""
    if "seeds" not in metafunc.fixturenames:
        return
    first = metafunc.config.getoption("sim_first", 0)
    end = first + metafunc.config.getoption("sim_count", QUICK_COUNT)
    chunks = [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]
    metafunc.parametrize("seeds", chunks, ids=lambda each: f"seeds {each.start}-{each.stop - 1}")
