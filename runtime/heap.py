"""Memory that was freed goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import sys


def give_back_memory() -> None:
    """Returns to the system what the C library keeps for later; on other systems than Linux nothing happens."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
