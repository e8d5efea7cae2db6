"""Our actor system changes nothing for Thespian's own ones in the same process."""

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorSystem
from thespian.system.transport import TCPTransport, TransmitIntent, streamBuffer

from runtime.actors.system import open_actor_system
from runtime.actors.transport import listen_on_loopback
from tests.actors.samples import Echo, Plain
from tests.actors.steps import ANSWER_S, started

# Stock systems leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(params=["simpleSystemBase", "multiprocTCPBase"])
def stock(request: pytest.FixtureRequest) -> Iterator[Any]:
    with listen_on_loopback() as free:
        port = free.getsockname()[1]
    capabilities = (
        {}
        if request.param == "simpleSystemBase"
        else {
            "Admin Port": port,
            "Process Startup Method": "spawn",
        }
    )
    system = ActorSystem(request.param, capabilities, transientUnique=True)
    yield system
    system.shutdown()
    gc.collect()


def test_a_stock_system_works_before_during_and_after_ours(stock: Any, log_file: Path) -> None:
    plain = stock.createActor(Plain)
    assert stock.ask(plain, "before", ANSWER_S) == "before"
    with open_actor_system(run_id="ours", log_file=log_file) as ours:
        echo = started(ours, Echo)
        for number in range(10):
            assert stock.ask(plain, number, ANSWER_S) == number
            assert ours.ask(echo, number, ANSWER_S)[1] == number
        another = stock.createActor(Plain)
        assert stock.ask(another, "during", ANSWER_S) == "during"
    assert stock.ask(plain, "after", ANSWER_S) == "after"
    assert stock.ask(another, "after", ANSWER_S) == "after"
    assert stock.ask(stock.createActor(Plain), "new", ANSWER_S) == "new"


def test_thespians_globals_are_not_touched(log_file: Path) -> None:
    before = (TCPTransport.serializer, streamBuffer.ackMsg, TransmitIntent.identify)
    with open_actor_system(run_id="ours", log_file=log_file) as ours:
        started(ours, Echo)
        assert (TCPTransport.serializer, streamBuffer.ackMsg, TransmitIntent.identify) == before
        assert TCPTransport.serializer is pickle
        assert not hasattr(ActorSystem, "systemBase")
