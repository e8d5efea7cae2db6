"""Memory that was freed: the C library keeps it where it is needed again at once, and gives it back where it piles up.

Nothing happens on other systems than Linux, or with another C library than glibc.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

KEPT_BYTES = 32 << 20
"""So much free memory at the end of a heap stays, and pieces up to this size come from it: glibc's highest bound."""
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """From now on this process asks the system for memory once and not at every step.

    By default glibc returns pieces of 128 KiB and more at once: an update that needs a hundred of them pays thousands
    of page faults, and an EnvWorker moves the end of its heap at every third exchange.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)


def give_back_memory() -> None:
    """Returns to the system what the C library keeps for later."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
