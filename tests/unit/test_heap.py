"""Memory that was freed is kept or given back, as a process asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux' C library is told anything")

PROGRAM = """
import ctypes, resource, sys
from runtime import heap
if sys.argv[1] == "kept":
    heap.keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
pages = []
for _ in range(20):
    before = faults()
    pieces = [library.malloc(1 << 20) for _ in range(20)]
    for piece in pieces:
        ctypes.memset(ctypes.c_void_p(piece), 1, 1 << 20)
    for piece in pieces:
        library.free(ctypes.c_void_p(piece))
    pages.append(faults() - before)
print(sum(pages[10:]))
kept = int(open("/proc/self/statm").read().split()[1])
heap.give_back_memory()
print(kept - int(open("/proc/self/statm").read().split()[1]))
"""


def _page_faults_and_pages_given_back(how: str) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True)
    faults, given = done.stdout.split()
    return int(faults), int(given)


def test_kept_memory_costs_no_page_faults_and_goes_back_when_asked() -> None:
    if "glibc" not in _c_library():
        pytest.skip("another C library than glibc")
    faults, _ = _page_faults_and_pages_given_back("default")
    kept_faults, given = _page_faults_and_pages_given_back("kept")
    assert kept_faults < 100 < faults
    assert given > 1000


def _c_library() -> str:
    import platform  # noqa: PLC0415

    return platform.libc_ver()[0]
