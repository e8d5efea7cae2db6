"""What a look sees of a thread: its frames in order, whatever it does, and nothing of one that has ended."""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from runtime.profiling.sampler import DEPTH_MAX, frames_of

DEADLINE_S = 30.0


def names_of(ident: int) -> list[str]:
    return [each.f_code.co_name for each in frames_of(ident)]


@contextmanager
def running(work: Callable[[threading.Event, threading.Event], None]) -> Iterator[int]:
    """A thread in the middle of `work`, which says where it has come to and goes on when told."""
    there, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(there, leave))
    thread.start()
    try:
        assert there.wait(DEADLINE_S)
        assert thread.ident is not None
        yield thread.ident
    finally:
        leave.set()
        thread.join(DEADLINE_S)


def outer(there: threading.Event, leave: threading.Event) -> None:
    inner(there, leave)


def inner(there: threading.Event, leave: threading.Event) -> None:
    there.set()
    assert leave.wait(DEADLINE_S)


def test_the_innermost_frame_comes_first_and_a_thread_that_has_ended_has_none() -> None:
    with running(outer) as ident:
        names = names_of(ident)
        assert names.index("inner") + 1 == names.index("outer") < names.index("run")
    assert names_of(ident) == []


def test_of_a_deep_recursion_the_innermost_frames_are_kept() -> None:
    def down(there: threading.Event, leave: threading.Event, depth: int = 3 * DEPTH_MAX) -> None:
        if depth:
            down(there, leave, depth - 1)
        else:
            inner(there, leave)

    with running(down) as ident:
        names = names_of(ident)
        assert len(names) == DEPTH_MAX
        assert "inner" in names
        assert names[-1] == "down"


def test_coroutines_that_come_and_go_have_frames_and_nothing_else() -> None:
    class Leaf:
        def __await__(self) -> Generator[None]:
            yield

    async def branch(leave: threading.Event) -> None:
        while not leave.is_set():
            await Leaf()

    def loop(there: threading.Event, leave: threading.Event) -> None:
        there.set()
        asyncio.run(branch(leave))

    with running(loop) as ident:
        seen = {name for _ in range(2000) for name in names_of(ident)}
        assert {"loop", "run"} <= seen
