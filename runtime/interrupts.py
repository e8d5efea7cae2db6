"""What Ctrl-C does to a command of ours before it has anything to put in order, and while it has.

Python answers Ctrl-C with an exception. While modules are loaded nobody catches it, and the user would read where in
some library that was; so a command begins with the system's own answer, which ends the process. Programs that import us
keep what they have, and so does a process that was told to ignore Ctrl-C.
"""

from __future__ import annotations

import signal

INTERRUPTED = 130
"""The exit code of a command that put things in order after Ctrl-C."""


def end_silently() -> None:
    """From now on Ctrl-C ends this process at once, by the signal."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt once more, for whoever has something to clean up."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
