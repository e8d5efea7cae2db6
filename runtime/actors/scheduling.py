"""How the processes of a run share cores that all of them could fill."""

from __future__ import annotations

import contextlib
import os


def take_turns() -> None:
    """From now on this thread, and threads and processes that it starts, does not interrupt others when it wakes.

    An order wakes a player, and by default the player may push aside the very EnvWorker that is about to wake the next
    one. Under SCHED_BATCH it waits until a core is free or its turn has come, so each works on while its data are in
    the caches. Nothing happens where the system has no such policy or does not allow it, nor to a policy that somebody
    has chosen.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
