"""Memory of simulations: freed between them, not during them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_after() -> Iterator[None]:
    """Inside, nothing looks for cycles of objects; those that were made inside are freed at its end.

    A simulation makes objects by the thousand and most of them go by themselves. Looking for the others while it runs
    takes a third of its time, and more in a process that holds much else: all of it would be walked through again and
    again. What is held already is left out of the search, so that the end of a block is cheap.
    """
    was_on, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not was_frozen:
            gc.unfreeze()
        if was_on:
            gc.enable()
