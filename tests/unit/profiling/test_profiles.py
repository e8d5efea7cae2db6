"""Profiles: what a look is about, what a process writes of itself, and the reports made of that."""

import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.acting.replica import PolicyReplica
from runtime.actors.controller_part import Background
from runtime.actors.deathwatch import _DeadMan
from runtime.actors.worker_part import WorkerPart
from runtime.players.conversation import Conversation
from runtime.profiling.flame import WIDTH, flame_graph
from runtime.profiling.labels import WAITING, label
from runtime.profiling.report import FLAMES, FOLDED, TABLE, ProcessProfile, folded, read_profiles, table, write_report
from runtime.profiling.sampler import Sampler
from runtime.profiling.traffic import Sent, Traffic

DEADLINE_S = 30.0
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("stack", "about"),
    [
        (("asyncio.events:Handle._run", "selectors:EpollSelector.select"), WAITING),
        (("runtime.actors.engine:WorkerEngine._step", "runtime.acting.replica:PolicyReplica.act", "numpy:sum"), "act"),
        (("runtime.players.grpc_link:X", "runtime.players.conversation:Conversation.accept", "google:parse"), "decode"),
        (("runtime.players.grpc_link:X", "runtime.players.conversation:Conversation.step_order"), "encode"),
        (("runtime.players.grpc_link:X", "runtime.players.rows:RowReader.read"), "decode"),
        (("runtime.players.server:X", "asyncio.selector_events:_SelectorSocketTransport.write"), "gRPC"),
        (("trainers.learner:update", "tensorflow.python.eager.execute:quick_execute"), "learn"),
        (("somebody:else",), "other"),
        ((), WAITING),
    ],
)
def test_the_innermost_known_function_says_what_a_look_is_about(stack: Sequence[str], about: str) -> None:
    assert label(stack) == about


def test_the_functions_that_labels_name_exist() -> None:
    for owner, name in (
        (Conversation, "step_order"),
        (PolicyReplica, "act"),
        (PolicyReplica, "install"),
        (WorkerPart, "_run"),
        (WorkerPart, "_send"),
        (Background, "_run"),
        (_DeadMan, "_wait"),
    ):
        assert hasattr(owner, name), f"labels speak of {owner.__name__}.{name}"


def busy(until: threading.Event) -> None:
    """Computes until it is told to stop."""
    while not until.is_set():
        sum(range(1000))


def test_a_sampler_sees_what_a_busy_thread_does_and_writes_it_down(tmp_path: Path) -> None:
    stop = threading.Event()
    worker = threading.Thread(target=busy, args=(stop,), name="busy one")
    sampler = Sampler("EnvWorker 3", tmp_path / "profile")
    worker.start()
    sampler.start()
    worker.join(0.3)  # it does not end by itself: this is how long it is looked at
    sampler.close()
    stop.set()
    worker.join(DEADLINE_S)
    (profile,) = read_profiles(tmp_path / "profile")
    assert profile.role == "EnvWorker 3"
    assert profile.looks > 3
    seen = [stack for thread, stack in profile.stacks if thread == "busy one"]
    assert any(function.endswith("test_profiles:busy") for stack in seen for function in stack)


def profile(role: str, stacks: dict[tuple[str, tuple[str, ...]], int]) -> ProcessProfile:
    """What a process could have written."""
    looks = max(stacks.values(), default=1)
    sent = {"StepsTaken": Sent(3, 1_500)}
    threads = {"EnvWorker 0": 0.75}
    return ProcessProfile(
        role=role, pid=7, seconds=2.0, cpu_seconds=1.0, looks=looks, threads=threads, sent=sent, stacks=stacks
    )


def test_the_table_tells_shares_of_a_threads_time_and_what_was_sent() -> None:
    acting = ("EnvWorker 0", ("runtime.acting.replica:PolicyReplica.act",))
    waiting = ("EnvWorker 0", ("selectors:EpollSelector.select",))
    idle = ("dead-man", ("runtime.actors.deathwatch:_DeadMan._wait",))
    each = profile("EnvWorker 0", {acting: 25, waiting: 75, idle: 100})
    text = table([each])
    assert "EnvWorker 0               0.8 s wait 75.0%, act 25.0%" in text
    assert "dead-man" not in text
    assert "sent StepsTaken: 3 messages, 1,500 bytes" in text
    assert folded([each]) == [(("EnvWorker 0", "EnvWorker 0", "runtime.acting.replica:PolicyReplica.act"), 25)]


def test_a_report_holds_a_table_stacks_and_a_picture_and_passes_over_what_is_torn(tmp_path: Path) -> None:
    samples = tmp_path / "profile"
    sampler = Sampler("TrainerController", samples)
    sampler.start()
    sampler.close()
    (samples / "EnvWorker-0-12.json").write_text('{"role": "Env')
    text = write_report(samples, tmp_path)
    assert text.startswith("TrainerController (pid ")
    assert (tmp_path / TABLE).read_text() == text
    assert (tmp_path / FOLDED).exists()
    assert ET.parse(tmp_path / FLAMES).getroot().tag == f"{SVG}svg"  # noqa: S314 - our own file


@given(st.dictionaries(st.lists(st.text("abc<&", min_size=1), min_size=1, max_size=6).map(tuple), st.integers(1, 99)))
def test_a_flame_graph_is_valid_and_each_box_lies_within_the_one_above(stacks: dict[tuple[str, ...], int]) -> None:
    root = ET.fromstring(flame_graph(sorted(stacks.items())))  # noqa: S314 - our own text
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in root.iter(f"{SVG}rect"):
        rows.setdefault(float(box.get("y", "")), []).append((float(box.get("x", "")), float(box.get("width", ""))))
    assert len(rows[0.0]) == 1
    tops = sorted(rows)
    for above, below in pairwise(tops):
        for left, width in rows[below]:
            assert any(x - 0.02 <= left and left + width <= x + w + 0.12 for x, w in rows[above])
    assert all(left + width <= WIDTH + 0.2 for boxes in rows.values() for left, width in boxes)


def test_traffic_counts_messages_and_bytes_by_type() -> None:
    traffic = Traffic()
    traffic.note(Sent(0, 0), b"12345")
    traffic.note(Sent(0, 0), b"678")
    traffic.note("not pickled yet", None)
    assert traffic.sent() == {"Sent": Sent(2, 8), "str": Sent(1, 0)}
