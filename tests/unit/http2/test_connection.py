"""Both sides of a connection talk with the h2 library, whose windows, frame sizes and rules are its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.http2 import frames
from runtime.http2.connection import MessageEnded
from runtime.http2.frames import ErrorCode, Http2Error
from runtime.http2.header_blocks import write_block
from runtime.http2.unary import Answer, Call, CallGivenUp, ClientSide, ServerSide, Status, framed

PATH = "/service/Method"
REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "localhost:1"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]
sizes = st.sampled_from((0, 1, 5, 16_379, 16_380, 70_000, 200_000))


def body_of(size: int) -> bytes:
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The same bytes in pieces."""
    places = sorted({each % (len(data) + 1) for each in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


class H2Client:
    """A client of the other make. window: how much it takes on a stream before it says more."""

    def __init__(self, window: int = 65_535) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.unsent = b""
        self.stream = 0
        self.bodies: dict[int, bytes] = {}
        self.statuses: dict[int, str] = {}

    def call(self, body: bytes) -> int:
        self.stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(self.stream, REQUEST)
        self.unsent = framed(body)
        self.push()
        return self.stream

    def push(self) -> None:
        while self.unsent:
            size = min(
                len(self.unsent), self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size
            )
            if size == 0:
                return
            self.h2.send_data(self.stream, self.unsent[:size], end_stream=size == len(self.unsent))
            self.unsent = self.unsent[size:]

    def hear(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                status = {str(name): str(value) for name, value in event.headers}.get("grpc-status")
                if status is not None:
                    self.statuses[event.stream_id] = status
        self.push()


def talk(client: H2Client, server: ServerSide, cuts: Sequence[int] = ()) -> list[Call | CallGivenUp]:
    """Carries bytes both ways until nobody has any."""
    brought: list[Call | CallGivenUp] = []
    while True:
        up, down = client.h2.data_to_send(), server.take_outgoing()
        if not up and not down:
            return brought
        for piece in cut(up, cuts):
            brought += server.receive(piece)
        for piece in cut(down, cuts):
            client.hear(piece)


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=4), st.lists(st.integers(0, 300_000), max_size=6))
def test_calls_of_any_size_come_and_are_answered_however_the_bytes_are_cut(
    calls: list[tuple[int, int]], cuts: list[int]
) -> None:
    client, server = H2Client(window=20_000), ServerSide()
    for asked, answered in calls:
        stream = client.call(body_of(asked))
        assert talk(client, server, cuts) == [Call(stream, PATH, body_of(asked))]
        server.answer(stream, body_of(answered))
        assert talk(client, server, cuts) == []
        assert client.bodies[stream] == framed(body_of(answered))
        assert client.statuses[stream] == "0"


def test_a_refusal_carries_its_reason_and_the_connection_goes_on() -> None:
    client, server = H2Client(), ServerSide()
    talk(client, server)
    stream = client.call(b"one")
    talk(client, server)
    server.refuse(stream, Status.RESOURCE_EXHAUSTED, "no room: 50 % \n…")
    talk(client, server)
    assert client.statuses[stream] == "8"
    again = client.call(b"two")
    assert talk(client, server) == [Call(again, PATH, b"two")]


def test_a_message_that_is_too_long_is_told_with_its_size_before_it_has_come() -> None:
    client, server = H2Client(), ServerSide(body_bytes_max=1000)
    stream = client.call(body_of(200_000))
    brought = talk(client, server)
    assert brought == [Call(stream, PATH, b"", 200_000)]
    client, server = H2Client(), ServerSide(body_bytes_max=1000)
    stream = client.call(body_of(1000))
    assert talk(client, server) == [Call(stream, PATH, body_of(1000))]


def test_a_call_that_is_given_up_is_told_and_its_answer_goes_nowhere() -> None:
    client, server = H2Client(), ServerSide()
    stream = client.call(b"one")
    talk(client, server)
    client.h2.reset_stream(stream)
    assert talk(client, server) == [CallGivenUp(stream)]
    server.answer(stream, b"late")
    assert server.take_outgoing() == b""


@pytest.mark.parametrize(
    ("head", "raw", "status"),
    [
        ((":method", "GET"), framed(b"x"), None),
        (("content-type", "text/html"), framed(b"x"), None),
        (None, b"\x01\x00\x00\x00\x01x", "12"),
        (None, b"\x00\x00\x00\x00\x02x", "13"),
        (None, b"\x00\x00", "13"),
    ],
)
def test_what_is_no_plain_call_is_refused(head: tuple[str, str] | None, raw: bytes, status: str | None) -> None:
    client, server = H2Client(), ServerSide()
    fields = [head if head is not None and name == head[0] else (name, value) for name, value in REQUEST]
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, fields)
    client.h2.send_data(stream, raw, end_stream=True)
    assert talk(client, server) == []
    assert client.statuses.get(stream) == status


