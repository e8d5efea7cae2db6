"""What Ctrl-C does to a player's process before it has anything to put in order, and while it has.

Python answers Ctrl-C with an exception, which nobody catches while modules are loaded. A command begins with the
system's own answer instead, which ends the process. Programs that import us keep what they have, and so does a process
that was told to ignore Ctrl-C, as trainers tell their players.
"""

from __future__ import annotations

import signal


def end_silently() -> None:
    """From now on Ctrl-C ends this process at once, by the signal."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt once more, for whoever has something to close."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
