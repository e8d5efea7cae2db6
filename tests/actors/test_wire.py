"""What a peer that holds the key may do to a connection: repeat, join and cut frames, and drop answers."""

import pickle
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress

from runtime.actors.envelopes import Envelope
from runtime.actors.frames import Frame, FrameBuffer, FrameKind, FrameSeal
from runtime.actors.system import SystemHandle, open_actor_system
from runtime.actors.transport import LoopbackAddress, listen_on_loopback
from tests.actors.samples import Witness
from tests.actors.steps import ANSWER_S, started

KEY = b"a key that this test knows, too!"
US = b"the test"


@pytest.fixture
def system(log_file: Path) -> Iterator[SystemHandle]:
    with open_actor_system(run_id="test", log_file=log_file, key=KEY) as handle:
        yield handle


@pytest.fixture
def our_end() -> Iterator[socket.socket]:
    with listen_on_loopback() as listener:
        listener.settimeout(ANSWER_S)
        yield listener


def address_of(listener: socket.socket) -> Any:
    return ActorAddress(LoopbackAddress(listener.getsockname()[1]))


def message_frame(sequence: int, sender: Any, message: object) -> bytes:
    body = pickle.dumps((sender, Envelope.of(message)))
    return FrameSeal(KEY).seal(FrameKind.MESSAGE, US, sequence, body)


def frames_from(connection: socket.socket, number: int) -> list[Frame]:
    """The next frames on a connection; its time-out is the deadline."""
    found: list[Frame] = []
    buffer, extra = FrameBuffer(FrameSeal(KEY)), b""
    while len(found) < number:
        if not buffer.isDone():
            data = extra or connection.recv(65536)
            assert data, "the connection was closed"
            extra = b""
            buffer.addMore(data)
            continue
        frame, extra = buffer.take()
        found.append(frame)
        buffer = FrameBuffer(FrameSeal(KEY))
    return found


def answers(connection: socket.socket, number: int) -> list[tuple[FrameKind, bytes, int]]:
    return [(frame.kind, frame.sender, frame.sequence) for frame in frames_from(connection, number)]


def handled(system: SystemHandle, witness: Any) -> int:
    counted: dict[str, int] = system.ask(witness, "counts", ANSWER_S)
    return counted["handled"]


def test_c38d_a_repeated_message_is_answered_twice_and_handled_once(
    system: SystemHandle, our_end: socket.socket
) -> None:
    witness = started(system, Witness)
    frame = message_frame(1, address_of(our_end), "raise")
    for _ in range(2):
        with socket.create_connection(witness.addressDetails.sockname, ANSWER_S) as connection:
            connection.sendall(frame)
            assert answers(connection, 1) == [(FrameKind.ACCEPTED, US, 1)]
    assert handled(system, witness) == 1


def test_frames_that_arrive_together_and_in_parts_are_all_heard(system: SystemHandle, our_end: socket.socket) -> None:
    witness = started(system, Witness)
    several = [message_frame(number, address_of(our_end), "raise") for number in (1, 2, 3)]
    with socket.create_connection(witness.addressDetails.sockname, ANSWER_S) as connection:
        connection.sendall(several[0] + several[1] + several[2][:50])
        assert answers(connection, 2) == [(FrameKind.ACCEPTED, US, 1), (FrameKind.ACCEPTED, US, 2)]
        connection.sendall(several[2][50:])
        assert answers(connection, 1) == [(FrameKind.ACCEPTED, US, 3)]
    assert handled(system, witness) == 3


def test_what_cannot_be_unpickled_is_answered_as_such_and_harms_nobody(
    system: SystemHandle, our_end: socket.socket
) -> None:
    witness = started(system, Witness)
    frame = FrameSeal(KEY).seal(FrameKind.MESSAGE, US, 1, b"cno_such_module\nx\n.")
    with socket.create_connection(witness.addressDetails.sockname, ANSWER_S) as connection:
        connection.sendall(frame)
        assert answers(connection, 1) == [(FrameKind.UNREADABLE, US, 1)]
    assert system.ask(witness, "unharmed", ANSWER_S) == "unharmed"
    assert address_of(our_end) != witness


def test_a_message_without_answer_is_sent_again_soon_and_before_later_ones(
    system: SystemHandle, our_end: socket.socket
) -> None:
    heard: list[tuple[int, object]] = []

    def serve() -> None:
        connection, _ = our_end.accept()
        with connection:
            connection.settimeout(ANSWER_S)
            heard.extend((frame.sequence, _message(frame)) for frame in frames_from(connection, 1))
        connection, _ = our_end.accept()
        with connection:
            connection.settimeout(ANSWER_S)
            for _ in range(2):
                (frame,) = frames_from(connection, 1)
                heard.append((frame.sequence, _message(frame)))
                connection.sendall(FrameSeal(KEY).seal(FrameKind.ACCEPTED, frame.sender, frame.sequence))

    peer = threading.Thread(target=serve)
    peer.start()
    begin = time.monotonic()
    for number in (1, 2):
        system.tell(address_of(our_end), number)
    peer.join(ANSWER_S)
    assert time.monotonic() - begin < 5.0
    (first, second, third) = heard
    assert first == second
    assert [message for _, message in heard] == [1, 1, 2]
    assert third[0] > first[0]


def test_an_answer_to_another_message_does_not_count(system: SystemHandle, our_end: socket.socket) -> None:
    heard: list[int] = []

    def serve() -> None:
        for shift in (1, 0):
            connection, _ = our_end.accept()
            with connection:
                connection.settimeout(ANSWER_S)
                (frame,) = frames_from(connection, 1)
                heard.append(frame.sequence)
                connection.sendall(FrameSeal(KEY).seal(FrameKind.ACCEPTED, frame.sender, frame.sequence + shift))
                connection.recv(1)

    peer = threading.Thread(target=serve)
    peer.start()
    system.tell(address_of(our_end), "once more")
    system.close()
    peer.join(ANSWER_S)
    assert len(heard) == 2
    assert heard[0] == heard[1]


def _message(frame: Frame) -> object:
    _, envelope = pickle.loads(frame.body)
    return envelope.open()