def test_padding_priorities_pings_and_long_headers_are_understood() -> None:
    client, server = H2Client(), ServerSide()
    stream = client.h2.get_next_available_stream_id()
    long = [(f"x-{number}", "v" * 1000) for number in range(40)]  # more than one frame: CONTINUATION
    client.h2.send_headers(stream, [*REQUEST, *long])
    client.h2.ping(b"12345678")
    client.h2.send_data(stream, framed(b"padded"), end_stream=True, pad_length=100)
    assert talk(client, server) == [Call(stream, PATH, b"padded")]
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, REQUEST, priority_weight=7, priority_depends_on=0, priority_exclusive=False)
    client.h2.send_data(stream, framed(b"first"), end_stream=True)
    assert talk(client, server) == [Call(stream, PATH, b"first")]


class H2Server:
    """A server of the other make, which answers each call with `answered`."""

    def __init__(self, answered: bytes, window: int) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.unsent = framed(answered)
        self.body = b""
        self.status = "0"
        self.stream = 0

    def hear(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.stream = event.stream_id
                self.h2.send_headers(self.stream, [(":status", "200"), ("content-type", "application/grpc")])
        self.push()

    def push(self) -> None:
        while self.stream and self.unsent:
            size = min(
                len(self.unsent), self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size
            )
            if size == 0:
                return
            self.h2.send_data(self.stream, self.unsent[:size])
            self.unsent = self.unsent[size:]
            if not self.unsent:
                trailers = [("grpc-status", self.status), ("grpc-message", "why%20not")]
                self.h2.send_headers(self.stream, trailers, end_stream=True)


def ask(client: ClientSide, server: H2Server, cuts: Sequence[int] = ()) -> list[Answer]:
    answers: list[Answer] = []
    while True:
        up, down = client.take_outgoing(), server.h2.data_to_send()
        if not up and not down:
            return answers
        for piece in cut(up, cuts):
            server.hear(piece)
        for piece in cut(down, cuts):
            answers += client.receive(piece)


@given(sizes, sizes, st.sampled_from((1_000, 65_535, 1 << 20)), st.lists(st.integers(0, 300_000), max_size=6))
def test_a_client_asks_and_is_answered_within_any_window(
    asked: int, answered: int, window: int, cuts: list[int]
) -> None:
    client = ClientSide(authority="localhost:1", path=PATH, user_agent="test")
    server = H2Server(body_of(answered), window)
    ask(client, server)
    stream = client.call(body_of(asked))
    assert ask(client, server, cuts) == [Answer(stream, Status.OK, body_of(answered))]
    assert server.body == framed(body_of(asked))
    assert client.is_ready


def test_a_status_and_its_text_reach_the_client() -> None:
    client, server = ClientSide(authority="a", path=PATH, user_agent="test"), H2Server(b"x", 65_535)
    server.status = "8"
    stream = client.call(b"one")
    assert ask(client, server) == [Answer(stream, 8, text="why not")]


def test_a_server_that_leaves_is_not_called_again() -> None:
    client, server = ClientSide(authority="a", path=PATH, user_agent="test"), H2Server(b"x", 65_535)
    ask(client, server)
    server.h2.close_connection()
    ask(client, server)
    with pytest.raises(Http2Error, match="takes no more calls"):
        client.call(b"one")


def opened() -> tuple[H2Client, ServerSide]:
    client, server = H2Client(), ServerSide()
    talk(client, server)
    return client, server


@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_is_an_event_or_a_broken_rule(data: bytes, is_greeted: bool) -> None:  # noqa: FBT001
    _, server = opened() if is_greeted else (None, ServerSide())
    try:
        server.receive(data)
    except Http2Error:
        assert server.take_outgoing()


frame_kinds = st.integers(0, 12)


@given(st.lists(st.tuples(frame_kinds, st.integers(0, 255), st.integers(0, 5), st.binary(max_size=40)), max_size=5))
def test_any_frames_are_an_event_or_a_broken_rule(frames_: list[tuple[int, int, int, bytes]]) -> None:
    client, server = opened()
    client.call(b"one")
    talk(client, server)
    data = b"".join(frames.frame(kind, flags, stream, payload) for kind, flags, stream, payload in frames_)
    try:
        server.receive(data)
    except Http2Error:
        assert bytes([frames.GOAWAY]) in server.take_outgoing()


RULES: list[tuple[bytes, str, int]] = [
    (b"GET / HTTP/1.1\r\n\r\n", "no HTTP/2", ErrorCode.PROTOCOL_ERROR),
    (frames.PREFACE + frames.frame(frames.PING, 0, 0, bytes(8)), "expected SETTINGS", ErrorCode.PROTOCOL_ERROR),
]
GREETED: list[tuple[bytes, str, int]] = [
    (frames.frame(frames.DATA, 0, 99, b"x"), "never opened", ErrorCode.PROTOCOL_ERROR),
    (frames.frame(frames.HEADERS, 4, 2, b"\x82"), "even number", ErrorCode.PROTOCOL_ERROR),
    (frames.frame(frames.PING, 0, 0, b"short"), "5 bytes", ErrorCode.FRAME_SIZE_ERROR),
    (frames.frame(frames.WINDOW_UPDATE, 0, 0, bytes(4)), "by nothing", ErrorCode.PROTOCOL_ERROR),
    (frames.window_update(0, frames.WINDOW_MAX), "a window of more", ErrorCode.FLOW_CONTROL_ERROR),
    (frames.settings(max_frame_size=5), "largest frame", ErrorCode.PROTOCOL_ERROR),
    (frames.settings(initial_window_size=1 << 31), "a window of", ErrorCode.FLOW_CONTROL_ERROR),
    (frames.frame(frames.SETTINGS, 0, 0, b"12345"), "settings of 5", ErrorCode.FRAME_SIZE_ERROR),
    (frames.frame(frames.SETTINGS, 0, 1), "settings on a stream", ErrorCode.PROTOCOL_ERROR),
    (frames.frame(frames.PUSH_PROMISE, 4, 1, bytes(8)), "pushed", ErrorCode.PROTOCOL_ERROR),
    (frames.frame(frames.CONTINUATION, 4, 1, b""), "continuation of nothing", ErrorCode.PROTOCOL_ERROR),
    (frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.PING, 0, 0, bytes(8)), "interrupted", 1),
    (frames.frame(frames.HEADERS, 4, 1, b"\xff\xff\xff"), "cannot be read", ErrorCode.COMPRESSION_ERROR),
    (frames.frame(frames.HEADERS, 12, 1, b"\x09x"), "padding", ErrorCode.PROTOCOL_ERROR),
    (b"\xff\xff\xff" + bytes(6), "16777215 bytes", ErrorCode.FRAME_SIZE_ERROR),
    (
        frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.CONTINUATION, 0, 1, bytes(16_000)) * 5,
        "headers of more",
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
]


