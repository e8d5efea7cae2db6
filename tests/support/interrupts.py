"""Ctrl-C for code that runs in this process, at a moment that is chosen by what can be seen."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

LOOK_S = 0.01


@contextlib.contextmanager
def ctrl_c(is_time: Callable[[], object]) -> Iterator[None]:
    """One SIGINT once `is_time` says so, which is asked every 10 ms while the block runs; only in the main thread."""

    def look(*_: object) -> None:
        if is_time():
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    except KeyboardInterrupt:  # it would end the whole test session
        raise AssertionError("nobody took Ctrl-C") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
