"""An envelope carries a message as it was when it was sent; what cannot be sent is named to the sender."""

import dataclasses
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from runtime.actors.envelopes import Envelope, UnsendableError, check_sendable


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    values: tuple[object, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    step: int
    inner: Inner
    named: dict[str, object]


def test_a_message_comes_out_as_it_went_in() -> None:
    message = Outer(3, Inner((1, "two")), {"three": 3.0})
    assert pickle.loads(pickle.dumps(Envelope.of(message))).open() == message


def test_later_changes_do_not_reach_the_receiver() -> None:
    array = np.zeros(3)
    envelope = Envelope.of(array)
    array[:] = 7
    np.testing.assert_array_equal(envelope.open(), np.zeros(3))


def test_the_text_of_an_envelope_says_nothing_of_its_content() -> None:
    class Costly:
        def __repr__(self) -> str:
            raise AssertionError("asked for its text")

    envelope = Envelope(Costly())
    assert str(envelope) == repr(envelope) == "Envelope"


@pytest.mark.parametrize(
    ("message", "path", "kind"),
    [
        (Outer(1, Inner((1, threading.Lock())), {}), "inner.values[1]", "_thread.lock"),
        (Outer(1, Inner(()), {"made by": lambda: 1}), "named['made by']", "builtins.function"),
        ([{"a": threading.Lock()}], "[0]['a']", "_thread.lock"),
    ],
)
def test_c40_what_cannot_be_sent_is_named_with_type_and_field(message: Any, path: str, kind: str) -> None:
    with pytest.raises(UnsendableError) as caught:
        Envelope.of(message)
    text = str(caught.value)
    assert f"a message of type {type(message).__name__} cannot be sent: its field {path} is of type {kind}" in text
    with pytest.raises(UnsendableError):
        check_sendable(message)


def test_a_message_that_is_itself_the_culprit_is_named() -> None:
    with pytest.raises(UnsendableError, match=r"of type generator cannot be sent: it is of type builtins\.generator"):
        check_sendable(number for number in (1, 2))