@pytest.mark.parametrize(("data", "words", "code"), RULES + GREETED, ids=range(len(RULES + GREETED)))
def test_a_broken_rule_is_named_and_told_to_the_peer(data: bytes, words: str, code: int) -> None:
    server = ServerSide() if (data, words, code) in RULES else opened()[1]
    server.take_outgoing()
    with pytest.raises(Http2Error, match=words) as caught:
        server.receive(data)
    assert caught.value.code == code
    told = server.take_outgoing()
    assert told[3] == frames.GOAWAY
    assert int.from_bytes(told[13:17], "big") == code


def test_more_streams_than_announced_are_refused_and_the_others_go_on() -> None:
    _, server = opened()
    block = write_block(REQUEST)
    for stream in range(1, 203, 2):
        assert server.receive(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block)) == []
    assert server.take_outgoing() == frames.reset(201, ErrorCode.REFUSED_STREAM)
    body = frames.frame(frames.DATA, frames.END_STREAM, 1, framed(b"one"))
    assert server.receive(body) == [Call(1, PATH, b"one")]


def test_credit_is_returned_before_it_runs_out() -> None:
    client, server = opened()
    client.h2.send_headers(1, REQUEST)
    server.receive(client.h2.data_to_send())
    chunk = frames.frame(frames.DATA, 0, 1, bytes(16_384))
    server._connection._credit_used = (1 << 30) - 16_384
    server.receive(chunk)
    assert server.take_outgoing() == frames.window_update(0, 1 << 30)


def test_an_event_has_the_trailers_of_its_message() -> None:
    assert MessageEnded(1, {}, b"", {"grpc-status": "0"}).trailers == {"grpc-status": "0"}
