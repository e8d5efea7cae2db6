"""The tree of times: what actors measured on any thread, added up by name."""

import threading

from runtime.reporting.timers import Gauge, TimeBook, TimerNode, widened


def test_times_are_added_up_by_path_and_what_has_only_children_lasts_as_long_as_they() -> None:
    book = TimeBook()
    book.add("EnvWorkers", "act", seconds=1.0, count=10)
    book.add("EnvWorkers", "act", seconds=0.5, count=5)
    book.add("EnvWorkers", "exchange", seconds=4.0)
    book.add("TrainerController", seconds=9.0)
    book.add("TrainerController", "accept blocks", seconds=2.0)
    act = TimerNode(total_s=1.5, count=15)
    exchange = TimerNode(total_s=4.0, count=1, is_parallel=True)
    workers = TimerNode(total_s=5.5, count=1, children={"act": act, "exchange": exchange}, is_parallel=True)
    accept = TimerNode(total_s=2.0, count=1)
    tree = book.tree()
    assert tree == {
        "EnvWorkers": workers,
        "TrainerController": TimerNode(total_s=9.0, count=1, children={"accept blocks": accept}),
    }
    assert tree["TrainerController"].self_s == 7.0


def test_threads_add_while_the_tree_is_read() -> None:
    book = TimeBook()

    def add(thread: int) -> None:
        for number in range(200):
            book.add("learner thread", f"{thread} {number}", seconds=0.25)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        book.tree()
    for each in threads:
        each.join(10.0)
    assert book.tree()["learner thread"].total_s == 4 * 200 * 0.25


def test_a_gauge_knows_the_last_value_the_range_and_the_count() -> None:
    gauge = None
    for value in (2.0, -1.0, 0.5):
        gauge = widened(gauge, value)
    assert gauge == Gauge(value=0.5, min=-1.0, max=2.0, count=3)
