"""Messages on their way between actors: pickled once, where the sender can be told what cannot be sent."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

from thespian.system.addressManager import CannotPickleAddress

from runtime.errors import ActorProtocolError

PICKLE_PROTOCOL: Final = 5
DEPTH_MAX: Final = 20


class UnsendableError(ActorProtocolError):
    """A message holds something that cannot be pickled."""


class Envelope:
    """A message under way.

    Thespian asks for the text of what it sends and receives, several times each, for logs that are off: of a message
    with arrays that costs more than sending it. The text of an envelope is constant. The payload is pickled when the
    envelope is made, so later changes of the message do not reach the receiver.
    """

    __slots__ = ("payload",)

    def __init__(self, payload: object) -> None:
        self.payload = payload

    def __reduce__(self) -> tuple[type[Envelope], tuple[object]]:
        return Envelope, (self.payload,)

    def __str__(self) -> str:
        return "Envelope"

    __repr__ = __str__

    @classmethod
    def of(cls, message: object) -> Envelope:
        """`message` ready to be sent. Raises UnsendableError, naming type and field, if it cannot be pickled."""
        pickled = _pickled(message)
        # The address of a child that has not reported yet cannot be pickled now; Thespian waits with such a message.
        return cls(message if pickled is None else pickled)

    def open(self) -> Any:  # whatever was put in
        """The message. May raise whatever unpickling it raises."""
        return pickle.loads(self.payload) if isinstance(self.payload, bytes) else self.payload


def check_sendable(message: object) -> None:
    """Raises UnsendableError, naming type and field, if `message` cannot be sent to an actor."""
    _pickled(message)


def _pickled(message: object) -> bytes | None:
    """The bytes of `message`; None if only the address of a child still to come is in the way."""
    try:
        return pickle.dumps(message, PICKLE_PROTOCOL)
    except CannotPickleAddress:
        return None
    except Exception as error:
        path, culprit = _culprit(message)
        where = f"its field {path}" if path else "it"
        raise UnsendableError(
            f"a message of type {type(message).__name__} cannot be sent: {where} is of type "
            f"{type(culprit).__module__}.{type(culprit).__qualname__}, which cannot be pickled "
            f"({type(error).__name__}: {error}). Send data only: numbers, text, arrays, frozen dataclasses of those."
        ) from error


def _culprit(value: object) -> tuple[str, object]:
    """The path to the deepest part that cannot be pickled, and that part."""
    path = ""
    for _ in range(DEPTH_MAX):
        for name, part in _parts(value):
            if not _can_be_pickled(part):
                path, value = path + name, part
                break
        else:
            break
    return path.removeprefix("."), value


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value, PICKLE_PROTOCOL)
    except Exception:  # noqa: BLE001 - as in _pickled
        return False
    return True


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Named parts of a container, dataclass or plain object."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
